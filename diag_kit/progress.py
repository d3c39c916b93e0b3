"""What an investigation tells whoever listens (a board, the command line) while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from diag_kit.records import Cost, Entry


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
