"""How fast steps come: from lines appended to the log in a window, and from the times that the log itself prints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diag_kit.calculate.inputs import is_number, number_of
from diag_kit.calculate.metric_records import Records, train_records
from diag_kit.calculate.statistics import StepTimes, counted_rate, excess_spread, step_times
from diag_kit.evidence import Evidence
from diag_kit.records import Interval

WARM_UP_STEPS = 5
"""First steps of a run left out where enough remain: compilation, warm-up, cold cache."""
RECENT_STEPS = 2000
Z95 = 1.96


@dataclass(frozen=True, slots=True)
class Appended:
    """Metric records appended in a window: count, seconds, by-second increments, and whether they came in bursts."""

    count: float
    window_s: float
    increments: tuple[float, ...]
    counts_records: bool
    id: str
    bursty: bool = False
    largest: float = 0.0

    def per_s(self, end_error: float) -> Interval:
        """Records per second: ``end_error`` records may be wrong at each end, widened by what varies within the window."""
        grain = max(end_error, self.largest if self.bursty else 0.0)
        counted = counted_rate(self.count, self.window_s, grain)
        wider = Z95 * excess_spread(self.increments, grain) * self.count / self.window_s
        return Interval(max(counted.low - wider, 0.0), counted.high + wider)


def appended(evidence: Evidence, lines_per_step: float) -> Appended | None:
    """The newest window of the log's growth; None when there was none or nothing was appended."""
    sourced = evidence.sourced_table("log_window")
    if sourced is None:
        return None
    table, card = sourced
    column = next((name for name in ("records_total", "lines_total") if name in table and table[name].notna().any()), "")
    rows = table[table[column].notna()] if column else table
    if not column or len(rows) < 2:
        return None
    seconds = rows["t"].astype("datetime64[us, UTC]").astype("int64").to_numpy() / 1e6
    totals = rows[column].astype("float64").to_numpy()
    window, count = float(seconds[-1] - seconds[0]), float(totals[-1] - totals[0])
    if window <= 0 or count < 0:
        return None
    steps = np.diff(totals)
    bursty = _bursty(steps, np.diff(seconds), lines_per_step)
    largest = float(steps.max(initial=0.0))
    return Appended(count, window, tuple(float(x) for x in steps), column == "records_total", card, bursty, largest)


def _bursty(increments: np.ndarray, seconds: np.ndarray, lines_per_step: float) -> bool:
    """Buffered output: most moments bring nothing, and one brings far more than the rate and one step can explain."""
    total, window = float(increments.sum()), float(seconds.sum())
    if total <= 0 or len(increments) < 5:
        return False
    expected = total / window * float(np.median(seconds))
    idle = float((increments <= 0).mean())
    typical = float(np.median(increments[increments > 0]))
    return idle >= 0.4 and typical > 2 * expected + 2 * lines_per_step


@dataclass(frozen=True, slots=True)
class Stamped:
    """Step times from the log's own times: ``every`` optimizer steps lie between two logged ones."""

    times: StepTimes
    every: int
    steps: int
    window_s: float
    resolution_s: float
    id: str


def stamped(evidence: Evidence, every: int) -> Stamped | None:
    """Times between logged steps of one run: newest 2000, start-up left out; None without usable times."""
    records = train_records(evidence)
    if records is None or not records.has("t"):
        return None
    at = _first_times(records, number_of(evidence.calculation("lines_per_step")))
    if at is None or len(at) < 4:
        return None
    if len(at) > 4 * WARM_UP_STEPS:
        at = at[WARM_UP_STEPS:]
    at = at[-RECENT_STEPS:]
    gaps = np.diff(at)
    window = float(at[-1] - at[0])
    if window <= 0 or (gaps < 0).mean() > 0.1:
        return None
    whole = float((np.abs(at - np.round(at)) < 1e-6).mean()) > 0.95
    resolution = 1.0 if whole else 0.001
    found = step_times([float(gap) for gap in np.maximum(gaps, 0.0)], resolution)
    return Stamped(found, every, len(gaps) * every, window, resolution, records.id)


def _first_times(records: Records, lines: float | None) -> np.ndarray | None:
    """The time of the first record of each logged step."""
    rows = records.table[records.table["t"].notna()]
    seconds = rows["t"].astype("datetime64[us, UTC]").astype("int64").to_numpy() / 1e6
    keys = records.step_keys()
    if keys is not None and len(keys) == len(rows) == len(records):
        first: dict[tuple[int, int], float] = {}
        for key, at in zip(keys, seconds, strict=True):
            first.setdefault(key, float(at))
        return np.array([first[key] for key in sorted(first)])
    if lines is None or lines < 1 or len(rows) != len(records):
        return None
    return np.asarray(seconds[:: int(lines)], dtype=float)


@dataclass(frozen=True, slots=True)
class Printed:
    """The time of a step as the training itself prints it."""

    seconds: float
    interval: Interval
    column: str
    steps: int
    id: str


_PRINTED = (("profile/step_ms", 1e-3), ("step_ms", 1e-3), ("step_time_ms", 1e-3), ("step_time_s", 1.0), ("step_time", 1.0))


def printed_step_time(evidence: Evidence) -> Printed | None:
    """From a column of step times; used only where the log has no clock and did not grow."""
    records = train_records(evidence)
    if records is None:
        return None
    for column, unit in _PRINTED:
        if records.has(column):
            values = records.table[column].dropna().astype("float64").to_numpy() * unit
            values = values[np.isfinite(values) & (values > 0)][WARM_UP_STEPS if len(values) > 20 else 0 :]
            if len(values) >= 4 and is_number(float(values.mean())):
                found = step_times([float(value) for value in values])
                return Printed(found.mean_s, found.interval, column, len(values), records.id)
    return None
