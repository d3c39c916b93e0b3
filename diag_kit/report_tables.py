"""The tables of an observation as JSON: every row of a short one, both ends and a summary of each column of a long one.

Bounds, so that the object stays readable and is made in well under a second: ``ROWS`` rows a table (where there are more, the
first and the last half of them, and ``columns`` summarises all), ``CHARACTERS`` characters a text. What is not known, not a
number or infinite is null, as JSON has neither NaN nor infinity; times are ISO 8601 in UTC.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from datetime import date, datetime
from typing import Any

import pandas as pd

ROWS = 200
CHARACTERS = 500


def tables(of: Mapping[str, pd.DataFrame]) -> dict[str, dict[str, Any]]:
    """By name: ``rows`` (how many there are), ``records``, and where not all are shown ``left_out`` (how many, from the middle)
    and ``columns``: count, min, median, max of numbers and times, count and distinct of texts and flags, over all rows.
    """
    return {name: _table(frame) for name, frame in of.items()}


def _table(frame: pd.DataFrame) -> dict[str, Any]:
    if len(frame) <= ROWS:
        return {"rows": len(frame), "records": _records(frame)}
    ends = pd.concat([frame.head(ROWS // 2), frame.tail(ROWS // 2)])
    return {
        "rows": len(frame),
        "records": _records(ends),
        "left_out": len(frame) - len(ends),
        "columns": {str(name): _column(frame[name]) for name in frame.columns},
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    columns = {str(name): [_cell(value) for value in frame[name].tolist()] for name in frame.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _column(values: pd.Series[Any]) -> dict[str, Any]:
    known = values.dropna()
    kind = known.dtype
    if pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind):
        known = known.astype("float64")
        known = known[known.abs() != math.inf]
    elif not pd.api.types.is_datetime64_any_dtype(kind):
        return {"count": len(known), "distinct": int(known.map(_hashable).nunique())}
    said: dict[str, Any] = {"count": len(known), "min": None, "median": None, "max": None}
    if len(known):
        said |= {"min": _cell(known.min()), "median": _cell(known.median()), "max": _cell(known.max())}
    return said


def _hashable(value: Any) -> Hashable:
    return value if isinstance(value, Hashable) else repr(value)


def _cell(value: Any) -> Any:
    """A plain value of JSON. A list (of frames, of cores) keeps its members, bounded as a text is."""
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= CHARACTERS else f"{value[: CHARACTERS - 1]}…"
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return [_cell(each) for each in value[:CHARACTERS]]
    item = getattr(value, "item", None)  # a numpy scalar
    return _cell(item()) if callable(item) and getattr(value, "ndim", None) == 0 else _cell(str(value))
