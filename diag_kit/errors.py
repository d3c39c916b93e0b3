"""The errors a user can meet. Each says what happened, where, and what to do next.

None of them ever reaches a user as a traceback: the command line prints ``str(error)``, a notebook shows it in its panel.
"""

from __future__ import annotations


class DiagError(Exception):
    """Root of every error the kit raises on purpose.

    ``what`` happened, ``where`` (host, command, file and line), and the ``next_step`` for the user; all three are printed.
    """

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        parts = [self.what]
        if self.where:
            parts.append(f"where: {self.where}")
        if self.next_step:
            parts.append(f"next:  {self.next_step}")
        return "\n".join(parts)

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: in a notebook show the sentence, not a traceback."""
        return str(self).splitlines()


class HostUnreachable(DiagError, ConnectionError):
    """The host does not answer: name, port, network, or a jump host on the way."""


class HostKeyRefused(DiagError, ConnectionError):
    """The host's key is unknown or has changed; nothing was sent to it."""


class LoginRefused(DiagError, PermissionError):
    """The host answered and did not let us in."""


class CommandFailed(DiagError, RuntimeError):
    """A command could not be run at all, or the connection broke while it ran."""


class NotRecorded(DiagError, LookupError):
    """A recording was asked for something that it does not hold."""


class NothingToObserve(DiagError, LookupError):
    """What was asked for is not there: no training, no log, no such file or function."""


class BadInput(DiagError, ValueError):
    """An argument, a file or a recording is malformed; says which and where."""


class Cancelled(DiagError):
    """The user stopped it. What had been observed until then is kept."""
