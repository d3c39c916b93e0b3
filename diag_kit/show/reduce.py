"""Fewer rows for a chart: lowest, mean and highest of each stretch of time, so that no stall is averaged away."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

MAX_ROWS = 2000


def by_time(table: pd.DataFrame, value: str, group: str | None = None, rows: int = MAX_ROWS) -> tuple[pd.DataFrame, str]:
    """``t``, ``value`` (and ``group``) cut to at most ``rows`` rows, and what was done as a sentence ("" if nothing).

    Each group is cut into equal stretches of time; of each stretch the lowest and the highest value are kept at the times at
    which they were seen, and the mean at its middle. Rows without time or value are left out and counted.
    """
    import pandas as pd

    columns = ["t", value] + ([group] if group else [])
    known = table.loc[table["t"].notna() & table[value].notna(), columns].sort_values("t", kind="stable")
    missing = len(table) - len(known)
    said = [f"{missing} rows without time or value left out"] if missing else []
    if len(known) <= rows:
        return known.reset_index(drop=True), "; ".join(said)
    groups = max(1, known[group].nunique()) if group else 1
    stretches = max(1, rows // (3 * groups))
    begin, end = known["t"].iloc[0], known["t"].iloc[-1]
    length_s = max((end - begin).total_seconds(), 1e-9)
    place = (
        ((known["t"] - begin).dt.total_seconds() / length_s * stretches)
        .astype("int64")
        .clip(upper=stretches - 1)
        .rename("stretch")
    )
    keys = [place, known[group]] if group else [place]
    grouped = known.groupby(keys, sort=False, observed=True)
    extremes = pd.concat([known.loc[grouped[value].idxmin()], known.loc[grouped[value].idxmax()]])
    middle = grouped.agg(t=("t", "median"), **{value: (value, "mean")}).reset_index()
    kept = pd.concat([extremes, middle[columns]], ignore_index=True).drop_duplicates().sort_values("t", kind="stable")
    said.insert(0, f"{len(known)} rows drawn as lowest, mean and highest of every {_stretch(length_s / stretches)}")
    return kept.reset_index(drop=True), "; ".join(said)


def _stretch(seconds: float) -> str:
    from diag_kit.show.format import duration

    return duration(seconds)
