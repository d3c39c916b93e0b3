"""What a live host says beside the results: its cost so far, and the ways in which running a command can fail."""

from __future__ import annotations

from dataclasses import dataclass

from diag_kit.errors import CommandFailed
from diag_kit.records import CommandResult


@dataclass(frozen=True, slots=True)
class HostCost:
    """What watching has cost the host so far.

    ``cpu_s``: user + system CPU seconds of our shells and of everything they started and saw end, on the host's own
    account (sh's ``times``); the SSH daemon's work for us is not in it. ``bytes_received`` counts what arrived here, before
    any limit on output.
    """

    commands: int
    bytes_received: int
    cpu_s: float


class ConnectionLost(CommandFailed):
    """The connection broke while a command ran. ``partial`` is what had come until then."""

    def __init__(self, what: str, *, where: str = "", next_step: str = "", partial: CommandResult) -> None:
        super().__init__(what, where=where, next_step=next_step)
        self.partial = partial


class NoMoreSessions(Exception):
    """The host refused one more session on this connection; ``error`` is for the user if none of ours is in the way."""

    def __init__(self, error: CommandFailed) -> None:
        super().__init__(str(error))
        self.error = error
