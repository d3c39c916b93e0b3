"""Cards and the stored board: complete, bounded, and harmless whatever a host prints."""

from __future__ import annotations

import dataclasses
import time
from html.parser import HTMLParser

import pandas as pd
import pytest
from show_cases import HOSTILE, T0, StandIn, calculations, founding, hypotheses, observations, result, verifications

from diag_kit.records import (
    Assumption,
    Calculation,
    Cost,
    Fact,
    Hypothesis,
    Note,
    NotUnderstood,
    Observation,
    Parsed,
    Reason,
    Status,
    Verification,
)
from diag_kit.show.cards import blocks, card_of, state_of, with_intervals
from diag_kit.show.html import fill, frame, raw_output
from diag_kit.show.page import in_order, page
from diag_kit.show.summary import MEANING, SHAPE, summarise

VOID = {"br", "img", "input", "hr"}


class Balanced(HTMLParser):
    """Fails where a tag closes another's element; collects tags and attribute names."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.styles: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.styles += [value or "" for name, value in attrs if name == "style"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


def parsed(text: str) -> Balanced:
    seen = Balanced()
    seen.feed(text)
    seen.close()
    assert seen.open == []
    return seen


def test_the_stored_board_needs_nothing_that_the_sanitizer_drops() -> None:
    seen = parsed(page(founding()))
    assert seen.tags <= {
        *("div", "span", "b", "br", "details", "summary", "table", "tr", "td", "th", "pre", "code", "ul", "li", "a", "del")
    }
    assert not any(name.startswith("on") for name in seen.attributes)
    assert not any("var(" in style or "url(" in style for style in seen.styles)


def test_the_stored_board_says_the_answer_and_every_card() -> None:
    text = page(founding())
    assert "wins 26.4 h (25.2-27.7) of 35.2 h" in text
    assert "recorded (reconstruction)" in text
    for entry in founding().entries:
        assert getattr(entry, "id", "") in text
    assert text.index("Observe") < text.index("Calculate") < text.index("Hypothesize") < text.index("Verify")
    assert "Verify</b> 1, 2 not run" in text
    assert "not the cause: 1" in text and "blind here: 2" in text


def test_every_status_has_its_own_shape_and_meaning() -> None:
    assert len(set(SHAPE.values())) == len(Status) == len(set(MEANING.values()))
    for status in Status:
        found = dataclasses.replace(hypotheses()[0], status=status)
        card = card_of(found)
        assert SHAPE[status] in card and status.value in card


def test_an_observation_opens_to_command_output_and_hash() -> None:
    seen = observations()[2]
    card = card_of(seen)
    for part in (
        "trainbox",
        "2026-02-14 22:31:40 UTC",
        "exit status 0",
        seen.results[0].sha256,
        "first 12 of 748 lines",
        "tail -c 2M LOG",
    ):
        assert part in card, part
    assert "first 5 of 748 rows" in card
    assert "not understood: 1" in card


@pytest.mark.parametrize(
    ("problems", "facts", "state"),
    [((), (), "ok"), (("no iostat",), (), "▨ blind"), (("no iostat",), (Fact("cpu_count", 8, "/proc"),), "partly")],
)
def test_blind_is_as_visible_as_ok(problems: tuple[str, ...], facts: tuple[Fact, ...], state: str) -> None:
    seen = Observation("iostat", {}, "iostat", (), Parsed("s", facts, {}, (), problems), id="O1")
    assert state_of(seen) == state
    assert state in card_of(seen)
    assert all(problem in card_of(seen) for problem in problems)


def test_a_command_that_did_not_end_says_so() -> None:
    cut = result("sh -c x", b"half", exit_status=None, timed_out=True, truncated=True)
    seen = Observation("p", {}, "x", (cut,), Parsed("s"), Cost.CAREFUL, "O1")
    card = card_of(seen)
    assert "stopped at its time limit" in card
    assert "cut at the probe&#39;s limit" in card
    assert "careful: asked before it ran" in card


def test_a_superseded_calculation_is_struck_through_and_still_opens() -> None:
    old = calculations()[2]
    card = card_of(old, superseded_by="C4")
    assert "<del>whole run <b>8.8 h (8.3-9.3)</b></del>" in card
    assert "total steps / step rate / ranks" in card and "assumed that the loader is split" in card


def test_a_replacement_stands_where_the_replaced_one_stood() -> None:
    made = calculations()
    again = dataclasses.replace(made[3], id="C20", supersedes="C4", value=99.0)
    order = [(each.id, by) for each, by in in_order(summarise(StandIn([*made, again])))]
    assert order[:5] == [("C1", ""), ("C2", ""), ("C20", ""), ("C4", "C20"), ("C3", "C4")]
    assert len(order) == len(made) + 1


def test_a_calculation_that_abstains_says_why() -> None:
    card = card_of(calculations()[7])
    assert "not known" in card and "one window cannot tell" in card


def test_blocks_show_lower_and_upper_bound() -> None:
    assert blocks(25.2, 27.7, 35.2) == "■■■■■■··"
    assert blocks(0, 11, 35.2) == "□□□·····"  # rounded up to three
    assert blocks(0, 0, 35.2) == "········"
    assert blocks(1, 2, 0) == ""
    assert blocks(50, 90, 35.2) == "■■■■■■■■"


def hostile_entries() -> list[object]:
    bad = HOSTILE
    table = pd.DataFrame({bad: [bad], "t": [pd.Timestamp(T0)], "none": [pd.NA]})
    lost = (NotUnderstood(bad, bad, bad),)
    raw = result(bad, bad.encode(), host=bad, stderr=bad.encode())
    why = (Reason(bad, (bad,)),)
    assumed = (Assumption(bad, bad, bad, bad),)
    return [
        Observation(bad, {bad: bad}, bad, (raw,), Parsed(bad, (Fact(bad, bad, bad, bad),), {bad: table}, lost, (bad,)), id=bad),
        Calculation(bad, bad, bad, bad, (bad,), None, assumed, bad, note=bad, id=bad),
        Hypothesis(bad, bad, bad, Status.SUPPORTED, why, why, {bad: bad}, None, bad, bad, id=bad),
        Verification(bad, bad, {bad: bad}, bad, Status.CONFIRMED, bad, (bad,), {bad: bad}, bad, bad),
        Note(bad, T0),
    ]


def test_nothing_that_a_host_prints_becomes_markup() -> None:
    inv = StandIn(hostile_entries(), about=HOSTILE, question=HOSTILE)  # type: ignore[arg-type]
    inv.host.name = HOSTILE
    inv.redactions = {HOSTILE: 3}
    text = page(inv)
    seen = parsed(text)
    assert "script" not in seen.tags and "img" not in seen.tags
    assert "onerror" not in seen.attributes
    for bad in ("\x1b", "\u202e", "<script", "<img"):
        assert bad not in text
    assert "&lt;script&gt;" in text


def test_ten_megabytes_of_output_stay_small_and_quick() -> None:
    data = (b"<b>" + b"x" * 996 + b"\n") * 10_000
    began = time.perf_counter()
    shown = raw_output(data)
    assert time.perf_counter() - began < 1.0
    assert len(shown) < 10_000
    assert "first 12 of 10000 lines, 10.0 MB" in shown
    one_line = raw_output(b"y" * 10_000_000)
    assert "1 line, 10.0 MB" in one_line and len(one_line) < 2_000


def test_raw_bytes_of_any_kind_are_shown() -> None:
    assert "no output" in raw_output(b"")
    assert "1 line, 3 B" in raw_output(b"\xff\xfe\n")
    assert "2 lines" in raw_output(b"a\nb")


def test_a_table_shows_five_rows_and_its_true_size() -> None:
    shown = frame(pd.DataFrame({"a": range(7), "t": pd.Series([pd.NaT] * 7, dtype="datetime64[us, UTC]")}))
    assert "first 5 of 7 rows" in shown
    assert shown.count("<tr>") == 6
    assert "–" in shown


def test_fill_escapes_everything_but_markup() -> None:
    inner = fill("<b>{x}</b>", x="<i>")
    assert fill("{a}{b}", a=inner, b="{c}&") == "<b>&lt;i&gt;</b>{c}&amp;"


def test_verification_shows_what_each_rival_predicted() -> None:
    card = card_of(verifications()[0])
    assert "each step 4 times" in card and "each step once" in card and "wrong below 10 steps" in card


def test_numbers_keep_their_interval_beside_them() -> None:
    assert with_intervals({"run_hours": 35.2, "run_hours_low": 33.5, "run_hours_high": 37.0, "x_low": 1}) == {
        "whole run": "35.2 (33.5-37.0)",
        "x low": 1,
    }
