"""What a format hands back: records with the place of every number, so that the next line like it can be read faster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from diag_kit.observe.logs.line import RankKind
from diag_kit.observe.logs.pairs import Pair

Split = Literal["train", "val"]


@dataclass(frozen=True, slots=True)
class Cell:
    """One number of a record: the column it belongs to, its text, and where that text stands in the line."""

    column: str
    text: str
    start: int
    end: int
    duration: bool = False

    @classmethod
    def of(cls, column: str, pair: Pair) -> Cell:
        return cls(column, pair.value, pair.start, pair.end, pair.duration)


@dataclass(frozen=True, slots=True)
class Found:
    """One metric record in a text: ``start``/``end`` of what it claims, and its cells (columns are unique).

    ``lr_columns``: the cells whose printed digits make up ``lr_text``. ``step_of``: the total printed behind the step
    ("17/8862"), ``epoch_of``: behind the epoch. ``from_bar``: a progress bar's counter and postfix. ``rank_kind``: what a
    rank printed inside the record counts. ``samples_of``: the total behind a count of samples.

    ``level``: 0 for a step's main record; higher for what a framework prints beside it (1 a line without loss, 2 throughput,
    3 timers). Of train records only the lowest level present makes the table ``metrics``, so that a step counts once; the
    others make ``timings``; level 3 always does. ``counts``: what ``step`` counts, in words, "" where the form does not tell.
    ``run_steps``: the total of the run, where it stands beside an epoch too and ``step_of`` would be taken for the epoch's.
    """

    form: str
    split: Split
    cells: tuple[Cell, ...]
    start: int
    end: int
    lr_columns: tuple[str, ...] = ()
    step_of: int | None = None
    epoch_of: int | None = None
    from_bar: bool = False
    rank_kind: RankKind = ""
    level: int = 0
    counts: str = ""
    run_steps: int | None = None
    samples_of: int | None = None
