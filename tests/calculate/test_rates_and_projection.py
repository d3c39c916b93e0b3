"""Rates, readings, projections: the founding case's numbers with their intervals, and honesty elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evidence_cases import Run, compute, founding, observation, told

from diag_kit.calculate.calculator import all_calculators
from diag_kit.calculate.rates import StepRate
from diag_kit.calculate.run_projection import Projection
from diag_kit.calculate.sent_per_step import Communication
from diag_kit.calculate.standard import standard_calculators
from diag_kit.evidence import Evidence
from diag_kit.records import Calculation, Fact


def near(made: Calculation, value: float, low: float | None = None, high: float | None = None) -> None:
    assert made.value == pytest.approx(value, rel=0.01), made
    if low is not None:
        assert made.interval is not None
        assert (made.interval.low, made.interval.high) == (pytest.approx(low, rel=0.01), pytest.approx(high, rel=0.01))


FOUNDING = founding().evidence()


@pytest.mark.parametrize(
    ("name", "value", "low", "high"),
    [
        ("printing_ranks", 4, None, None),
        ("log_lines_per_s", 5.6, 5.33, 5.87),
        ("step_rate", 1.4, 1.33, 1.47),
        ("step_time", 0.714, 0.682, 0.75),
        ("samples_per_s", 5.6, 5.33, 5.87),
        ("steps_done", 187, 187, 187),
        ("start_up_s", 136.4, 129.7, 142.5),
        ("reading_unsplit_hours", 35.2, 33.57, 36.92),
        ("reading_split_hours", 8.79, 8.39, 9.23),
        ("reading_one_printer_hours", 8.79, 8.39, 9.23),
        ("run_hours", 35.2, 33.57, 36.92),
        ("epoch_hours", 7.03, 6.71, 7.38),
        ("steps_per_epoch_if_split", 8862, None, None),
        ("run_hours_if_split", 8.79, 8.39, 9.23),
        ("hours_won_if_split", 26.4, 25.2, 27.7),
        ("effective_batch", 4, None, None),
        ("effective_batch_if_split", 4, None, None),
        ("read_gb_per_s_needed", 0.69, 0.66, 0.72),
        ("one_gpu_run_hours", 8.2, None, None),
        ("speedup_over_one_gpu", 0.933, 0.889, 0.978),
        ("comm_gb_per_step", 11.4, None, None),
        ("comm_s_per_step", 0.228, None, None),
    ],
)
def test_the_founding_numbers(name, value, low, high):
    near(FOUNDING.calculation(name), value, low, high)


def test_the_founding_notes_say_what_decides_and_what_is_ruled_out():
    notes = {made.name: made.note for made in FOUNDING.calculations}
    assert "8861 or 8862" in notes["reading_split_hours"]
    assert "ruled out: 4 of 4 ranks print" in notes["reading_one_printer_hours"]
    assert "ruled out for this window" in notes["reading_burst_hours"]
    assert "168 lines" in notes["step_rate"]
    assert "no stall seen in 42 steps" in notes["step_rate"]
    assert "second fault" in notes["speedup_over_one_gpu"]
    assert "not the rate" in notes["start_up_s"]
    assert "8861" in notes["steps_per_epoch_if_split"]


def test_eight_gpus_send_for_0_27_s():
    told_eight = (told("O1", "parameters", 2.6e9), told("O2", "trainable_parameters", 1.2e9), told("O3", "link_gb_per_s", 50.0))
    _, seconds = Communication(world_size=8).compute(Evidence(told_eight))
    near(seconds, 0.266)


def test_every_calculation_names_its_maker_and_can_be_made_again():
    for made in FOUNDING.calculations:
        again = all_calculators()[made.calculator](**made.parameters).compute(FOUNDING)
        assert made.name in [each.name for each in again]


def test_the_false_start_of_one_printer_is_a_parameter_away():
    run, *_ = Projection(printing_ranks=1).compute(FOUNDING)
    near(run, 8.79)
    doubt, *_ = Projection(split_by=4).compute(FOUNDING)
    near(doubt, 8.79)
    assert {a.name: a.value for a in doubt.assumptions}["total_steps"] == 44308
    assert doubt.parameters["split_by"] == 4


def test_one_printing_rank_takes_a_line_for_a_step():
    evidence = Run(printers=1).evidence()
    near(evidence.calculation("step_rate"), 1.4, 1.33, 1.47)
    near(evidence.calculation("run_hours"), 35.2)
    assert "ruled out: 1 of 4 ranks print" in evidence.calculation("reading_unsplit_hours").note


def test_unknown_printers_make_an_assumption_whose_interval_covers_one_printer():
    evidence = Run(warm_up=None).evidence()
    rate = evidence.calculation("step_rate")
    near(rate, 1.4, 1.33, 5.87)
    assumed = {a.name: a for a in rate.assumptions}["printing_ranks"]
    assert (assumed.value, assumed.source) == (4, "assumed")
    assert "assumption" in rate.note
    assert evidence.calculation("run_hours").interval.low < 8.8
    assert evidence.calculation("steps_done").value is None


def test_bursts_widen_and_a_rate_without_a_lower_end_projects_nothing():
    evidence = Run(burst=64).evidence()
    rate = evidence.calculation("step_rate")
    assert rate.interval.low <= 1.4 <= rate.interval.high
    assert evidence.calculation("run_hours").value is None
    assert "burst" in evidence.calculation("reading_burst_hours").note
    assert "ruled out" not in evidence.calculation("reading_burst_hours").note


@pytest.mark.parametrize("every", [1, 5, 10])
def test_logging_every_few_steps_is_counted(every):
    evidence = Run(steps_in_log=True, log_every=every, done=1000, times_in_log=True).evidence()
    near(evidence.calculation("step_rate"), 1.4)
    assert evidence.calculation("steps_done").value == 1000
    assert evidence.calculation("step_rate").interval.low <= 1.4 <= evidence.calculation("step_rate").interval.high


def test_times_in_the_log_give_rate_and_start_up_without_a_window():
    run = Run(steps_in_log=True, times_in_log=True, done=400, start_up_s=100)
    entries = tuple(e for e in run.entries() if e.id != "O4")
    evidence = compute(entries)
    near(evidence.calculation("step_rate"), 1.4)
    near(evidence.calculation("start_up_s"), 100.7)
    assert "log's own times" in evidence.calculation("step_rate").note


def test_two_clocks_that_disagree_say_so():
    run = Run(steps_in_log=True, times_in_log=True, done=400)
    slow = replace(run, step_s=run.step_s * 2).log_window()
    evidence = compute((*run.entries()[:3], observation("O9", "log_rate", log_window=slow)))
    assert "two clocks disagree" in evidence.calculation("step_rate").note


def test_nothing_is_projected_from_the_start_of_the_process():
    evidence = compute(tuple(e for e in Run().entries() if e.id != "O4"))
    assert evidence.calculation("step_rate").value is None
    assert evidence.calculation("run_hours").value is None
    assert "count the start-up as steps" in evidence.calculation("step_rate").note


def test_a_stated_step_limit_wins_no_hours():
    evidence = Run(total=20000).evidence()
    assert evidence.calculation("hours_won_if_split").value == 0
    assert "step limit" in evidence.calculation("hours_won_if_split").note


def test_a_source_that_splits_beside_an_unsplit_length_projects_nothing():
    evidence = Run(facts=(Fact("split_by_source", "once", "train.py:9"),)).evidence()
    assert evidence.calculation("run_hours").value is None
    near(evidence.calculation("reading_unsplit_hours"), 35.2)
    near(evidence.calculation("reading_split_hours"), 8.79)


def test_a_resumed_run_leaves_what_is_left():
    run = Run(steps_in_log=True, done=200)
    left = run.evidence().calculation("remaining_hours").value
    later = replace(run, facts=(Fact("resume_step", 100_000, "train.log"),)).evidence().calculation("remaining_hours").value
    assert later == pytest.approx(left * (177230 - 100_200) / (177230 - 199), rel=0.01)


def test_told_facts_outrank_the_log_and_the_contradiction_is_said():
    run = Run(extra=(told("O9", "total_steps", 88615),))
    near(run.evidence().calculation("run_hours"), 17.58)
    facts = (Fact("world_size", 8, "torchrun --nproc_per_node"),)
    evidence = Run(facts=facts).evidence()
    assert evidence.calculation("printing_ranks").value == 4


def test_lines_and_window_set_by_hand():
    made = {c.name: c for c in StepRate(printing_ranks=4, lines=168, window_s=30).compute(compute(()))}
    near(made["step_rate"], 1.4, 1.33, 1.47)
    near(made["log_lines_per_s"], 5.6, 5.33, 5.87)


def test_nothing_known_computes_nothing_and_raises_nothing():
    evidence = compute(())
    assert all(made.value is None for made in evidence.calculations)
    assert len(standard_calculators(evidence)) == 9
