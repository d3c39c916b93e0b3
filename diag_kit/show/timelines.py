"""The charts over time: steps, what the machine did, who read what. All on UTC axes, so that two readers see the same clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diag_kit.evidence import Evidence
from diag_kit.show.format import visible
from diag_kit.show.picture import Figure
from diag_kit.show.reduce import MAX_ROWS, by_time
from diag_kit.show.theme import BLUE, INK, OCHRE, RUST, WIDTH, rank_scales

if TYPE_CHECKING:
    import altair
    import pandas as pd

ALL = -1
"""Stands for "all ranks together" where lines carry no rank."""
Span = tuple["pd.Timestamp", "pd.Timestamp"]


def time_axis(domain: Span | None = None, label: bool = True) -> altair.X:
    """The one time axis: UTC, whatever zone the reader's browser is in."""
    import altair as alt

    scale = alt.Scale(type="utc")
    if domain is not None:
        scale = alt.Scale(type="utc", domain=[alt.DateTime(**_parts(end), utc=True) for end in domain], nice=False)
    return alt.X(
        "t:T",
        title="time [UTC]" if label else None,
        scale=scale,
        axis=alt.Axis(format="%H:%M:%S", tickCount=7, labelOverlap=True),
    )


def _parts(at: pd.Timestamp) -> dict[str, Any]:
    return {
        "year": at.year, "month": at.month, "date": at.day, "hours": at.hour, "minutes": at.minute, "seconds": at.second,
        "milliseconds": at.microsecond // 1000,
    }  # fmt: skip


def steps(evidence: Evidence, domain: Span | None = None) -> Figure:
    """Steps over time per rank, from the metrics' own time stamps; without those, lines counted while the kit watched."""
    title = "Steps over time"
    metrics = evidence.table("metrics")
    if metrics is not None and {"t", "step"} <= set(metrics) and (metrics["t"].notna() & metrics["step"].notna()).any():
        return _steps_by_rank(metrics, title, domain)
    window = evidence.table("log_window")
    if window is not None and "t" in window and window["t"].notna().any():
        return _records_in_window(window, domain)
    why = (
        "The log's records carry no time and no window was watched: observe the log's rate, which counts new lines as they come."
    )
    return Figure(title, "", why_none=why)


def _steps_by_rank(metrics: pd.DataFrame, title: str, domain: Span | None) -> Figure:
    import altair as alt

    table = metrics.copy()
    known = "rank" in table and bool(table["rank"].notna().any())
    table["rank_number"] = table["rank"].fillna(ALL).astype("int64") if known else ALL
    table["step"] = table["step"].astype("float64")
    kept, said = by_time(table, "step", "rank_number")
    ranks = sorted(kept["rank_number"].unique().tolist())
    kept["rank"] = [str(rank) if rank != ALL else "not said" for rank in kept["rank_number"]]
    chart = alt.Chart(kept).encode(x=time_axis(domain), y=alt.Y("step:Q", title="step", scale=alt.Scale(zero=False)))
    if known:
        colours, _ = rank_scales([rank for rank in ranks if rank != ALL])
        chart = chart.mark_line().encode(
            color=alt.Color("rank:N", scale=colours, title="rank"),
            strokeWidth=alt.StrokeWidth("rank:N", scale=_nested(ranks), title="rank"),
            order="t:T",
        )
    else:
        chart = chart.mark_point(size=14, filled=True, color=BLUE, opacity=0.8)
    how = "the slope is the step rate; a flat stretch is a stall" + (
        "; ranks that step together lie inside one another, the first widest." if known and len(ranks) > 1 else "."
    )
    subtitle = said or f"all {len(kept)} records" + ("" if known else "; which rank wrote them is not said")
    return Figure(title, how, chart.properties(width=WIDTH, height=200, title=alt.TitleParams(title, subtitle=subtitle)))


def _nested(ranks: list[int]) -> altair.Scale:
    """The first rank's line is widest, the last one's thinnest: ranks that coincide are all still seen."""
    import altair as alt

    named = [rank for rank in ranks if rank != ALL]
    widest = min(2 * len(named), 10)
    return alt.Scale(
        type="ordinal",
        domain=[str(rank) for rank in named],
        range=[max(1.2, widest * (1 - place / max(1, len(named)))) for place in range(len(named))],
    )


def _records_in_window(window: pd.DataFrame, domain: Span | None) -> Figure:
    import altair as alt

    column = "records_total" if "records_total" in window and window["records_total"].notna().any() else "lines_total"
    table = window.copy()
    table[column] = table[column].astype("float64")
    kept, said = by_time(table, column)
    what = "metric records" if column == "records_total" else "lines"
    chart = alt.Chart(kept).mark_line(point=alt.OverlayMarkDef(size=18), color=BLUE, interpolate="step-after")
    chart = chart.encode(x=time_axis(domain), y=alt.Y(f"{column}:Q", title=f"new {what}"))
    title = f"New {what} over time"
    subtitle = said or "all ranks together, counted while the kit watched"
    how = (
        f"the slope is {what} a second; divide by the ranks that print to get steps; "
        "a flat stretch is a stall or a buffer that fills."
    )
    return Figure(title, how, chart.properties(width=WIDTH, height=200, title=alt.TitleParams(title, subtitle=subtitle)))


PANELS = (
    ("gpus", "power_w", "gpu", "GPU power [W]"),
    ("gpus", "util_pct", "gpu", "GPU utilisation [%]"),
    ("disk", "read_mb_per_s", "device", "disk read [MB/s]"),
    ("cpu", "iowait_pct", None, "CPU waiting for I/O [%]"),
)
"""Table, column, one line for each of, axis title."""


def machine(evidence: Evidence, domain: Span | None = None) -> Figure:
    """What the machine did: GPU power against its limit, utilisation, disk, CPU, one below the other on one UTC axis."""
    import altair as alt

    title = "What the machine did"
    domain = domain or window_of(evidence)
    drawn, said = [], []
    for table_name, column, group, axis in PANELS:
        table = evidence.table(table_name)
        if table is None or column not in table or not (table["t"].notna() & table[column].notna()).any():
            continue
        panel, reduced = _panel(table, column, group, axis, domain, _line_for(evidence, table, column))
        drawn.append(panel)
        said += [reduced] if reduced else []
    if not drawn:
        return Figure(
            title,
            "",
            why_none="No GPU, disk or CPU sample has been observed here: observe gpus or iostat. Not seen is not idle.",
        )
    blind = [axis.split(" [")[0] for name, column, _, axis in PANELS if not _seen(evidence, name, column)]
    subtitle = "; ".join(dict.fromkeys(said)) or "all samples"
    subtitle += f"; not seen: {', '.join(blind)}" if blind else ""
    how = "100 % utilised says that some kernel ran, not that it was fast: look how far the power stays below the dashed limit."
    chart = alt.vconcat(*drawn, spacing=14).resolve_scale(color="independent", strokeWidth="independent")
    return Figure(title, how, chart.properties(title=alt.TitleParams(title, subtitle=subtitle)))


def _seen(evidence: Evidence, table_name: str, column: str) -> bool:
    table = evidence.table(table_name)
    return table is not None and column in table and bool(table[column].notna().any())


def _line_for(evidence: Evidence, table: pd.DataFrame, column: str) -> tuple[float, str] | None:
    """What a panel is measured against: the power limit, or the reading rate that the job needs."""
    if column == "power_w" and "power_limit_w" in table and table["power_limit_w"].notna().any():
        limit = float(table["power_limit_w"].max())
        return limit, f"limit {limit:.0f} W"
    needed = evidence.calculation("read_gb_per_s_needed") if column == "read_mb_per_s" else None
    if needed is not None and isinstance(needed.value, int | float) and needed.value > 0:
        return float(needed.value) * 1000, f"the job needs {needed.value * 1000:.0f} MB/s ({needed.id})"
    return None


