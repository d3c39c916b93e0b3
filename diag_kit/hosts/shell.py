"""One runner over one byte stream: sends a request, drains both streams with bounds, and says how it ended."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Protocol

from diag_kit.hosts.runner import HELLO, STOP, Request, Trailer, read_trailer

STOP_CHECK_S = 0.1
"""How often a set ``stop`` is looked at while nothing arrives."""
GRACE_S = 5.0
"""What the far side gets past its own timeout (2 s to a SIGKILL, and the way back) before we end it from here."""
STOP_GRACE_S = 4.0
DISCARD_FACTOR = 4
"""A command that prints more than this many times its limit is stopped instead of drained on."""
MAX_NOISE_BYTES = 65_536
MAX_TRAILER_BYTES = 4_096


class StreamEnded(Exception):
    """The stream is gone. ``why`` in a few words, for the error that the user sees."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class Stream(Protocol):
    """Two byte streams in, one out: an SSH channel or a child process."""

    def send(self, data: bytes) -> None:
        """Send all. Raises StreamEnded."""
        ...

    def read(self, wait_s: float) -> tuple[bytes, bytes]:
        """What arrived of standard output and standard error within ``wait_s``; both empty: nothing yet. Raises
        StreamEnded when no more can come."""
        ...

    def close(self) -> None:
        """At once, without waiting for the other side; closes the runner's input, which ends what it runs."""
        ...


class Frame:
    """Cuts one command's bytes out of a stream: after ``begin``, up to ``end``, keeping ``max_bytes`` and counting the rest.

    Big chunks are kept as they came and joined once: at 200 MB each further copy is felt.
    """

    def __init__(self, begin: bytes, end: bytes, max_bytes: int) -> None:
        self.begin, self.end, self.max_bytes = begin, end, max_bytes
        self.total_bytes = 0
        self.begun = False
        self.ended = False
        self.noise = b""
        self.after = b""
        self._chunks: list[bytes | memoryview] = []
        self._room = max_bytes
        self._held = b""  # the last bytes, which may be the start of ``end``

    def feed(self, data: bytes) -> None:
        if self.ended:
            self.after = (self.after + data)[-MAX_TRAILER_BYTES:]
            return
        if not self.begun:
            before, found, data = (self.noise + data).partition(self.begin)
            self.noise = before[-MAX_NOISE_BYTES:]
            if not found:
                return
            self.begun = True
        hold = len(self.end) - 1
        if len(data) <= hold:
            self._held, data = b"", self._held + data
        edge = (self._held + data[:hold]).find(self.end)
        at = edge - len(self._held) if edge >= 0 else data.find(self.end)  # below 0: it began in what was held
        if edge >= 0 or at >= 0:
            self._keep(self._held[: len(self._held) + min(at, 0)])
            self._keep(memoryview(data)[: max(at, 0)])
            self._held, self.ended, self.after = b"", True, data[at + len(self.end) :][-MAX_TRAILER_BYTES:]
            return
        self._keep(self._held)
        self._keep(memoryview(data)[: max(len(data) - hold, 0)])
        self._held = data[-hold:]

    def _keep(self, data: bytes | memoryview) -> None:
        self.total_bytes += len(data)
        if self._room > 0 and len(data):
            self._chunks.append(data if len(data) <= self._room else bytes(data[: self._room]))
            self._room -= len(data)

    def flush(self) -> None:
        """The stream ended without the end mark: what was held back belongs to the output."""
        self._keep(self._held)
        self._held = b""

    @property
    def kept(self) -> bytes:
        return b"".join(self._chunks)

    @property
    def truncated(self) -> bool:
        return self.total_bytes > self.max_bytes


@dataclass(slots=True)
class Outcome:
    """What one request brought. ``how``: ended, timeout, stopped, overflow (printed far past the limit), no answer, lost (the
    stream broke), cut (the runner's input ended, and it ended the command)."""

    stdout: bytes
    stderr: bytes
    truncated: bool
    how: str
    exit_status: int | None
    duration_s: float
    received_bytes: int
    begun: bool
    why: str = ""
    reusable: bool = False


