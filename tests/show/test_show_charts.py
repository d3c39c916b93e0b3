"""Charts: right numbers, bounded rows, UTC, extremes kept, and a sentence instead of an empty picture."""

from __future__ import annotations

import dataclasses
import socket
from datetime import timedelta

import pandas as pd
import pytest
from markupsafe import escape
from show_cases import (
    T0,
    StandIn,
    calculations,
    disk_table,
    founding,
    gpu_table,
    hypotheses,
    metrics_table,
    opens_table,
    window_table,
)

from diag_kit.errors import DiagError
from diag_kit.evidence import Evidence
from diag_kit.records import Interval, Observation, Parsed, Status
from diag_kit.show import charts
from diag_kit.show.picture import Figure, show, squeeze, to_png
from diag_kit.show.reduce import by_time

ALL = (charts.readings, charts.hours_won, charts.steps, charts.machine, charts.timeline, charts.who_read_what)


def seen(**tables: pd.DataFrame) -> Evidence:
    return Evidence([Observation("made_up", {}, "", (), Parsed("", (), tables), id="O1")])


def spec(figure: Figure) -> dict[str, object]:
    assert figure.chart is not None, figure.why_none
    return figure.chart.to_dict()  # type: ignore[no-any-return]


def rows(figure: Figure) -> list[dict[str, object]]:
    datasets = spec(figure)["datasets"]
    return [row for name in datasets for row in datasets[name]]  # type: ignore[attr-defined, index]


def walk(node: object) -> list[dict[str, object]]:
    found = [node] if isinstance(node, dict) else []
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return found + [each for child in children for each in walk(child)]


@pytest.mark.parametrize("chart", ALL)
def test_nothing_seen_gives_a_sentence_not_an_empty_chart(chart: object) -> None:
    for evidence in (Evidence(), seen(metrics=metrics_table(0, 0), opens=opens_table(0))):
        figure = chart(evidence)  # type: ignore[operator]
        assert figure.chart is None
        assert len(figure.why_none) > 30 and str(escape(figure.why_none)) in figure.html()
        assert "<img" not in figure.html()
        with pytest.raises(DiagError):
            _ = figure.png


def test_readings_have_hours_interval_and_what_decides() -> None:
    made = rows(charts.readings(founding().evidence))
    assert [(round(row["length"], 1), round(row["low"], 1), row["stands"]) for row in made] == [  # type: ignore[call-overload]
        (35.2, 33.5, "stands now"),
        (8.8, 8.4, "rival"),
        (8.8, 8.4, "rival"),
    ]
    assert made[0]["decides"] == "decides: files open per rank; no rollover at a quarter"
    assert made[2]["decides"] == "ruled out by C1: each step stands in 4 lines"
    title = spec(charts.readings(founding().evidence))["title"]
    assert "no number for: the window caught a burst of lines" in title["subtitle"]  # type: ignore[index]


def test_hours_won_runs_from_low_to_high_and_leaves_out_the_refuted() -> None:
    made = [row for row in rows(charts.hours_won(founding().evidence)) if "cause" in row]
    assert [(row["low"], row["high"], row["point"]) for row in made] == [(25.2, 27.7, 26.38), (0, 11, None)]
    refuted = [dataclasses.replace(each, status=Status.REFUTED) for each in hypotheses()]
    assert charts.hours_won(StandIn(refuted).evidence).chart is None


def test_steps_are_drawn_per_rank_on_a_utc_axis() -> None:
    figure = charts.steps(founding().evidence)
    made = rows(figure)
    assert len(made) == 748
    assert {row["rank"] for row in made} == {"0", "1", "2", "3"}
    x = spec(figure)["encoding"]["x"]  # type: ignore[index]
    assert x["title"] == "time [UTC]" and x["scale"]["type"] == "utc"
    assert str(made[0]["t"]).endswith("+00:00")


def test_without_stamps_the_window_is_drawn() -> None:
    untimed = metrics_table()
    untimed["t"] = pd.Series([pd.NaT] * len(untimed), dtype="datetime64[us, UTC]")
    figure = charts.steps(seen(metrics=untimed, log_window=window_table()))
    assert figure.title == "New metric records over time"
    assert max(row["records_total"] for row in rows(figure)) == 168  # type: ignore[type-var]


def test_metrics_without_ranks_are_points_and_say_so() -> None:
    table = metrics_table()
    table["rank"] = pd.Series([pd.NA] * len(table), dtype="Int64")
    figure = charts.steps(seen(metrics=table))
    assert "which rank wrote them is not said" in str(spec(figure)["title"])


def test_machine_draws_power_against_its_limit_and_says_what_was_not_seen() -> None:
    figure = charts.machine(founding().evidence)
    text = str(spec(figure))
    assert "limit 600 W" in text and "the job needs 691 MB/s (C10)" in text
    assert "not seen: CPU waiting for I/O" in text
    assert "GPU power [W]" in text and "disk read [MB/s]" in text


def test_all_panels_share_one_time_domain() -> None:
    figure = charts.timeline(founding().evidence)
    domains = [
        str(node["scale"]["domain"])
        for node in walk(spec(figure))
        if node.get("field") == "t" and "domain" in node.get("scale", {})
    ]  # type: ignore[index, operator, attr-defined]
    assert len(domains) >= 4 and len(set(domains)) == 1


@pytest.mark.parametrize("chart", ["steps", "machine", "who_read_what", "timeline"])
def test_no_chart_has_more_than_two_thousand_rows_a_table(chart: str) -> None:
    evidence = seen(
        metrics=metrics_table(8, 3000),
        gpus=gpu_table(8, 3000),
        disk=disk_table(),
        log_window=window_table(9000),
        opens=opens_table(8, 900),
    )
    figure = getattr(charts, chart)(evidence)
    datasets = spec(figure)["datasets"]
    assert sum(len(table) for table in datasets.values()) <= 2 * 2000 if chart == "timeline" else 2000  # type: ignore[attr-defined]
    assert all(len(table) <= 2000 for table in datasets.values())  # type: ignore[attr-defined]
    assert "drawn" in str(spec(figure))


def test_reduction_keeps_every_stall_and_says_what_it_did() -> None:
    t = pd.Series([T0 + timedelta(seconds=s) for s in range(50_000)]).astype("datetime64[us, UTC]")
    table = pd.DataFrame({"t": t, "v": 1.0})
    table.loc[33_333, "v"] = 99.0
    table.loc[44_444, "v"] = -5.0
    table.loc[10, "v"] = float("nan")
    kept, said = by_time(table, "v")
    assert len(kept) <= 2000
    assert kept["v"].max() == 99.0 and kept["v"].min() == -5.0
    assert kept.loc[kept["v"] == 99.0, "t"].iloc[0] == t[33_333]
    assert kept["t"].is_monotonic_increasing
    assert said == "49999 rows drawn as lowest, mean and highest of every 1 min 15 s; 1 rows without time or value left out"


def test_reduction_leaves_small_tables_alone() -> None:
    kept, said = by_time(disk_table(), "read_mb_per_s", "device")
    assert len(kept) == 29 and said == ""


def test_reduction_of_one_instant_does_not_divide_by_zero() -> None:
    table = pd.DataFrame({"t": [pd.Timestamp(T0)] * 5000, "v": range(5000)})
    kept, _ = by_time(table, "v")
    assert kept["v"].max() == 4999 and kept["v"].min() == 0


def test_shared_files_are_ringed_and_survive_the_reduction() -> None:
    figure = charts.who_read_what(seen(opens=opens_table(4, 900, shared=3)))
    assert "3 of them by more than one rank (ringed)" in str(spec(figure)["title"])
    shared = {row["file"] for row in rows(figure) if row.get("shared")}
    assert shared == {1, 2, 3}


