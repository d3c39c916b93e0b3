"""The near side of the agent: many commands at once over one stream, each waiting for its own frames.

There is no thread of our own: whoever waits reads the stream for all, one at a time, and hands the others what is theirs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from diag_kit.hosts.runner import Request
from diag_kit.hosts.shell import GRACE_S, STOP_CHECK_S, STOP_GRACE_S, Outcome, Shell, StreamEnded

MAX_HEADER_BYTES = 64


@dataclass(slots=True)
class _Call:
    """One command that is under way."""

    number: int
    out: list[bytes] = field(default_factory=list)
    err: list[bytes] = field(default_factory=list)
    received_bytes: int = 0
    begun: bool = False
    done: bool = False
    exit_status: int | None = None
    how: str = ""
    total_bytes: int = 0

    def take(self, kind: str, data: bytes, whole: bool) -> None:
        """A frame or a part of one."""
        self.received_bytes += len(data)
        self.begun = True
        if kind == "o":
            self.out.append(data)
        elif kind == "e":
            self.err.append(data)
        elif kind == "p":
            self.done = True
        elif kind == "x" and whole:
            self._end(data)

    def _end(self, data: bytes) -> None:
        status, how, _, _, out_bytes, err_bytes = data.split()
        self.total_bytes = max(int(out_bytes), int(err_bytes))
        self.exit_status, self.how, self.done = int(status), how.decode("ascii"), True


class AgentShell:
    """An agent that answered its hello on ``shell``'s stream. Thread-safe: any number of commands at once."""

    def __init__(self, shell: Shell) -> None:
        self.stream = shell.stream
        self.tools = shell.tools
        self.cpu_s = 0.0
        self.calls = 0
        """Commands under way; kept by the owner."""
        self.retired = False
        """No new command: it did not answer one in time, or its stream ended."""
        self._calls: dict[int, _Call] = {}
        self._next = 0
        self._sending = threading.Lock()
        self._state = threading.Condition()
        self._reading = False
        self._why = ""
        self._header = b""
        self._frame: tuple[str, int, int] | None = None  # kind, number, bytes that are still to come
        self._small = b""

    def run(self, asked: Request, timeout_s: float, max_bytes: int, stop: threading.Event | None) -> Outcome:
        """Never raises for what the other side does; how it went stands in the outcome."""
        begun_s = time.monotonic()
        call = self._enter()
        sizes = " ".join(str(len(part)) for part in asked.parts)
        line = f"run {call.number} {timeout_s:.3f} {max_bytes} {sizes}\n".encode("ascii")
        try:
            why = self._send(line + b"".join(asked.parts)) or self._wait(call, begun_s + timeout_s + GRACE_S, stop)
        except BaseException:  # Ctrl-C here must not leave it running there
            self._send(f"stop {call.number}\n".encode("ascii"))
            self._leave(call)
            raise
        self._leave(call)
        return _outcome(call, why, time.monotonic() - begun_s, max_bytes)

    def ping(self, timeout_s: float = 5.0) -> float:
        """Seconds of one round trip to the agent, which starts no process. Raises StreamEnded."""
        begun_s = time.monotonic()
        call = self._enter()
        try:
            why = self._send(f"ping {call.number}\n".encode("ascii")) or self._wait(call, begun_s + timeout_s, None)
        finally:
            self._leave(call)
        if why:
            raise StreamEnded(why)
        return time.monotonic() - begun_s

    def _enter(self) -> _Call:
        with self._state:
            self._next += 1
            call = self._calls[self._next] = _Call(self._next)
            return call

    def _leave(self, call: _Call) -> None:
        with self._state:
            self._calls.pop(call.number, None)

    def _send(self, data: bytes) -> str:
        try:
            with self._sending:
                self.stream.send(data)
        except StreamEnded as ended:
            self._why, self.retired = self._why or ended.why or "closed", True
            return self._why
        return ""

    def _wait(self, call: _Call, deadline: float, stop: threading.Event | None) -> str:
        """Until the call is done; else why not: "no answer", or why the stream ended."""
        asked_to_stop = False
        while not call.done:
            if self._why:
                return self._why
            now = time.monotonic()
            if now >= deadline:
                self.retired = True
                return "no answer"
            if stop is not None and not asked_to_stop and stop.is_set():
                asked_to_stop, deadline = True, min(deadline, now + STOP_GRACE_S)
                self._send(f"stop {call.number}\n".encode("ascii"))
            wait_s = deadline - now if stop is None or asked_to_stop else min(deadline - now, STOP_CHECK_S)
            self._lead_or_follow(wait_s, lambda: call.done)
        return ""

    def _lead_or_follow(self, wait_s: float, done: Callable[[], bool]) -> None:
        with self._state:
            if done():
                return
            if self._reading:
                self._state.wait(wait_s)
                return
            self._reading = True
        try:
            out, _ = self.stream.read(wait_s)
            self._feed(out)
        except StreamEnded as ended:
            self._why, self.retired = ended.why or "closed", True
        except (ValueError, IndexError):
            self._why, self.retired = "its answers cannot be read", True
        finally:
            with self._state:
                self._reading = False
                self._state.notify_all()

    def _feed(self, data: bytes) -> None:
        """Cut what came into frames. Output goes on in the parts in which it came."""
        at, size = 0, len(data)
        while at < size:
            if self._frame is None:
                end = data.find(b"\n", at, at + MAX_HEADER_BYTES)
                self._header += data[at : end if end >= 0 else size]
                if len(self._header) > MAX_HEADER_BYTES:
                    raise ValueError("no header")
                if end < 0:
                    return
                kind, number, length = self._header.split()
                self._header, at = b"", end + 1
                self._frame = (kind.decode("ascii"), int(number), int(length))
                if self._frame[2] == 0:
                    self._hand(self._frame[0], self._frame[1], b"", True)
                    self._frame = None
                continue
            kind_, number_, left = self._frame
            part = data[at : at + left] if at or left < size else data
            at += len(part)
            self._frame = (kind_, number_, left - len(part)) if left > len(part) else None
            self._hand(kind_, number_, part, self._frame is None)

    def _hand(self, kind: str, number: int, data: bytes, whole: bool) -> None:
        if kind == "x":
            self._small += data
            if not whole:
                return
            data, self._small = self._small, b""
            self.cpu_s = max(self.cpu_s, float(data.split()[3]))
        call = self._calls.get(number)
        if call is not None:
            call.take(kind, data, whole)


def _outcome(call: _Call, why: str, duration_s: float, max_bytes: int) -> Outcome:
    how = call.how if call.done else ("no answer" if why == "no answer" else "lost")
    return Outcome(
        stdout=b"".join(call.out) if len(call.out) != 1 else call.out[0],
        stderr=b"".join(call.err),
        truncated=call.total_bytes > max_bytes,
        how=how,
        exit_status=call.exit_status if how == "ended" else None,
        duration_s=duration_s,
        received_bytes=call.received_bytes,
        begun=call.begun,
        why="" if how != "lost" else why,
        reusable=call.done,
    )
