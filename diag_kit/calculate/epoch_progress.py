"""How long an epoch is for one rank, as the log shows it: by its roll-over, or by the slope of a fractional epoch.

This outranks any printed length, which may be the dataset's instead of the loader's.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from diag_kit.calculate.inputs import known, number_of
from diag_kit.calculate.metric_records import Records, train_records
from diag_kit.evidence import Evidence

FRACTIONAL_SHARE = 0.2
"""Share of epoch values with a fraction above which the column is progress, not an epoch number."""


@dataclass(frozen=True, slots=True)
class EpochProgress:
    """Logged optimizer steps per epoch and rank lie in ``low``..``high`` (None: no epoch was seen whole).

    ``at_least``: steps seen inside one unfinished epoch; ``says``: how that is known.
    """

    low: float | None
    high: float | None
    at_least: int
    says: str
    id: str

    def fits(self, length: float) -> bool:
        """Whether an epoch of ``length`` steps agrees with what the log shows. True where the log shows nothing."""
        if self.low is not None and self.high is not None:
            return self.low <= length <= self.high
        return self.at_least <= length + 1


def epoch_progress(evidence: Evidence) -> EpochProgress | None:
    """What the metric records show of the length of an epoch; None without epochs."""
    records = train_records(evidence)
    if records is None or not records.has("epoch"):
        return None
    epochs = records.table["epoch"].astype("float64")
    fractional = float((epochs.dropna() % 1 > 1e-9).mean()) > FRACTIONAL_SHARE
    every = log_every(evidence, records)
    if fractional:
        return _by_slope(records)
    lines = number_of(evidence.calculation("lines_per_step"))
    return _by_rollover(records, every, lines)


def log_every(evidence: Evidence, records: Records | None, by_hand: float | None = None) -> int:
    """Optimizer steps from one logged step to the next: by hand, else counted in the log, else stated, else 1."""
    if by_hand:
        return max(1, int(by_hand))
    keys = records.step_keys() if records is not None else None
    if keys:
        distinct = sorted(set(keys))
        gaps = [b[1] - a[1] for a, b in pairwise(distinct) if a[0] == b[0]]
        if len(gaps) >= 2:
            return max(1, int(np.median(gaps)))
    stated = known(evidence, "log_every_steps")
    return max(1, int(stated.value)) if stated.value else 1


def _by_slope(records: Records) -> EpochProgress | None:
    """Steps per epoch = steps over epochs between the first and the last record; the printed digits bound the error."""
    if not records.has("step") or records.step_restarts_per_epoch:
        return None
    rows = records.table[records.table["step"].notna() & records.table["epoch"].notna()]
    if len(rows) < 2:
        return None
    steps, epochs = rows["step"].astype("float64").to_numpy(), rows["epoch"].astype("float64").to_numpy()
    d_step, d_epoch = float(steps[-1] - steps[0]), float(epochs[-1] - epochs[0])
    if d_epoch <= 0 or d_step < 2:
        return None
    error = _printed_error(epochs)
    if d_epoch <= 2 * error:
        return None
    says = f"{d_step:.0f} steps for {d_epoch:g} epochs in the log"
    return EpochProgress(d_step / (d_epoch + 2 * error), d_step / (d_epoch - 2 * error), 0, says, records.id)


def _printed_error(values: np.ndarray) -> float:
    """Half a unit of the last printed decimal of an epoch column."""
    decimals = max(len(f"{value:.12f}".rstrip("0").partition(".")[2]) for value in values[:200])
    return float(0.5 * 10.0**-decimals)


def _by_rollover(records: Records, every: int, lines: float | None) -> EpochProgress | None:
    table = records.table[records.table["epoch"].notna()]
    numbers = table["epoch"].astype("int64")
    counts = _steps_by_epoch(table, numbers, records, every, lines)
    if not counts:
        return None
    seen = sorted(counts)
    whole = [epoch for epoch in seen[:-1] if epoch + 1 in counts and (epoch != seen[0] or _begins(table, records))]
    at_least = int(max(counts.values()))
    if not whole:
        says = f"epoch {seen[-1]} has run {at_least} steps on a rank and is not over"
        return EpochProgress(None, None, at_least, says, records.id)
    length = float(np.median([counts[epoch] for epoch in whole]))
    slack = every + 1.0
    says = f"epoch {whole[-1]} ended after {counts[whole[-1]]:.0f} steps on a rank"
    return EpochProgress(length - slack, length + slack, at_least, says, records.id)


def _steps_by_epoch(
    table: pd.DataFrame, numbers: pd.Series[int], records: Records, every: int, lines: float | None
) -> dict[int, float]:
    """Optimizer steps that one rank ran in each epoch, as far as the log shows."""
    if records.has("step"):
        steps = table["step"].astype("float64")
        grouped = steps.groupby(numbers)
        if records.step_restarts_per_epoch:
            return {int(str(epoch)): float(top) for epoch, top in (grouped.max() + 1).items()}
        return {int(str(epoch)): float(span) for epoch, span in (grouped.max() - grouped.min() + every).items()}
    if not lines:
        return {}
    return {int(str(epoch)): float(count) / lines * every for epoch, count in numbers.value_counts().items()}


def _begins(table: pd.DataFrame, records: Records) -> bool:
    """Whether the log shows the first epoch from its first step: the step counter starts low, or the first lr is a start."""
    if records.has("step"):
        distinct = sorted(set(table["step"].dropna().astype("int64").tolist()))
        return len(distinct) > 1 and distinct[0] <= distinct[1] - distinct[0]
    first = records.table["line"].dropna() if "line" in records.table else pd.Series(dtype="int64")
    return bool(len(first) and int(first.iloc[0]) >= 1 and int(first.iloc[0]) < 5000)
