"""Where commands run: the small interface that every kind of host offers, and the quoting that all share."""

from __future__ import annotations

import shlex
import threading
from typing import Protocol, runtime_checkable

from diag_kit.errors import BadInput
from diag_kit.records import CommandResult

DEFAULT_TIMEOUT_S = 30.0
DEFAULT_MAX_BYTES = 8 * 2**20


@runtime_checkable
class Host(Protocol):
    """Runs read-only commands. Thread-safe: several probes may use one host at once."""

    @property
    def name(self) -> str:
        """As the user named it."""
        ...

    @property
    def kind(self) -> str:
        """One of ssh, openssh, local, recorded, files."""
        ...

    @property
    def about(self) -> str:
        """Empty for a live host; else what the user must know wherever results are shown ("recorded (reconstruction)")."""
        ...

    def run(
        self,
        script: str,
        *arguments: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        stop: threading.Event | None = None,
    ) -> CommandResult:
        """Run a POSIX sh script with arguments and wait for its end.

        ``script`` is a constant of the kit and reads its arguments as ``$1``, ``$2``, ... ; anything that comes from a user,
        a host or a file goes into ``arguments``, never into the script. The remote side is bounded by ``timeout``, ``nice``
        and ``LC_ALL=C``; output past ``max_bytes`` is dropped and flagged; setting ``stop`` ends it early. A command that
        fails is a result, not an exception; HostUnreachable or CommandFailed mean that it could not be run.
        """
        ...

    def close(self) -> None:
        """End the connection and whatever still runs on the other side."""
        ...


def render(script: str, arguments: tuple[str, ...]) -> str:
    """The one line that is recorded, shown and could be pasted in a shell: ``sh -c SCRIPT diag_kit ARG...``, all quoted.

    A script without arguments is still wrapped, so that a recording keys on one form.
    """
    if any("\0" in part for part in (script, *arguments)):
        raise BadInput("a command or argument holds a NUL byte", where=repr(arguments)[:200], next_step="remove it")
    return shlex.join(["sh", "-c", script, "diag_kit", *arguments])
