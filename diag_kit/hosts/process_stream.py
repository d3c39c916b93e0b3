"""A child process as a stream: the runner on this machine, or the system's ``ssh``."""

from __future__ import annotations

import os
import selectors
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from diag_kit.errors import CommandFailed
from diag_kit.hosts.shell import StreamEnded

READ_BYTES = 2**18


class ProcessStream:
    """The three pipes of a child process. ``close`` closes its input first, waits briefly, then kills it."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """Start ``arguments`` (no shell in between). Raises CommandFailed when the program is missing."""
        try:
            self.process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment) if environment is not None else None,
                bufsize=0,
                start_new_session=True,  # Ctrl-C in a terminal must not reach it: cancelling is ours to do in order
            )
        except OSError as error:
            raise CommandFailed(
                f"cannot start {arguments[0]}: {error.strerror}", where="this machine", next_step=f"install {arguments[0]}"
            ) from None
        self._in, self._out, self._err = (_pipe(pipe) for pipe in (self.process.stdin, self.process.stdout, self.process.stderr))
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ, 0)
        self._selector.register(self._err, selectors.EVENT_READ, 1)
        self._guard = threading.Lock()
        self._closing = threading.Event()

    def send(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._in.fileno(), left) :]
        except (OSError, ValueError):
            raise StreamEnded(self._why()) from None

    def read(self, wait_s: float) -> tuple[bytes, bytes]:
        chunks = [b"", b""]
        with suppress(OSError, ValueError, KeyError, RuntimeError):
            if self._closing.is_set() or not self._selector.get_map():
                raise StreamEnded(self._why())
            for key, _ in self._selector.select(wait_s):
                data = os.read(key.fd, READ_BYTES)
                if data:
                    chunks[key.data] = data
                else:
                    self._selector.unregister(key.fileobj)
            return chunks[0], chunks[1]
        raise StreamEnded(self._why())

    def _why(self) -> str:
        if self._closing.is_set():
            return "closed"
        try:
            status = self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "it closed its output"
        return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def ends_within(self, seconds: float) -> bool:
        """Wait a little for the process to end by itself."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        with self._guard:
            if self._closing.is_set():
                return
            self._closing.set()
        with suppress(OSError):
            self._in.close()
        threading.Thread(target=self._reap, name="diag_kit-reap", daemon=True).start()

    def _reap(self) -> None:
        """Wait for the end off the caller's path; the runner needs up to 2 s to end what it runs."""
        try:
            self.process.wait(3.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        with suppress(OSError, ValueError, KeyError, RuntimeError):
            self._selector.close()
        for pipe in (self._out, self._err):
            with suppress(OSError):
                pipe.close()


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe
