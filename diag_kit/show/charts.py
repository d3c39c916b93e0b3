"""The charts about hours: rival readings of a step count, and what each cause would win. Those over time are in ``timelines``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from diag_kit.evidence import Evidence
from diag_kit.records import Calculation, Hypothesis, Interval, Status
from diag_kit.show.format import hours, point_won, quantity, span, time_unit, visible
from diag_kit.show.format import hours_won as said_won
from diag_kit.show.picture import Figure
from diag_kit.show.summary import short_note, superseded
from diag_kit.show.theme import BLUE, INK, OCHRE, RUST, SLATE, WIDTH
from diag_kit.show.timelines import machine, steps, timeline, who_read_what

if TYPE_CHECKING:
    import pandas as pd

READINGS = {
    "reading_unsplit_hours": ("every rank prints, loader not split", "files open per rank; no rollover at a quarter"),
    "reading_split_hours": ("every rank prints, loader split", "when epoch 0 rolls over; files open per rank"),
    "reading_one_printer_hours": ("one rank prints", "how often each step or learning rate stands in the log"),
    "reading_one_printer_split_hours": (
        "one rank prints, loader split",
        "how often each step or learning rate stands in the log",
    ),
    "reading_burst_hours": ("the window caught a burst of lines", "a second, longer window"),
}
"""What each rival reading says, and what would decide it."""

__all__ = ["READINGS", "hours_won", "machine", "readings", "steps", "timeline", "who_read_what"]


def readings(evidence: Evidence) -> Figure:
    """One bar per rival reading of the step count: hours, interval, what would decide; a reading that fell stays, hollow."""
    title = "How long the run takes, by reading"
    found = [each for each in evidence.calculations if each.name in READINGS]
    known = [each for each in found if _finite(each.value)]
    if not known:
        return Figure(
            title,
            "",
            why_none=_why(
                found, "No reading of the step count has been calculated: observe the log's facts and its rate, then calculate."
            ),
        )
    standing = evidence.calculation("run_hours")
    ends = [float(each.interval.high if each.interval else each.value or 0) for each in known]
    scale, unit = time_unit(max(ends))
    rows = [_reading(each, standing, scale, unit) for each in known]
    how = (
        "a bar is the length of the whole run if that reading is right, the line at its end the interval, the text what would "
        "decide; "
        "a filled bar is the reading that stands now, a hollow one a rival."
    )
    unknown = [READINGS[each.name][0] for each in found if not _finite(each.value)]
    subtitle = "whiskers: interval" + (f"; no number for: {', '.join(unknown)}" if unknown else "")
    return Figure(title, how, _readings_chart(rows, title, subtitle, unit))


def _reading(made: Calculation, standing: Calculation | None, scale: float, unit: str) -> dict[str, Any]:
    says, decides = READINGS[made.name]
    value = float(made.value or 0) * scale
    interval = Interval(made.interval.low * scale, made.interval.high * scale) if made.interval else None
    stands = (
        standing is not None and _finite(standing.value) and math.isclose(float(standing.value or 0) * scale, value, rel_tol=1e-6)
    )
    return {
        "reading": f"{says} ({made.id})" if made.id else says,
        "length": value,
        "low": interval.low if interval else value,
        "high": interval.high if interval else value,
        "stands": "stands now" if stands else "rival",
        "label": f"{quantity(value, unit, interval)}{', stands now' if stands else ''}",
        "decides": short_note(made.note) if made.note else f"decides: {decides}",
    }


def _readings_chart(rows: list[dict[str, Any]], title: str, subtitle: str, unit: str) -> Any:
    import altair as alt
    import pandas as pd

    table = pd.DataFrame(rows)
    order = table["reading"].tolist()
    top = float(table["high"].max())
    y = alt.Y("reading:N", sort=order, title=None, axis=alt.Axis(labelLimit=300, ticks=False, domain=False, labelPadding=6))
    x = alt.X("length:Q", title=f"length of the whole run [{unit}]", scale=alt.Scale(domain=[0, top * 1.02], nice=True))
    base = alt.Chart(table).encode(y=y)
    bars = base.mark_bar(height=16, stroke=BLUE, strokeWidth=1.5, color=BLUE).encode(
        x=x, fillOpacity=alt.Opacity("stands:N", scale=alt.Scale(domain=["stands now", "rival"], range=[0.85, 0.12]), legend=None)
    )
    whisker = base.mark_rule(strokeWidth=2, color=RUST).encode(x=alt.X("low:Q"), x2="high:Q")
    ends = alt.layer(*(base.mark_tick(thickness=2, height=10, color=RUST).encode(x=alt.X(f"{end}:Q")) for end in ("low", "high")))
    label = base.mark_text(align="left", baseline="bottom", dy=-11, fontWeight="bold").encode(x=alt.value(2), text="label:N")
    decides = base.mark_text(align="left", baseline="top", dy=11).encode(x=alt.value(2), text="decides:N")
    return alt.layer(bars, whisker, ends, label, decides).properties(
        width=WIDTH, height=alt.Step(68), title=alt.TitleParams(title, subtitle=subtitle)
    )


def hours_won(evidence: Evidence, findings: Sequence[Hypothesis] = ()) -> Figure:
    """A bar per open cause, from the hours won at least to the hours won at most; the whole run as a line."""
    title = "Hours that repairing each cause would win"
    newest = findings or list({each.cause: each for each in evidence.entries if isinstance(each, Hypothesis)}.values())
    open_ones = [
        each
        for each in newest
        if each.hours_won and each.hours_won.high > 0 and each.status not in (Status.REFUTED, Status.NOT_TESTABLE)
    ]
    if not open_ones:
        return Figure(
            title,
            "",
            why_none="No open cause has a number of hours: nothing to compare. Hypothesize first, or see what stays blind.",
        )
    total = next((each.hours_won.total_hours for each in open_ones if each.hours_won and each.hours_won.total_hours), None)
    most = max([each.hours_won.high for each in open_ones if each.hours_won] + ([total] if total else []))
    scale, unit = time_unit(most)
    rows = [_won_row(each, scale) for each in open_ones]
    how = (
        "a bar runs from the hours won at least to the hours won at most, a diamond marks the best single figure; hours of two "
        "causes may overlap and do not add up"
    )
    how += f"; nothing can win more than the line, the whole run ({hours(total)})." if total else "."
    return Figure(title, how, _won_chart(rows, title, total, scale, unit))


def _won_row(found: Hypothesis, scale: float) -> dict[str, Any]:
    won, point = found.hours_won, point_won(found)
    assert won is not None
    return {
        "cause": visible(found.title, 80),
        "low": won.low * scale,
        "high": won.high * scale,
        "point": None if point is None else point * scale,
        "label": f"{found.status.value}: {said_won(won, point)}",
        "status": found.status.value,
    }


def _won_chart(rows: list[dict[str, Any]], title: str, total: float | None, scale: float, unit: str) -> Any:
    import altair as alt
    import pandas as pd

    table = pd.DataFrame(rows)
    top = max(float(table["high"].max()), (total or 0.0) * scale)
    colours = alt.Scale(domain=[s.value for s in Status], range=[RUST, RUST, OCHRE, SLATE, SLATE])
    y = alt.Y(
        "cause:N",
        sort=table["cause"].tolist(),
        title=None,
        axis=alt.Axis(labelLimit=360, ticks=False, domain=False, labelPadding=6),
    )
    base = alt.Chart(table).encode(y=y)
    x = alt.X("low:Q", title=f"time won [{unit}]", scale=alt.Scale(domain=[0, top * 1.02], nice=True))
    bars = base.mark_bar(height=14, fillOpacity=0.55, strokeWidth=2).encode(
        x=x,
        x2="high:Q",
        color=alt.Color("status:N", scale=colours, legend=None),
        stroke=alt.Stroke("status:N", scale=colours, legend=None),
    )
    point = base.mark_point(shape="diamond", filled=True, size=90, color=INK, opacity=1).encode(x="point:Q")
    label = base.mark_text(align="left", baseline="bottom", dy=-10).encode(x=alt.value(2), text="label:N")
    layers: list[Any] = [bars, point.transform_filter("isValid(datum.point)"), label]
    if total:
        line = alt.Chart(pd.DataFrame({"total": [total * scale]}))
        layers.append(line.mark_rule(strokeDash=[5, 3], strokeWidth=2, color=INK).encode(x="total:Q"))
    subtitle = f"dashed line: the whole run, {hours(total)}" if total else "the length of the whole run is not known"
    return alt.layer(*layers).properties(width=WIDTH, height=alt.Step(52), title=alt.TitleParams(title, subtitle=subtitle))


def _finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _why(found: list[Calculation], nothing: str) -> str:
    notes = [f"{READINGS[each.name][0]}: {visible(each.note, 200)}" for each in found if each.note]
    return "; ".join(notes) or nothing


def projections(evidence: Evidence) -> pd.DataFrame:
    """Every projection of the whole run that was ever made, standing or superseded: id, hours, low, high, superseded_by."""
    import pandas as pd

    made = [e for e in evidence.entries if isinstance(e, Calculation) and e.name == "run_hours"]
    by = {pair.old.id: pair.new.id for pair in superseded(tuple(made))}
    rows = [
        {
            "id": each.id,
            "hours": each.value,
            "interval_h": span(each.interval.low, each.interval.high, 1) if each.interval else "",
            "formula": each.formula,
            "superseded_by": by.get(each.id, ""),
        }
        for each in made
    ]
    return pd.DataFrame(rows, columns=["id", "hours", "interval_h", "formula", "superseded_by"])
