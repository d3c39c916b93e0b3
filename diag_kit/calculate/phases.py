"""What a run spends its wall time on: start-up, first steps, steady training, evaluation, checkpoints, epoch boundaries.

The log's own times are the clock. A slow gap between two logged steps belongs to the phase that the log itself names inside it
(a validation record, a line about a checkpoint), else to the epoch boundary that it spans, else to the first steps where it
is one of them, else it is a stall without a name. Of a slow gap only what goes beyond a usual step counts; all the rest is
steady.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.statistics import Floats, stall_limit
from diag_kit.evidence import Evidence

FEWEST_GAPS = 12
"""Gaps between logged steps below which a usual one is not known."""
MOST_FIRST = 0.2
"""First steps end here at the latest, as a share of the gaps: later slow steps are no compilation."""


class Phase(StrEnum):
    """What a stretch of wall time went to."""

    START_UP = "start-up"
    RESUME = "skipping to the resume point"
    FIRST_STEPS = "first steps (compilation, warm-up)"
    STEADY = "steady training"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    EPOCH_BOUNDARY = "epoch boundary"
    STALL = "stall without a name"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the log names at ``at_s`` (seconds on the clock of the steps): its phase, and the words that say so."""

    at_s: float
    phase: Phase
    evidence: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """Wall time from ``begin_s`` to ``end_s`` in one phase; ``evidence``: the rule and what it saw."""

    phase: Phase
    begin_s: float
    end_s: float
    evidence: str

    @property
    def seconds(self) -> float:
        return self.end_s - self.begin_s


@dataclass(frozen=True, slots=True)
class Phases:
    """Stretches in order of time, and which gaps between logged steps are steady. ``note``: why nothing could be told."""

    stretches: tuple[Stretch, ...]
    steady: tuple[bool, ...]
    note: str = ""

    def frame(self) -> pd.DataFrame:
        """One row per phase seen: phase, stretches, seconds, share of the wall time covered, evidence (the first)."""
        columns = ["phase", "stretches", "seconds", "share", "evidence"]
        whole = sum(each.seconds for each in self.stretches)
        rows = []
        for phase in Phase:
            parts = [each for each in self.stretches if each.phase is phase]
            if parts:
                seconds = sum(each.seconds for each in parts)
                rows.append((str(phase), len(parts), seconds, seconds / whole if whole > 0 else np.nan, parts[0].evidence))
        return pd.DataFrame(rows, columns=columns)


def phases(
    times_s: Sequence[float],
    epochs: Sequence[float] | None = None,
    events: Sequence[Event] = (),
    started_s: float | None = None,
    resumed: bool = False,
    resolution_s: float = 0.0,
) -> Phases:
    """Phases of one run.

    ``times_s``: the first time of each logged step, ascending. ``epochs``: the epoch of each. ``started_s``: when the process
    started, on the same clock. ``resumed``: the run went on from a checkpoint, so that its start holds the skipping of batches.
    """
    at = np.maximum.accumulate(np.asarray(times_s, dtype=float)) if len(times_s) else np.empty(0)
    gaps = np.diff(at)
    if len(gaps) < FEWEST_GAPS:
        return Phases((), (True,) * len(gaps), f"{len(gaps)} gaps between logged steps are too few to tell phases")
    usual = float(np.median(gaps))
    limit = stall_limit(gaps, resolution_s)
    named = _named(at, gaps, limit, epochs, events)
    for place in range(_first_steps(gaps, limit)):
        named.setdefault(place, (Phase.FIRST_STEPS, f"the first steps took up to {gaps[0]:.3g} s, a usual one {usual:.3g} s"))
    for place in np.flatnonzero(gaps > limit).tolist():
        named.setdefault(place, (Phase.STALL, f"longer than {limit:.3g} s, and the log names no cause"))
    steady = tuple(place not in named for place in range(len(gaps)))
    return Phases((*_before(at, usual, started_s, resumed), *_stretches(at, gaps, usual, named)), steady)


def _first_steps(gaps: Floats, limit: float) -> int:
    """How many gaps, counted from the start, are slow without a break; 0 where all of the first fifth are."""
    slow = gaps > limit
    count = int(np.argmin(slow)) if not slow.all() else len(gaps)
    return count if count <= MOST_FIRST * len(gaps) else 0


