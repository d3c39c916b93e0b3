"""One logical line of a training log: what is left of the bytes once every wrapper is off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RankKind = Literal["", "global", "local", "task", "device", "file"]
"""What a rank tag counts: the global rank, the rank on its node, a Slurm task, a device, or a file's number; "" = no tag."""

StampKind = Literal["", "utc", "container", "naive", "no year", "time of day"]
"""How much a time stamp says: zone stated, a container runtime's UTC, a date without zone, a date without year, a time only."""


@dataclass(slots=True)
class Line:
    """Text between two cuts, with the physical lines it came from (1-based, within its piece).

    ``stamp_us`` is microseconds: since 1970 for dated stamps, since the start of 1970 for "no year" (which is a leap-proof
    offset inside 2000), since midnight for "time of day". ``host``: as a launcher or kubectl names it, "" where none does.
    """

    text: str
    first: int
    last: int
    rank: int | None = None
    rank_kind: RankKind = ""
    stamp_us: int | None = None
    stamp_kind: StampKind = ""
    logger: str = ""
    rich: bool = False
    host: str = ""
    parts: tuple[Line, ...] = ()
    """The lines that were joined into this one."""

    def tag(self, rank: int, kind: RankKind) -> None:
        """Note a rank; a global rank beats a launcher's local one, otherwise the first tag stays."""
        if self.rank is None or (kind == "global" and self.rank_kind != "global"):
            self.rank, self.rank_kind = rank, kind

    def piece(self, text: str) -> Line:
        """A part of this line that inherits its rank and clock."""
        return Line(
            text,
            self.first,
            self.last,
            self.rank,
            self.rank_kind,
            self.stamp_us,
            self.stamp_kind,
            self.logger,
            self.rich,
            self.host,
        )
