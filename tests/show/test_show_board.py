"""The live board without a browser: traits and bundles are asserted, clicks are calls."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import replace
from typing import Any

import pytest
from show_cases import CAREFUL, HOSTILE, NEXT, StandIn, founding, observations, result

from diag_kit.errors import Cancelled, CommandFailed
from diag_kit.progress import NextProbe, Progress
from diag_kit.records import Calculation, Cost
from diag_kit.show.assume import changeable, fields, read_value
from diag_kit.show.board import Board
from diag_kit.show.view import View
from diag_kit.show.work import Running, Worker, trouble_of


def shown(part: Any) -> bool:
    return part.layout.display != "none"


def cards(view: View, column: str) -> str:
    return "".join(w.value if hasattr(w, "value") else w.children[0].value for w in view.columns.boxes[column].children)


def settle(view: View, until: Any, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not until() and time.monotonic() < end:
        time.sleep(0.02)
    assert until()
    view.refresh()


def test_the_bundle_has_widget_html_and_text() -> None:
    board = Board(founding())  # type: ignore[arg-type]
    data, _ = board._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"} <= set(data)
    assert data["text/plain"].startswith("Why will this run take 35 hours?")
    assert repr(board) == "<Board of trainbox: 'Why will this run take 35 hours?'; needs a notebook, in a terminal: print(inv)>"


def test_showing_it_again_shows_the_same_live_board() -> None:
    inv = founding()
    assert Board(inv).widget is Board(inv).widget  # type: ignore[arg-type]
    assert len(inv._listeners) == 1


def test_the_answer_stands_first_and_the_columns_hold_every_card() -> None:
    view = View(founding())  # type: ignore[arg-type]
    assert "wins 26.4 h (25.2-27.7) of 35.2 h" in view.answer.value
    assert "recorded (reconstruction)" in view.head.value
    assert [len(view.columns.boxes[name].children) for name in ("Observe", "Calculate", "Hypothesize", "Verify")] == [7, 10, 5, 3]
    assert "<del>whole run" in cards(view, "Calculate")
    assert shown(view.ask) and not shown(view.progress) and not shown(view.errors) and not shown(view.consent)


def test_a_new_entry_adds_a_card_and_leaves_the_others_alone() -> None:
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    before = view.columns.boxes["Observe"].children
    inv.enter(observations()[0].__class__("new", {}, "", (), observations()[0].parsed, id="O42"))
    settle(view, lambda: len(view.columns.boxes["Observe"].children) == 8)
    assert view.columns.boxes["Observe"].children[:7] == before


def test_run_runs_the_offered_probe_in_a_thread() -> None:
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    view.worker.wait(5)
    assert inv.asked == [("data.dup_no_sampler", False)]
    settle(view, lambda: not view.worker.busy)
    assert "2 of 42 files at two ranks" in cards(view, "Verify")
    assert "strace" in view.decides.value


def test_progress_shows_what_runs_against_its_budget_and_can_be_cancelled() -> None:
    inv = founding()
    inv.pause_s = 30.0
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    settle(view, lambda: view.running.busy)
    settle(view, lambda: "opened files" in view.doing.value)
    assert shown(view.progress) and view.run.disabled
    assert "of 10 s" in view.doing.value
    view.cancel.click()
    view.worker.wait(5)
    settle(view, lambda: not view.worker.busy)
    assert not shown(view.progress) and not view.run.disabled


def test_work_of_a_cell_is_shown_and_how_to_stop_it() -> None:
    """While a cell runs, the kernel hears no click: measured with JupyterLab 4.6.6 and ipykernel 7.4."""
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    inv.tell_listeners(Progress("iostat", 10.0))
    view.refresh()
    assert shown(view.progress) and "stop button" in view.doing.value
    inv.tell_listeners(Progress("iostat", 10.0, 3.0, True))
    view.refresh()
    assert not shown(view.progress)


def test_a_cancelled_run_says_that_nothing_is_lost() -> None:
    inv = founding()
    inv.fails = Cancelled("stopped")
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    view.worker.wait(5)
    view.refresh()
    assert "What had been seen until then is kept" in view.errors.value


def test_an_error_is_shown_in_the_panel_with_the_next_step() -> None:
    inv = founding()
    inv.fails = CommandFailed("the connection broke " + HOSTILE, where="trainbox", next_step="run it again")
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    view.worker.wait(5)
    view.refresh()
    assert shown(view.errors)
    assert "the connection broke" in view.errors.value and "run it again" in view.errors.value
    assert "<script" not in view.errors.value and "\x1b" not in view.errors.value


def test_a_fault_of_the_kit_says_that_it_is_one() -> None:
    assert "fault of the kit" in trouble_of(ZeroDivisionError("x")).where


def test_a_careful_probe_asks_first() -> None:
    inv = founding()
    inv.probes = (CAREFUL,)
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    assert shown(view.consent) and inv.asked == []
    assert "strace of the ranks" in view.consent_text.value and "trainbox" in view.consent_text.value
    view.consent.children[1].click()
    assert not shown(view.consent) and inv.asked == []
    view.run.click()
    view.consent.children[0].click()
    view.worker.wait(5)
    assert inv.asked == [("data.same_order", True)]


def test_a_state_changing_probe_has_no_button() -> None:
    inv = founding()
    inv.probes = (NextProbe("x", "restart the job", Cost.STATE_CHANGING, 1.0, "whether it helps"),)
    view = View(inv)  # type: ignore[arg-type]
    assert "for you to find out" in view.decides.value and not shown(view.run)
    view._run_next()
    assert inv.asked == []


def test_a_named_probe_is_observed_and_everything_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    inv = founding()
    inv.probes = (NextProbe("io.slow_storage", "what the user knows", Cost.READ_ONLY, 1.0, "x", "told"),)
    monkeypatch.setattr("diag_kit.show.view.all_probes", lambda: {"told": lambda: "the probe"})
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    view.worker.wait(5)
    assert inv.observed == ["the probe"] and inv.asked == []


def test_rivals_that_share_a_test_are_offered_once() -> None:
    inv = founding()
    inv.probes = (NEXT, replace(NEXT, cause="data.same_order"), CAREFUL, replace(CAREFUL, budget_s=9.0))
    view = View(inv)  # type: ignore[arg-type]
    assert len(view.columns.boxes["Verify"].children) == 3


def test_not_now_offers_the_next_one_and_keeps_the_card() -> None:
    view = View(founding())  # type: ignore[arg-type]
    view.later.click()
    assert "strace" in view.decides.value
    assert "files open per rank" in cards(view, "Verify")
    view.later.click()
    assert not shown(view.ask)


def test_an_empty_board_offers_to_diagnose() -> None:
    inv = StandIn()
    view = View(inv)  # type: ignore[arg-type]
    assert view.run.description == "Diagnose" and not shown(view.later)
    view.run.click()
    view.worker.wait(5)
    settle(view, lambda: not view.worker.busy)
    assert "wins 26.4 h" in view.answer.value and view.run.description == "Run"


def test_changing_an_assumption_supersedes_the_calculation_in_place() -> None:
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    box = view.columns.cards["C4 stands"].children[1]
    field = next(w for w in box.children if getattr(w, "description", "").startswith("steps"))
    field.value = "100000"
    view.refresh()
    text = cards(view, "Calculate")
    assert "<del>whole run <b>35.2 h (33.5-37.0)</b></del>" in text
    assert text.index("70.3 h") < text.index("35.2 h (33.5-37.0)</b></del>") < text.index("reading: loader not split")


def test_a_wrong_value_is_said_beside_the_field_and_changes_nothing() -> None:
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    count = len(inv.entries)
    box = view.columns.cards["C4 stands"].children[1]
    next(w for w in box.children if getattr(w, "description", "").startswith("steps")).value = "many"
    assert "&#39;many&#39; is not a number" in box.children[-1].value
    assert len(inv.entries) == count


@pytest.mark.parametrize(
    ("typed", "before", "value"),
    [
        ("1.4", 1.0, 1.4),
        ("4", 1.0, 4.0),
        ("4", 2, 4),
        ("1.5", 2, 1.5),
        ("", 2, None),
        ("yes", False, True),
        ("text", "a", "text"),
        ("7", None, 7),
    ],
)
def test_read_value(typed: str, before: Any, value: Any) -> None:
    assert read_value(typed, before) == value
    assert type(read_value(typed, before)) is type(value)


@pytest.mark.parametrize("typed", ["abc", "nan", "inf", "1.2.3"])
def test_read_value_refuses(typed: str) -> None:
    with pytest.raises(ValueError, match="number"):
        read_value(typed, 1.0)


def test_every_field_of_a_real_calculator_can_be_set() -> None:
    made = Calculation("run_hours", "f", 35.2, "h", calculator="projection", parameters={"split_by": 4}, id="C1")
    by_name = {each.name: each.value for each in changeable(made)}
    assert by_name["split_by"] == 4 and by_name["total_steps"] is None
    assert fields(Calculation("x", "f", 1, "", id="C2"), lambda *_: None) is None


def test_running_shows_the_longest_budget_and_all_names() -> None:
    running = Running()
    running.feed(Progress("log_rate", 20.0, 5.0))
    running.feed(Progress("gpus", 10.0))
    line, fraction = running.state()
    assert line == "gpus, log rate: 5 of 20 s" and 0.2 < fraction < 0.3
    running.feed(Progress("gpus", 10.0, done=True))
    running.feed(Progress("log_rate", 20.0, done=True))
    assert running.state() == ("", 0.0) and not running.busy
    running.feed(Progress("slow", 2.0, 9.0))
    assert running.state()[0].endswith("longer than planned")


def test_a_worker_does_one_thing_at_a_time() -> None:
    go = threading.Event()
    worker = Worker(lambda: None)
    assert worker.start(lambda: go.wait(5))
    assert not worker.start(lambda: None)
    go.set()
    worker.wait(5)
    assert worker.start(lambda: None)
    worker.wait(5)


def test_hostile_text_stays_text_in_the_live_board() -> None:
    inv = founding(about=HOSTILE)
    inv.host.name = HOSTILE
    inv.probes = (NextProbe(HOSTILE, HOSTILE, Cost.CAREFUL, 1.0, HOSTILE), NEXT)
    view = View(inv)  # type: ignore[arg-type]
    view.run.click()
    for part in (view.head, view.decides, view.consent_text, view.foot):
        assert "<script" not in part.value and "\x1b" not in part.value and "\u202e" not in part.value


def test_telling_a_fact_enters_it() -> None:
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    line, said = view.box.children[-1].children
    which, value, _unit, button = line.children
    button.click()
    assert "no number was typed" in said.value
    which.value, value.value = "bandwidth between GPUs, one way", "50"
    button.click()
    assert inv.evidence.fact("link_gb_per_s").fact.value == 50  # type: ignore[union-attr]
    assert said.value == "" and value.value == ""


def test_importing_show_loads_neither_altair_nor_ipywidgets() -> None:
    code = (
        "import sys, diag_kit.show, diag_kit.show.text, diag_kit.show.page, diag_kit.show.board, diag_kit.show.display, "
        "diag_kit.show.charts; print([m for m in ('altair', 'ipywidgets', 'pandas', 'IPython') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_an_error_while_drawing_is_shown_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    view = View(founding())  # type: ignore[arg-type]

    def broken(_: object) -> None:
        raise KeyError("colour")

    monkeypatch.setattr("diag_kit.show.view.summarise", broken)
    view.refresh()
    assert shown(view.errors) and "KeyError" in view.errors.value and "fault of the kit" in view.errors.value


def test_closing_ends_the_subscription() -> None:
    inv = founding()
    view = View(inv)  # type: ignore[arg-type]
    view.close()
    assert inv._listeners == []


def test_a_tick_does_not_hash_megabytes_again() -> None:
    big = tuple(result("sh -c x", b"x" * 8_000_000) for _ in range(6))
    inv = StandIn([replace(observations()[0], results=(each,), id=f"O{n}") for n, each in enumerate(big)])
    view = View(inv)  # type: ignore[arg-type]
    began = time.perf_counter()
    view.refresh()
    assert time.perf_counter() - began < 0.1