_AT_LEAST = {"util_pct": 100.0, "read_mb_per_s": 1.0, "iowait_pct": 5.0}
"""The axis goes at least this far, so that next to nothing looks like next to nothing."""


def _panel(
    table: pd.DataFrame, column: str, group: str | None, axis: str, domain: Span | None, against: tuple[float, str] | None
) -> tuple[Any, str]:
    import altair as alt

    table = table.copy()
    table[column] = table[column].astype("float64")
    kept, said = by_time(table, column, group, rows=MAX_ROWS // len(PANELS))
    top = max(_AT_LEAST.get(column, 1.0), float(kept[column].max()), against[0] if against else 0.0)
    y = alt.Y(f"{column}:Q", title=axis, scale=alt.Scale(domain=[0, top * 1.04], nice=False), axis=alt.Axis(tickCount=4))
    line: Any = (
        alt.Chart(kept).mark_line().encode(x=time_axis(domain, label=column in ("read_mb_per_s", "iowait_pct")), y=y, order="t:T")
    )
    line = _by_group(line, kept, column, group)
    if against is not None:
        mark = alt.Chart({"values": [{"at": against[0], "says": against[1]}]}).encode(y="at:Q")
        line = alt.layer(
            line,
            mark.mark_rule(strokeDash=[6, 4], strokeWidth=1.5, color=RUST),
            mark.mark_text(align="right", baseline="top", dy=4, dx=-4).encode(x=alt.value(WIDTH), text="says:N"),
        )
    return line.properties(width=WIDTH, height=100), said


def _by_group(line: Any, kept: pd.DataFrame, column: str, group: str | None) -> Any:
    """A line for each GPU or device: a GPU has its rank's colour in every chart."""
    import altair as alt

    if group == "gpu":
        numbers = sorted(kept["gpu"].astype("int64").unique().tolist())
        kept["who"] = kept["gpu"].astype("int64").astype(str)
        colours, _ = rank_scales(numbers)
        legend = alt.Legend() if column == "power_w" else None
        return line.encode(
            color=alt.Color("who:N", scale=colours, title="GPU", legend=legend),
            strokeWidth=alt.StrokeWidth("who:N", scale=_nested(numbers), title="GPU", legend=legend),
        )
    if group:
        kept["who"] = [visible(name, 30) for name in kept[group]]
        one = kept["who"].nunique() == 1
        return line.encode(color=alt.Color("who:N", title=group, legend=None if one else alt.Legend()))
    return line.encode(color=alt.value(OCHRE))


def window_of(evidence: Evidence) -> Span | None:
    """First to last time in anything sampled while the kit watched: the axis that the charts over time share."""
    ends = []
    for name in ("log_window", "gpus", "disk", "cpu"):
        table = evidence.table(name)
        if table is not None and "t" in table and table["t"].notna().any():
            ends += [table["t"].min(), table["t"].max()]
    return (min(ends), max(ends)) if ends and min(ends) < max(ends) else None


def timeline(evidence: Evidence) -> Figure:
    """Steps above what the machine did, on one shared axis: the window in which the kit watched."""
    import altair as alt

    domain = window_of(evidence)
    above, below = steps(_only_window(evidence), domain), machine(evidence, domain)
    if above.chart is None or below.chart is None:
        return below if above.chart is None else above
    chart = alt.vconcat(above.chart, below.chart, spacing=24).resolve_scale(color="independent", strokeWidth="independent")
    how = f"one clock for both: a stall above with nothing happening below is waiting; {below.how_to_read}"
    return Figure("Steps and the machine, on one clock", how, chart)


def _only_window(evidence: Evidence) -> Evidence:
    """Without metrics that end before the window began, so that the shared axis is not empty above."""
    domain, metrics = window_of(evidence), evidence.table("metrics")
    if domain is None or metrics is None or "t" not in metrics or not metrics["t"].notna().any():
        return evidence
    if metrics["t"].max() > domain[0]:
        return evidence
    return Evidence(each for each in evidence.entries if getattr(each, "table", lambda _: None)("metrics") is None)


def who_read_what(evidence: Evidence) -> Figure:
    """Files by rank over time: a file opened by two ranks in one epoch is what a split never shows."""
    import altair as alt

    title = "Who read what"
    opens = evidence.table("opens")
    if opens is None or not {"t", "path"} <= set(opens) or not opens["t"].notna().any():
        return Figure(
            title,
            "",
            why_none="No open files have been seen: observe the files that the ranks open, or verify data.dup_no_sampler.",
        )
    table = opens.loc[opens["t"].notna() & opens["path"].notna()].copy()
    named = "rank" in table and table["rank"].notna().any()
    table["rank_number"] = table["rank"].fillna(ALL).astype("int64") if named else ALL
    table = table.drop_duplicates(["path", "rank_number", "t"]).sort_values("t", kind="stable")
    order = {path: place for place, path in enumerate(dict.fromkeys(table["path"]), 1)}
    table["file"] = table["path"].map(order)
    readers = table[table["rank_number"] != ALL].groupby("path")["rank_number"].nunique()
    shared = set(readers[readers > 1].index)
    table["shared"] = table["path"].isin(shared)
    kept, said = _keep_shared(table)
    kept["rank"] = [str(rank) if rank != ALL else "not known" for rank in kept["rank_number"]]
    ranks = sorted(rank for rank in kept["rank_number"].unique().tolist() if rank != ALL)
    colours, shapes = rank_scales(ranks)
    base = alt.Chart(kept[["t", "file", "rank", "shared"]]).encode(
        x=time_axis(), y=alt.Y("file:Q", title="file, numbered by first opening", axis=alt.Axis(tickMinStep=1, format="d"))
    )
    points = base.mark_point(size=55, strokeWidth=1.6)
    layers = []
    if ranks:
        unknown = base.transform_filter("datum.rank == 'not known'").mark_point(size=12, filled=True, color=INK, opacity=0.5)
        layers = [unknown]
        points = points.transform_filter("datum.rank != 'not known'").encode(
            color=alt.Color("rank:N", scale=colours, title="rank"), shape=alt.Shape("rank:N", scale=shapes, title="rank")
        )
    rings = base.transform_filter("datum.shared").mark_point(size=190, shape="circle", color=RUST, strokeWidth=1.5)
    opened = f"{len(order)} files opened"
    subtitle = (
        f"{opened}, {len(shared)} of them by more than one rank (ringed)"
        if ranks
        else f"{opened}; which rank opened them was not seen"
    )
    unseen = int((table["rank_number"] == ALL).sum()) if ranks else 0
    subtitle += f"; {unseen} opens by a rank that was not seen (dots)" if unseen else ""
    subtitle += f"; {said}" if said else ""
    how = (
        "two ranks on one row read the same file: a split loader never does that within an epoch; "
        "independent shuffles do it seldom; "
        "ranks in the same order do it on every row, at nearly the same time."
    )
    return Figure(
        title,
        how,
        alt.layer(*layers, points, rings).properties(width=WIDTH, height=300, title=alt.TitleParams(title, subtitle=subtitle)),
    )


def _keep_shared(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """At most MAX_ROWS opens: every n-th one, but files seen at two ranks first."""
    import pandas as pd

    if len(table) <= MAX_ROWS:
        return table.copy(), ""
    both, rest = table[table["shared"]], table[~table["shared"]]
    both = both.iloc[:: max(1, -(-len(both) // (MAX_ROWS // 2)))]
    rest = rest.iloc[:: max(1, -(-len(rest) // (MAX_ROWS - len(both))))]
    kept = pd.concat([both, rest]).sort_values("t", kind="stable")
    return kept, f"{len(kept)} of {len(table)} opens drawn, files at two ranks first"