class Shell:
    """A runner that has been started on ``stream``. One command at a time; the owner keeps it from being shared."""

    def __init__(self, stream: Stream, wait_s: float) -> None:
        """Wait for the runner's first line. Raises StreamEnded; its ``why`` then quotes what came instead."""
        self.stream = stream
        self.cpu_s = 0.0
        self.received_bytes = 0
        self.tools = self._hello(wait_s)

    def _hello(self, wait_s: float) -> str:
        until = time.monotonic() + wait_s
        out = err = b""
        while HELLO not in out or b"\n" not in out.partition(HELLO)[2]:
            left = until - time.monotonic()
            try:
                if left <= 0:
                    raise StreamEnded(f"no answer from its shell within {wait_s:g} s")
                more_out, more_err = self.stream.read(left)
            except StreamEnded as ended:
                said = (out + b" " + err).decode("utf-8", "replace").split()
                quoted = f'; it said "{" ".join(said)[:300]}"' if said else ""
                raise StreamEnded(ended.why + quoted) from None
            self.received_bytes += len(more_out) + len(more_err)
            out, err = (out + more_out)[-MAX_NOISE_BYTES:], (err + more_err)[-MAX_NOISE_BYTES:]
        return out.partition(HELLO)[2].partition(b"\n")[0].decode("utf-8", "replace").strip()

    def run(self, asked: Request, timeout_s: float, max_bytes: int, stop: threading.Event | None) -> Outcome:
        """Never raises for what the other side does; how it went stands in the outcome."""
        run = _Run(self, asked, timeout_s, max_bytes, stop)
        return run.drain()


class _Run:
    """The state of one command while it is drained."""

    def __init__(self, shell: Shell, asked: Request, timeout_s: float, max_bytes: int, stop: threading.Event | None) -> None:
        self.shell, self.asked, self.timeout_s, self.max_bytes, self.stop = shell, asked, timeout_s, max_bytes, stop
        self.out = Frame(asked.begin, asked.end, max_bytes)
        self.err = Frame(asked.begin, asked.end, max_bytes)
        self.received_bytes = 0
        self.started = time.monotonic()
        self.deadline = self.started + timeout_s + GRACE_S
        self.ended_by = ""  # why we asked the runner to stop; empty: we did not

    def drain(self) -> Outcome:
        how, why = "", ""
        try:
            self.shell.stream.send(self.asked.line)
            while not self._complete:
                self._end_early()
                if time.monotonic() >= self.deadline:
                    how = "no answer"
                    break
                self._read_some()
        except StreamEnded as ended:
            how, why = "lost", ended.why
        return self._outcome(how, why)

    @property
    def _complete(self) -> bool:
        return self.out.ended and self.err.ended and self.err.after.endswith(self.asked.end)

    def _read_some(self) -> None:
        wait_s = max(self.deadline - time.monotonic(), 0)
        out, err = self.shell.stream.read(min(wait_s, STOP_CHECK_S) if self._watching else wait_s)
        self.received_bytes += len(out) + len(err)
        if out:
            self.out.feed(out)
        if err:
            self.err.feed(err)

    @property
    def _watching(self) -> bool:
        return self.stop is not None and not self.ended_by

    def _end_early(self) -> None:
        """Ask the runner to end the command when the user stopped it, or when it prints without end."""
        if self.ended_by:
            return
        if self.stop is not None and self.stop.is_set():
            self.ended_by = "stopped"
        elif max(self.out.total_bytes, self.err.total_bytes) > DISCARD_FACTOR * max(self.max_bytes, 2**20):
            self.ended_by = "overflow"
        if self.ended_by:
            self.shell.stream.send(STOP)
            self.deadline = min(self.deadline, time.monotonic() + STOP_GRACE_S)

    def _outcome(self, how: str, why: str) -> Outcome:
        duration_s = time.monotonic() - self.started
        trailer = self._trailer() if not how else None
        if trailer is None:
            self.out.flush()
            self.err.flush()
        else:
            how = self._how(trailer, duration_s)
        return Outcome(
            stdout=self.out.kept,
            stderr=self.err.kept,
            truncated=self.out.truncated or self.err.truncated,
            how=how or "lost",
            exit_status=trailer.exit_status if trailer is not None and how == "ended" else None,
            duration_s=duration_s,
            received_bytes=self.received_bytes,
            begun=self.out.begun or self.err.begun,
            why=why or ("" if trailer else "its answer broke off"),
            reusable=trailer is not None,
        )

    def _trailer(self) -> Trailer | None:
        try:
            trailer = read_trailer(self.err.after[: -len(self.asked.end)])
        except ValueError:
            return None
        self.shell.cpu_s = trailer.cpu_s if trailer.cpu_s is not None else self.shell.cpu_s
        return trailer

    def _how(self, trailer: Trailer, duration_s: float) -> str:
        if trailer.how == "timeout":
            return "timeout"
        if trailer.how == "stopped":
            return self.ended_by or "cut"  # its input ended: closed here, or the connection went
        # `timeout` answers 124, or 137 when it had to send SIGKILL; a script may do the same, but not after that long.
        if trailer.exit_status in (124, 137) and duration_s >= self.timeout_s:
            return "timeout"
        return "ended"
