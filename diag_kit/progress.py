"""What an investigation tells whoever listens (a board, the command line) while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from diag_kit.records import Cost, Entry, Note


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of work: begun (``done`` False), or ended. ``failed`` is the sentence of what went wrong, or empty."""

    doing: str
    budget_s: float
    elapsed_s: float = 0.0
    done: bool = False
    failed: str = ""


Listener: TypeAlias = Callable[["Progress | Entry"], None]


@dataclass(frozen=True, slots=True)
class NextProbe:
    """A probe worth running next: for which cause, what it costs, and what its outcomes would rule out.

    ``probe`` names a single probe to observe; empty: the deciding test of the cause, where it has one.
    """

    cause: str
    title: str
    cost: Cost
    budget_s: float
    what_it_decides: str
    probe: str = ""

    def __repr__(self) -> str:
        return f"<{self.title} ({self.cost}, {self.budget_s:.0f} s), for {self.cause}>"


STOPPED = "Stopped by the user before the end: partial, the findings rest on what had been seen by then."
"""The note that a stopped diagnosis leaves in the ledger; every view says it at its head."""
WHOLE_AGAIN = "Diagnosed again, this time to the end."
"""The note that ends the effect of an earlier ``STOPPED``."""


def stopped_early(entries: Iterable[Entry]) -> bool:
    """Whether the newest diagnosis of a ledger was stopped by the user."""
    said = [entry.text for entry in entries if isinstance(entry, Note) and entry.text in (STOPPED, WHOLE_AGAIN)]
    return bool(said) and said[-1] == STOPPED
