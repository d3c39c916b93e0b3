"""How fast a log says that it goes: figures of its own columns and bars, each a plain mean, median or ratio. Pure.

What is printed is summarised, never extended: no rate is made of stamps here (``calculate`` does that, with an interval).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from diag_kit.observe.logs.bars import Bar
from diag_kit.records import Fact, Value

STEP_COLUMNS = (("profile/step_ms", 1e-3), ("step_ms", 1e-3), ("step_time_ms", 1e-3), ("step_time_s", 1.0), ("step_time", 1.0))
DATA_COLUMNS = (("data_time_ms", 1e-3), ("data_time_s", 1.0), ("data_time", 1.0))
_EPOCH_COLUMNS = ("epoch_time_s", "epoch_s", "time_s")
SLOW = 2.0
"""A step that takes twice the median is a slow one: beyond what shapes and clocks vary, below any stall worth a look."""
LEAST_SLOW, LEAST_STEPS = 3, 8
_LEFT_OVER = 0.2
"""A change is reported where two levels leave at most this part of the variance of the logarithms."""


def pace_facts(train: pd.DataFrame, bars: Sequence[Bar], files: str) -> list[Fact]:
    """first_step, last_step; printed_step_{mean,median,min,max}_s; printed_data_mean_s and printed_data_share (of the step, where
    both are printed); printed_samples_per_s (mean); slow_step_every with slow_step_s, other_step_s and slow_step_extra_share;
    step_time_changes_at_step with the medians before and after and their ratio; first_epoch_s, later_epochs_s (median), their
    ratio and first_epoch_data_share, where a record is an epoch; bar_n, bar_total, bar_s_per_step, bar_elapsed_s, bar_left_s
    of the last state of the bar that took longest, in a log that has records of training.
    """
    facts = _bar(bars, files) if len(train) else []
    steps = train["step"].dropna()
    if steps.nunique() > 1:
        facts += _facts(files, [("first_step", int(steps.min()), "steps"), ("last_step", int(steps.max()), "steps")])
    found = _column(train, STEP_COLUMNS)
    if found is not None:
        facts += _printed(train, found, files)
        by_step, unit = _by_step(train, found)
        facts += _levels(by_step, unit, files)
    speeds = _numbers(train, "samples_per_s")
    if len(speeds) > 1:
        facts += _facts(
            f"mean of {len(speeds)} printed values in {files}", [("printed_samples_per_s", speeds.mean(), "samples/s")]
        )
    return facts + _epochs(train, files)


def _facts(source: str, values: Sequence[tuple[str, float | int | None, str]]) -> list[Fact]:
    return [Fact(name, _tidy(value), source, unit) for name, value, unit in values if value is not None and np.isfinite(value)]


def _tidy(value: float | int) -> Value:
    return value if isinstance(value, int) else float(f"{float(value):.7g}")


def _numbers(frame: pd.DataFrame, name: str) -> pd.Series[float]:
    """The finite, positive values of a column; none where there is no such column."""
    if name not in frame.columns or not pd.api.types.is_numeric_dtype(frame[name]):
        return pd.Series(np.zeros(0), dtype="float64")
    values = frame[name].astype("float64")
    return values[np.isfinite(values) & (values > 0)]


def _column(train: pd.DataFrame, names: Sequence[tuple[str, float]]) -> pd.Series[float] | None:
    for name, unit in names:
        values = _numbers(train, name) * unit
        if len(values):
            return values
    return None


def _printed(train: pd.DataFrame, steps: pd.Series[float], files: str) -> list[Fact]:
    source = f"{len(steps)} printed step times in {files}"
    facts: list[Fact] = []
    if len(steps) > 1:
        figures = (("mean", steps.mean()), ("median", steps.median()), ("min", steps.min()), ("max", steps.max()))
        facts = _facts(source, [(f"printed_step_{name}_s", value, "s") for name, value in figures])
    data = _column(train, DATA_COLUMNS)
    if data is None:
        return facts
    if len(data) > 1:
        facts += _facts(f"mean of {len(data)} printed data times in {files}", [("printed_data_mean_s", data.mean(), "s")])
    both = steps.index.intersection(data.index)
    share = float(data[both].sum() / steps[both].sum()) if len(both) else float("nan")
    said = f"printed data times / printed step times, {len(both)} records in {files}"
    return facts + (_facts(said, [("printed_data_share", share, "")]) if share <= 1 else [])


def _by_step(train: pd.DataFrame, values: pd.Series[float]) -> tuple[pd.DataFrame, str]:
    """``step``, ``s``: the mean over the ranks of each distinct step, in the order of the log; empty where steps go back.

    Without steps, but with a counter of samples that rises from record to record, records are counted.
    """
    unit = "steps"
    known = pd.DataFrame({"step": train["step"], "s": values}).dropna()
    if not len(known) and "samples_seen" in train.columns and train["samples_seen"].is_monotonic_increasing:
        unit = "records"
        known = pd.DataFrame({"step": range(len(values)), "s": values.to_numpy()})
    by_step = known.groupby("step", sort=False)["s"].mean().reset_index()
    rising = bool((by_step["step"].diff().dropna() > 0).mean() > 0.8) if len(by_step) > 1 else False
    return (by_step.sort_values("step") if rising else by_step.iloc[:0]), unit


def _levels(by_step: pd.DataFrame, unit: str, files: str) -> list[Fact]:
    if len(by_step) < LEAST_STEPS:
        return []
    steps, times = by_step["step"].to_numpy(dtype="int64"), by_step["s"].to_numpy(dtype="float64")
    slow = times > SLOW * float(np.median(times))
    at, gaps = steps[slow], np.diff(steps[slow])
    if len(at) >= LEAST_SLOW and len(set(gaps.tolist())) == 1 and int(gaps[0]) > int(np.diff(steps).min()):
        other = float(np.median(times[~slow]))
        source = f"{len(at)} {unit} of {len(steps)} take more than {SLOW:g} times the median, at equal distances, in {files}"
        return _facts(
            source,
            [
                ("slow_step_every", int(gaps[0]), unit),
                ("slow_step_s", float(np.median(times[slow])), "s"),
                ("other_step_s", other, "s"),
                ("slow_step_extra_share", float((times[slow] - other).sum() / times.sum()), ""),
            ],
        )
    return _change(steps, times, files)


def _change(steps: np.ndarray, times: np.ndarray, files: str) -> list[Fact]:
    """One change of level: the split of the logarithms with the least squares, at least 4 steps on each side."""
    logs = np.log(times)
    n = len(logs)
    ones = np.arange(1, n)
    left, squares = np.cumsum(logs)[:-1], float((logs**2).sum())
    right = logs.sum() - left
    rest = squares - left**2 / ones - right**2 / (n - ones)
    whole = squares - logs.sum() ** 2 / n
    cut = int(np.argmin(rest[3 : n - 4])) + 4
    before, after = float(np.median(times[:cut])), float(np.median(times[cut:]))
    ratio = max(before, after) / min(before, after)
    if whole <= 0 or rest[cut - 1] > _LEFT_OVER * whole or ratio < 1.25:
        return []
    source = f"two levels of {n} printed step times in {files}"
    return _facts(
        source,
        [
            ("step_time_changes_at_step", int(steps[cut]), "steps"),
            ("step_time_before_s", before, "s"),
            ("step_time_after_s", after, "s"),
            ("step_time_change_ratio", ratio, ""),
        ],
    )


def _epochs(train: pd.DataFrame, files: str) -> list[Fact]:
    """Records of whole epochs: an epoch in each, no step, and a time."""
    known = train[train["epoch"].notna() & train["step"].isna()]
    if len(known) < 2 or known["epoch"].duplicated().any() or not (known["epoch"] == known["epoch"].round()).all():
        return []
    names = [str(name) for name in known.columns]
    column = next((n for n in names for end in _EPOCH_COLUMNS if n.replace("/", ".").rpartition(".")[2] == end), None)
    times = _numbers(known, column) if column else pd.Series(np.zeros(0), dtype="float64")
    if column is None or len(times) < 2:
        return []
    first, later = float(times.iloc[0]), float(times.iloc[1:].median())
    source = f"{column} of {len(times)} epochs in {files}"
    figures: list[tuple[str, float | int | None, str]] = [("first_epoch_s", first, "s"), ("later_epochs_s", later, "s")]
    figures.append(("first_epoch_ratio", first / later, ""))
    data = _numbers(known, column.removesuffix(column.replace("/", ".").rpartition(".")[2]) + "data_time_s")
    for name, at in (("first_epoch_data_share", times.index[0]), ("last_epoch_data_share", times.index[-1])):
        if at in data.index and data[at] <= times[at]:
            figures.append((name, float(data[at] / times[at]), ""))
    return _facts(source, figures)


def _bar(bars: Sequence[Bar], files: str) -> list[Fact]:
    longest = max((bar for bar in bars if bar.total), key=lambda bar: bar.elapsed_s, default=None)
    if longest is None or longest.total is None:
        return []
    last = next(bar for bar in reversed(bars) if bar.total == longest.total)
    if last.n != int(last.n) or not last.elapsed_s:
        return []
    pace = 1 / last.rate_per_s if last.rate_per_s else None
    source = f"last state of the longest progress bar in {files}"
    return _facts(
        source,
        [
            ("bar_n", int(last.n), ""),
            ("bar_total", int(longest.total), ""),
            ("bar_s_per_step", pace, "s"),
            ("bar_elapsed_s", last.elapsed_s, "s"),
            ("bar_left_s", last.left_s, "s"),
        ],
    )
