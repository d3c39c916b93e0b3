"""What the finished table tells about its own columns: which one counts the steps, which one is the time since the start.

Only where nothing in a line said so: no train record has a step, or no record a stamp. The answer is a fact with its reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from diag_kit.observe.logs.guess import is_elapsed, step_counter
from diag_kit.observe.logs.table import FIRST_COLUMNS
from diag_kit.records import Fact

_ELAPSED = re.compile(
    r"(?:\A|[_/ ])(?:elapsed|time_elapsed|total_time|time_since_start|train_time|wall|wall_time|runtime)_(m?s)\Z"
)
_TIME_WORD = re.compile(r"(?:\A|[_/ ])(?:elapsed\w{0,12}|time|t|t_printed|wall\w{0,6}|seconds|secs?|runtime)\Z", re.IGNORECASE)


def learn_step(frame: pd.DataFrame) -> list[Fact]:
    """Fills ``step`` from the column that counts, if no train record has a step; the printed column goes."""
    train = frame["split"].eq("train").to_numpy()
    if not train.any() or frame.loc[train, "step"].notna().any():
        return []
    columns = {
        str(name): frame.loc[train, name].to_numpy(dtype="float64", na_value=np.nan)
        for name in frame.columns
        if name not in FIRST_COLUMNS and name != "lr_text" and frame.loc[train, name].notna().all()
    }
    counter = step_counter(columns)
    if counter is None:
        return []
    values = frame[counter.column].to_numpy(dtype="float64", na_value=np.nan)
    known = np.isfinite(values) & (values == np.floor(values)) & (np.abs(values) < 2.0**62)
    frame["step"] = pd.arrays.IntegerArray(np.where(known, values, 0).astype("int64"), ~known)
    del frame[counter.column]
    told = "its name and " if counter.named else ""
    reason = f"told by {told}what it does: it rises by {counter.stride} from record to record"
    return [Fact("step_column", counter.column, reason)]


def learn_clock(frame: pd.DataFrame, written_us: Mapping[str, int]) -> list[Fact]:
    """Fills ``t`` from a column of seconds since the start, if no record has a stamp; the end is the file's last write.

    Of a log with several runs only the last one is dated. ``written_us``: by file, microseconds on the host's clock.
    """
    if not len(frame) or frame["t"].notna().any():
        return []
    for name in frame.columns:
        match = _ELAPSED.search(str(name))
        if match and is_elapsed(frame[name].to_numpy(dtype="float64")):
            _date(frame, str(name), 1e3 if match[1] == "ms" else 1e6, written_us)
            source = f"{name} counts from the start of the run; dated so that the last record is the file's last write"
            return [Fact("clock", "host clock, zone not stated", source), Fact("elapsed_column", str(name), source)]
    rising = [
        str(name)
        for name in frame.columns
        if name not in FIRST_COLUMNS and _TIME_WORD.search(str(name)) and is_elapsed(frame[name].to_numpy(dtype="float64"))
    ]
    if len(rising) != 1:
        return []
    return [
        Fact("elapsed_column", rising[0], "it never falls: time since the start in a unit that is not printed, not of one step")
    ]


def _date(frame: pd.DataFrame, name: str, per_us: float, written_us: Mapping[str, int]) -> None:
    values = frame[name].to_numpy(dtype="float64") * per_us
    files = frame["file"].to_numpy(dtype=object)
    times = np.full(len(frame), np.iinfo("int64").min, dtype="int64")
    for file in dict.fromkeys(files):
        rows = np.flatnonzero((files == file) & np.isfinite(values))
        if not len(rows):
            continue
        falls = np.flatnonzero(np.diff(values[rows]) < -1e6)
        rows = rows[falls[-1] + 1 :] if len(falls) else rows
        end = written_us.get(str(file), 0) // 1_000_000 * 1_000_000
        times[rows] = (end - (values[rows].max() - values[rows])).astype("int64")
    frame["t"] = pd.DatetimeIndex(times.view("datetime64[us]"), tz="UTC")
