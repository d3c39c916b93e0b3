"""Tables to and from JSON, every dtype kept exactly.

JSON and not parquet: what a recording holds can be searched for a leaked secret with ``grep``, is bounded by its own size
(no dictionary that unpacks to gigabytes), and reading it runs nothing. One object per table, column by column::

    {"rows": 2, "columns": [{"name": "loss", "dtype": "float64", "values": [2.31, null]}], "index": null}

``null`` is a missing value (NaN, NaT, NA). Times are integers in the dtype's own unit since 1970, so nothing is rounded.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from diag_kit.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

_NULLABLE = re.compile(r"(U?Int(8|16|32|64)|Float(32|64)|boolean)\Z")
_PLAIN = re.compile(r"(u?int(8|16|32|64)|float(16|32|64)|bool)\Z")
_TIMES = re.compile(r"(?P<kind>datetime|timedelta)64\[(?P<unit>s|ms|us|ns)(, (?P<zone>[A-Za-z0-9_+:/-]{1,64}))?\]\Z")
_STRING_STORAGE = {"string[python]": "python", "string[pyarrow]": "pyarrow"}


def table_to_bytes(table: pd.DataFrame) -> bytes:
    """UTF-8 JSON of a frame with named columns. An index that counts 0, 1, 2, ... is not stored; any other is."""
    import pandas as pd

    if isinstance(table.index, pd.MultiIndex):
        table = table.reset_index()
    if isinstance(table.columns, pd.MultiIndex) or not all(isinstance(name, str) for name in table.columns):
        raise BadInput(
            "a table's column names must be text", where=str(list(table.columns))[:200], next_step="rename the columns"
        )
    counts = isinstance(table.index, pd.RangeIndex) and table.index.equals(pd.RangeIndex(len(table)))
    named = table.index.name if isinstance(table.index.name, str) else ""
    document = {
        "rows": len(table),
        "columns": [_column(name, table.iloc[:, at]) for at, name in enumerate(table.columns)],
        "index": None if counts and not named else _column(named, table.index.to_series()),
    }
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def table_from_bytes(data: bytes, where: str) -> pd.DataFrame:
    """The frame that was stored. Raises BadInput naming ``where`` (the member of the recording) and the column."""
    import pandas as pd

    try:
        document = json.loads(data)
        columns, rows, index = document["columns"], document["rows"], document.get("index")
        arrays = [_series(column) for column in columns]
        # 0 columns keep their number of rows; an unequal length is caught below, before pandas pads it
        if not isinstance(rows, int) or rows < 0 or any(len(array) != rows for array in arrays):
            raise ValueError("the columns do not all have the stated number of rows")
        if not arrays and rows > len(data):
            raise ValueError("more rows than the table's own size")
        frame = pd.DataFrame(dict(enumerate(arrays)), index=pd.RangeIndex(rows))
        frame.columns = pd.Index([str(column["name"]) for column in columns], dtype="str")
        if index is not None:
            frame.index = pd.Index(_series(index), name=index["name"] or None)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, AttributeError) as problem:
        raise BadInput(f"a malformed table: {problem}"[:300], where=where, next_step="record again") from None
    return frame


def _column(name: str, series: pd.Series[Any]) -> dict[str, Any]:
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        kept = series.cat
        categories = _column("", kept.categories.to_series())
        return {
            "name": name,
            "dtype": "category",
            "ordered": bool(kept.ordered),
            "categories": categories,
            "values": kept.codes.tolist(),
        }
    if isinstance(dtype, pd.StringDtype):
        text = f"string[{dtype.storage}]" if dtype.na_value is pd.NA else "str"
        return {"name": name, "dtype": text, "values": [None if pd.isna(value) else value for value in series]}
    if times := _TIMES.match(str(dtype)):
        stamps = series.dt.tz_convert("UTC").dt.tz_localize(None) if times["zone"] else series
        numbers = stamps.to_numpy().astype("int64").tolist()
        missing = series.isna().tolist()
        values = [None if gone else number for number, gone in zip(numbers, missing, strict=True)]
        return {"name": name, "dtype": str(dtype), "values": values}
    if _NULLABLE.match(str(dtype)) or _PLAIN.match(str(dtype)):
        return {"name": name, "dtype": str(dtype), "values": _numbers(series)}
    return {"name": name, "dtype": "object", "values": [_cell(value) for value in series]}


def _numbers(series: pd.Series[Any]) -> list[Any]:
    import pandas as pd

    nullable = bool(_NULLABLE.match(str(series.dtype)))
    return (
        [_number(value, nullable) for value in series.astype(object).tolist()]
        if nullable or series.dtype.kind == "f"
        else [None if value is pd.NA else value for value in series.tolist()]
    )


def _number(value: Any, nullable: bool) -> Any:
    """JSON has neither NaN nor infinity: NA, or NaN where a dtype has no NA, is null; the rest is spelled out."""
    import pandas as pd

    if value is pd.NA:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) and not nullable else repr(float(value))
    return value.item() if hasattr(value, "item") else value


def _cell(value: Any) -> Any:
    """A cell of an object column: JSON scalars as they are, everything else as text."""
    import pandas as pd

    if value is None or isinstance(value, bool | str):
        return value
    if value is pd.NA or value is pd.NaT:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value if isinstance(value, bool | int | float) else str(value)


def _series(column: dict[str, Any]) -> pd.Series[Any]:
    import numpy as np
    import pandas as pd

    dtype, values = column["dtype"], column["values"]
    if not isinstance(dtype, str) or not isinstance(values, list):
        raise ValueError("a column without dtype or values")
    if dtype == "category":
        codes = np.array(values, dtype="int64")
        categories = pd.Index(_series(column["categories"]))
        return pd.Series(pd.Categorical.from_codes(codes, categories=categories, ordered=bool(column["ordered"])))
    if dtype == "str" or dtype in _STRING_STORAGE:
        if not all(value is None or isinstance(value, str) for value in values):
            raise ValueError("a text column with something that is not text")
        kind: Any = "str" if dtype == "str" else pd.StringDtype(_STRING_STORAGE[dtype])
        texts: pd.Series[Any] = pd.Series(values, dtype=kind)
        return texts
    if times := _TIMES.match(dtype):
        numbers = np.array([np.iinfo("int64").min if value is None else value for value in values], dtype="int64")
        stamps = numbers.astype(f"{'M' if times['kind'] == 'datetime' else 'm'}8[{times['unit']}]")
        if times["zone"]:
            return pd.Series(pd.DatetimeIndex(stamps).tz_localize("UTC").tz_convert(times["zone"]))
        return pd.Series(stamps)
    if _NULLABLE.match(dtype):
        return _nullable(values, dtype)
    if _PLAIN.match(dtype):
        if dtype.startswith("float"):
            values = [math.nan if value is None else float(value) for value in values]
        elif not all(isinstance(value, bool if dtype == "bool" else int) for value in values):
            raise ValueError(f"a value that is not {dtype}")
        return pd.Series(np.array(values, dtype=dtype))
    if dtype == "object":
        return pd.Series([_uncell(value) for value in values], dtype=object)
    raise ValueError(f"unknown dtype {dtype[:40]!r}")


def _nullable(values: list[Any], dtype: str) -> pd.Series[Any]:
    """Built from values and mask, so that NaN and NA stay apart in Float64."""
    import numpy as np
    import pandas as pd

    mask = np.array([value is None for value in values], dtype=bool)
    if dtype == "boolean":
        if not all(value is None or isinstance(value, bool) for value in values):
            raise ValueError("a value that is not boolean")
        return pd.Series(pd.arrays.BooleanArray(np.array([bool(value) for value in values], dtype=bool), mask))
    if dtype.startswith("Float"):
        numbers = np.array([0.0 if value is None else float(value) for value in values], dtype=dtype.lower())
        return pd.Series(pd.arrays.FloatingArray(numbers, mask))
    if not all(value is None or type(value) is int for value in values):
        raise ValueError(f"a value that is not {dtype}")
    whole = np.array([0 if value is None else value for value in values], dtype=dtype.lower())
    return pd.Series(pd.arrays.IntegerArray(whole, mask))


def _uncell(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"float"}:
        return float(value["float"])
    if isinstance(value, dict | list):
        raise ValueError("a nested value in a cell")
    return value
