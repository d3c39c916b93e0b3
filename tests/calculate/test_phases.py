"""Phases of a run against a slow twin that walks the gaps one by one, and against runs whose phases are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diag_kit.calculate.phases import Event, Phase, phases, run_phases
from diag_kit.evidence import Evidence


def run(gaps, begin=100.0):
    return [begin + float(x) for x in np.concatenate([[0.0], np.cumsum(gaps)])]


def seconds(found):
    return dict(zip(found.frame()["phase"], found.frame()["seconds"], strict=True))


def test_every_phase_of_a_known_run_is_kept_apart_by_rule():
    gaps = [30.0, 2.5] + [1.0] * 40 + [21.0] + [1.0] * 40 + [8.0] + [1.0] * 40 + [5.0] + [1.0] * 40 + [4.0] + [1.0] * 40
    at = run(gaps)
    epochs = [0.0] * 125 + [1.0] * (len(at) - 125)
    events = [Event(at[43] - 3, Phase.EVALUATION, "val"), Event(at[84] - 1, Phase.CHECKPOINT, "Saving model")]
    found = phases(at, epochs, events, started_s=60.0)
    assert seconds(found) == pytest.approx(
        {
            "start-up": 39.0,
            "first steps (compilation, warm-up)": 32.5,
            "steady training": 204.0,
            "evaluation": 20.0,
            "checkpoint": 7.0,
            "epoch boundary": 4.0,
            "stall without a name": 3.0,
        }
    )
    assert found.frame()["share"].sum() == pytest.approx(1.0)
    assert found.steady.count(False) == 6
    assert {gap for gap, steady in zip(gaps, found.steady, strict=True) if steady} == {1.0}


def test_the_start_of_a_resumed_run_is_named_as_such_and_an_unknown_start_is_not_guessed():
    at = run([1.0] * 30)
    assert phases(at, started_s=50.0, resumed=True).stretches[0].phase is Phase.RESUME
    assert {each.phase for each in phases(at).stretches} == {Phase.STEADY}


def test_few_gaps_tell_nothing_and_an_event_without_time_leaves_a_gap_steady():
    few = phases(run([1.0] * 5))
    assert few.stretches == () and few.steady == (True,) * 5 and "too few" in few.note
    at = run([1.0] * 30)
    assert all(phases(at, events=[Event(at[7] - 0.5, Phase.CHECKPOINT, "saved")]).steady)
    assert phases([]).stretches == ()


def test_slow_steps_of_a_third_of_the_run_are_no_compilation():
    found = phases(run([9.0] * 12 + [1.0] * 24))
    assert Phase.FIRST_STEPS not in {each.phase for each in found.stretches}


def slow_seconds(gaps, limit, usual):
    """Walks gap by gap, without events and epochs."""
    out = {Phase.FIRST_STEPS: 0.0, Phase.STEADY: 0.0, Phase.STALL: 0.0}
    first = 0
    while first < len(gaps) and gaps[first] > limit:
        first += 1
    first = first if first <= 0.2 * len(gaps) else 0
    for place, gap in enumerate(gaps):
        if place < first:
            out[Phase.FIRST_STEPS] += gap
        elif gap > limit:
            out[Phase.STALL] += gap - usual
            out[Phase.STEADY] += usual
        else:
            out[Phase.STEADY] += gap
    return {str(phase): value for phase, value in out.items() if value > 0}


@given(st.lists(st.sampled_from([1.0, 1.1, 0.9, 1.0, 7.0, 30.0]), min_size=12, max_size=60))
@settings(max_examples=100, deadline=None)
def test_phases_equal_their_slow_twin_and_fill_the_wall_time(gaps):
    from diag_kit.calculate.statistics import stall_limit

    at = run(gaps)
    found = phases(at)
    exact = np.diff(at)
    expected = slow_seconds(list(exact), stall_limit(exact), float(np.median(exact)))
    assert seconds(found) == pytest.approx(expected)
    assert sum(each.seconds for each in found.stretches) == pytest.approx(at[-1] - at[0])


def test_a_log_without_times_says_so():
    assert run_phases(Evidence([])).note == "the log has no times for its steps"