def _named(
    at: Floats, gaps: Floats, limit: float, epochs: Sequence[float] | None, events: Sequence[Event]
) -> dict[int, tuple[Phase, str]]:
    """Gaps that the log explains: those with an event inside, and slow ones in which the epoch changes."""
    named: dict[int, tuple[Phase, str]] = {}
    for event in sorted(events, key=lambda each: each.at_s):
        place = int(np.searchsorted(at, event.at_s, side="left")) - 1
        # An event of no time at all (a saved file's name, a quick metric) leaves the gap a usual one.
        if 0 <= place < len(gaps) and gaps[place] > limit:
            named.setdefault(place, (event.phase, event.evidence))
    if epochs is not None and len(epochs) == len(at):
        whole = np.floor(np.asarray(epochs, dtype=float))
        for place in np.flatnonzero((np.diff(whole) > 0) & (gaps > limit)).tolist():
            says = f"epoch {whole[place]:.0f} ends and {whole[place + 1]:.0f} begins"
            named.setdefault(place, (Phase.EPOCH_BOUNDARY, says))
    return named


def _before(at: Floats, usual: float, started_s: float | None, resumed: bool) -> tuple[Stretch, ...]:
    """From the start of the process to one usual step before the first logged one. A later first record is not known."""
    if started_s is None or at[0] - usual <= started_s:
        return ()
    phase = Phase.RESUME if resumed else Phase.START_UP
    says = "from the start of the process to its first step"
    if resumed:
        says += "; the run was resumed: start-up and skipped batches together"
    return (Stretch(phase, started_s, float(at[0]) - usual, says),)


def _stretches(at: Floats, gaps: Floats, usual: float, named: dict[int, tuple[Phase, str]]) -> list[Stretch]:
    """Neighbouring gaps of one phase as one stretch; a named gap ends with a usual step, which is steady training."""
    found: list[Stretch] = []

    def add(phase: Phase, begin: float, end: float, says: str) -> None:
        if found and found[-1].phase is phase and found[-1].end_s == begin and (phase is Phase.STEADY or not says):
            found[-1] = Stretch(phase, found[-1].begin_s, end, found[-1].evidence)
        elif end > begin:
            found.append(Stretch(phase, begin, end, says))

    for place, gap in enumerate(gaps):
        begin, end = float(at[place]), float(at[place + 1])
        if place not in named:
            add(Phase.STEADY, begin, end, f"steps of about {usual:.3g} s")
            continue
        phase, says = named[place]
        turn = end if phase is Phase.FIRST_STEPS else end - min(usual, float(gap))
        add(phase, begin, turn, says)
        add(Phase.STEADY, turn, end, f"steps of about {usual:.3g} s")
    return found


def run_phases(evidence: Evidence, started_s: float | None = None) -> Phases:
    """The phases of the newest run, as its log shows them; empty with a note where the log has no times or no steps."""
    records = train_records(evidence)
    keys = records.step_keys() if records is not None else None
    if records is None or keys is None or not records.has("t") or len(keys) != len(records):
        return Phases((), (), "the log has no times for its steps")
    table = records.table
    seconds = _seconds(table["t"])
    first: dict[tuple[int, int], tuple[float, float]] = {}
    epochs = table["epoch"].astype("float64") if records.has("epoch") else pd.Series(np.zeros(len(table)))
    for key, at, epoch in zip(keys, seconds, epochs, strict=True):
        if np.isfinite(at):
            first.setdefault(key, (float(at), float(epoch)))
    rows = [first[key] for key in sorted(first)]
    at_s, of = [row[0] for row in rows], [row[1] for row in rows]
    resumed = evidence.number("resume_step")
    whole = bool(rows) and float((np.abs(np.array(at_s) - np.round(at_s)) < 1e-6).mean()) > 0.95
    steps_s = of if all(np.isfinite(of)) else None
    return phases(at_s, steps_s, _validations(evidence), started_s, bool(resumed), 1.0 if whole else 0.001)


def _validations(evidence: Evidence) -> list[Event]:
    """The moments at which the log prints a validation record."""
    table = evidence.table("metrics")
    if table is None or "split" not in table or "t" not in table:
        return []
    rows = table[(table["split"].fillna("train") == "val") & table["t"].notna()]
    return [Event(float(at), Phase.EVALUATION, "validation records stand in between") for at in _seconds(rows["t"])]


def _seconds(column: pd.Series[Any]) -> Floats:
    stamps = column.astype("datetime64[us, UTC]")
    values = stamps.astype("int64").to_numpy() / 1e6
    return np.asarray(np.where(stamps.isna().to_numpy(), np.nan, values), dtype=float)