def test_opens_without_ranks_claim_nothing_about_ranks() -> None:
    table = opens_table()
    table["rank"] = pd.Series([pd.NA] * len(table), dtype="Int64")
    figure = charts.who_read_what(seen(opens=table))
    assert "which rank opened them was not seen" in str(spec(figure)["title"])


def test_rank_three_keeps_its_colour_when_others_are_missing() -> None:
    from diag_kit.show.theme import rank_scales

    every, _ = rank_scales([0, 1, 2, 3])
    alone, _ = rank_scales([3])
    assert alone.to_dict()["range"] == [every.to_dict()["range"][3]]


@pytest.mark.parametrize("chart", ALL)
def test_pictures_are_drawn_without_a_network(chart: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    evidence = Evidence([*founding().evidence.entries, *seen(opens=opens_table()).entries])
    figure = chart(evidence)  # type: ignore[operator]
    html = figure.html()
    assert figure.png.startswith(b"\x89PNG")
    assert len(figure.png) < 250_000
    assert "data:image/png;base64," in html and "http" not in html and figure.how_to_read[:40] in html.replace("&#39;", "'")
    assert "<svg" not in html


def test_the_bundle_has_html_and_text() -> None:
    figure = show(charts.hours_won(founding().evidence))
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"text/html", "text/plain"}
    assert bundle["text/plain"].startswith("Hours that repairing each cause would win: a bar runs")
    assert repr(figure) == "<Figure: Hours that repairing each cause would win>"


def test_a_plain_altair_chart_can_be_shown_too() -> None:
    import altair as alt

    figure = show(alt.Chart(pd.DataFrame({"a": [1]})).mark_point().encode(x="a:Q"), how_to_read="a dot")
    assert figure.png.startswith(b"\x89PNG") and "a dot" in figure.html()


def test_the_theme_stays_ours() -> None:
    import altair as alt

    before = alt.theme.active
    assert charts.hours_won(founding().evidence).chart is not None
    to_png(charts.hours_won(founding().evidence).chart)
    assert alt.theme.active == before


def test_live_is_an_offline_widget() -> None:
    live = show(charts.hours_won(founding().evidence), live=True)
    assert type(live).__name__ == "JupyterChart"
    assert "esm.sh" not in str(type(live)._esm)[:2000]
    assert show(Figure("t", "", why_none="w"), live=True).why_none == "w"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DiagError, match="vl-convert-python"):
        to_png(object())


def test_squeezing_keeps_every_pixel() -> None:
    import io
    import zlib

    import altair as alt

    out = io.BytesIO()
    alt.Chart(pd.DataFrame({"a": [1]})).mark_point().encode(x="a:Q").save(out, format="png")
    before, after = out.getvalue(), squeeze(out.getvalue())
    assert len(after) < len(before) and pixels(after) == pixels(before)
    assert zlib.crc32(after[-8:-4]) == int.from_bytes(after[-4:], "big"), "the last chunk is whole"


def pixels(png: bytes) -> bytes:
    import zlib

    at, data = 8, b""
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        data += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += 12 + size
    return zlib.decompress(data)


def test_a_run_of_minutes_is_drawn_in_minutes() -> None:
    short = [
        dataclasses.replace(
            each,
            value=each.value / 1000,
            interval=each.interval and Interval(each.interval.low / 1000, each.interval.high / 1000),
        )
        for each in calculations()
        if each.unit == "h" and each.value and each.interval
    ]
    figure = charts.readings(StandIn(short).evidence)  # type: ignore[arg-type]
    assert rows(figure)[0]["label"] == "2.11 min (2.01-2.22), stands now"
    assert "length of the whole run [min]" in str(spec(figure))


def test_opens_by_an_unseen_rank_are_dots_and_counted() -> None:
    table = opens_table()
    table.loc[:9, "rank"] = pd.NA
    figure = charts.who_read_what(seen(opens=table))
    assert "10 opens by a rank that was not seen (dots)" in str(spec(figure)["title"])
    assert figure.png.startswith(b"\x89PNG")
