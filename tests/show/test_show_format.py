"""Numbers, times and foreign text as they are written everywhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag_kit.records import HoursWon, Hypothesis, Interval, Status
from diag_kit.show.format import clock, duration, hours, hours_won, number, quantity, rate, size, span, utc, visible, wins


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "not known"),
        (0, "0"),
        (35446, "35446"),
        (177230.0, "177230"),
        (1.4, "1.40"),
        (0.00412, "0.00412"),
        (123.456, "123"),
        (True, "yes"),
        (float("nan"), "not known"),
        ("text", "text"),
    ],
)
def test_number(value: object, said: str) -> None:
    assert number(value) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "unit", "interval", "said"),
    [
        (1.4, "steps/s", Interval(1.33, 1.47), "1.40 steps/s (1.33-1.47)"),
        (35.17, "h", Interval(33.49, 37.01), "35.2 h (33.5-37.0)"),
        (8.79, "h", None, "8.8 h"),
        (1.4, "steps/s", Interval(1.3996, 1.4004), "1.40 steps/s (1.3996-1.4004)"),
        (4, "ranks", None, "4 ranks"),
        (4, "ranks", Interval(4, 4), "4 ranks"),
        (187, "steps", Interval(186, 188), "187 steps (186-188)"),
        (-0.4, "h", Interval(-1.5, 0.7), "-0.400 h (-1.500 to 0.700)"),
        (None, "h", None, "not known"),
    ],
)
def test_quantity_keeps_the_interval_beside_the_value(value: object, unit: str, interval: Interval | None, said: str) -> None:
    assert quantity(value, unit, interval) == said  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("won", "point", "said"),
    [
        (HoursWon(25.2, 27.7, "", 35.17), 26.38, "26.4 h (25.2-27.7) of 35.2 h"),
        (HoursWon(25.2, 27.7, "", 35.17), None, "25.2-27.7 h of 35.2 h"),
        (HoursWon(0, 11, "", 35.17), None, "0-11 h of 35.2 h"),
        (HoursWon(26.38, 26.38, ""), None, "26.4 h"),
        (HoursWon(0.0, 0.05, "", 0.2), None, "0-3 min of 12 min"),
        (HoursWon(0.019, 0.0203, "", 0.04), 0.0198, "1.2 min (1.1-1.2) of 2.4 min"),
        (HoursWon(0.001, 0.004, "", 0.01), None, "3.6-14.4 s of 36 s"),
        (HoursWon(25.2, 27.7, ""), 99.0, "25.2-27.7 h"),
        (None, None, "not known"),
    ],
)
def test_hours_won(won: HoursWon | None, point: float | None, said: str) -> None:
    assert hours_won(won, point) == said


def test_an_undecided_finding_has_bounds_and_no_point() -> None:
    found = Hypothesis(
        "c", "t", "t", Status.UNDECIDED, numbers={"hours_won_if_split": 26.4}, hours_won=HoursWon(0, 27.7, "", 35.2)
    )
    assert wins(found) == "wins 0.0-27.7 h of 35.2 h"
    assert wins(replace(found, status=Status.SUPPORTED)) == "wins 26.4 h (0.0-27.7) of 35.2 h"
    assert wins(replace(found, hours_won=HoursWon(0, 0, ""))) == "wins no hours"
    assert wins(replace(found, hours_won=None)) == "hours won: not known"


def test_small_words() -> None:
    assert [hours(x) for x in (35.17, 8.79, 0.5, 0.0, 1234.5)] == ["35.2 h", "8.8 h", "30 min", "0 h", "1234 h"]
    assert [duration(x) for x in (0, 0.81, 12.2, 270, 3600, 6300)] == ["0 s", "0.81 s", "12 s", "4 min 30 s", "1 h", "1 h 45 min"]
    assert [size(x) for x in (17, 212_000, 4.6e12)] == ["17 B", "212 kB", "4.60 TB"]
    assert rate(691e6) == "691 MB/s"
    assert span(25.2, 27.7) == "25.2-27.7"


def test_times_are_utc_whatever_zone_they_come_in() -> None:
    at = datetime(2026, 2, 14, 23, 31, 40, tzinfo=timezone(timedelta(hours=1)))
    assert utc(at) == "2026-02-14 22:31:40 UTC"
    assert utc(datetime(2026, 2, 14, 22, 31, 40)) == "2026-02-14 22:31:40 UTC"
    assert clock(at.astimezone(UTC)) == "22:31:40 UTC"


def test_foreign_text_is_spelt_out() -> None:
    assert visible("a\x1b[31mb\u202ec\u200bd\r\ne") == "a\\x1b[31mb\\u202ec\\u200bd\\x0d e"
    assert visible("ü 漢 é") == "ü 漢 é"
    assert visible("x" * 50, 10) == "xxxxxxxxxx… (40 more characters)"
    assert visible("a\nb", keep_lines=True) == "a\nb"


@given(st.text(), st.integers(0, 50))
def test_visible_never_lets_a_control_character_through(text: str, limit: int) -> None:
    shown = visible(text, limit)
    assert all(char == "\t" or char.isprintable() or char.isspace() for char in shown)
    assert not any(char in shown for char in "\x1b\x00\u202e\u2066\u200f\r")
    assert "\n" not in shown
