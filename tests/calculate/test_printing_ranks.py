"""Ranks that print are counted, or said not to be known; never the world size on faith."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from evidence_cases import Run, compute, observation

from diag_kit.calculate.ranks_that_print import PrintingRanks
from diag_kit.records import Fact


def counted(run: Run):
    evidence = run.evidence()
    return evidence.calculation("printing_ranks"), evidence.calculation("lines_per_step")


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("marks", [{}, {"steps_in_log": True}, {"rank_tags": True, "warm_up": None}, {"lr_form": "flat"}])
def test_all_ranks_print(ranks, marks):
    found, lines = counted(Run(ranks=ranks, printers=ranks, **marks))
    assert (found.value, lines.value) == (ranks, ranks)
    assert f"all {ranks} ranks of the job print" in found.note
    assert found.inputs[0] == "O3"


@pytest.mark.parametrize("marks", [{}, {"steps_in_log": True, "warm_up": None}, {"lr_form": "flat"}])
def test_one_rank_prints_for_four(marks):
    found, _ = counted(Run(printers=1, **marks))
    assert found.value == 1


def test_a_constant_learning_rate_without_steps_or_tags_is_not_known():
    found, lines = counted(Run(warm_up=None))
    assert found.value is None
    assert lines.value is None
    assert "nothing marks a step" in found.note


def test_a_rounded_learning_rate_that_hardly_changes_is_not_known():
    found, _ = counted(Run(lr_form="flat", warm_up=10**6, done=60))
    assert found.value in (None, 4)


def test_contradicting_estimates_give_none():
    table = Run(steps_in_log=True).metrics()
    table["step"] = pd.array(range(len(table)), dtype="Int64")  # steps say 1, learning rates say 4
    found, _ = PrintingRanks().compute(compute((observation("O1", "log_metrics", metrics=table),)))
    assert found.value is None
    assert "contradict" in found.note


def test_records_printed_twice_are_not_twice_as_many_ranks():
    table = Run(printers=8, steps_in_log=True).metrics()
    entries = (
        observation("O1", "training_jobs", Fact("world_size", 4, "/proc")),
        observation("O2", "log_metrics", metrics=table),
    )
    evidence = compute(entries)
    assert evidence.calculation("printing_ranks").value == 4
    assert evidence.calculation("lines_per_step").value == 8


def test_micro_batches_of_one_rank_are_not_taken_for_ranks():
    table = Run(printers=4, steps_in_log=True, times_in_log=True).metrics()
    start = table["t"].iloc[0]
    table["t"] = [start + pd.Timedelta(seconds=0.2 * i) for i in range(len(table))]
    entries = (
        observation("O1", "training_jobs", Fact("world_size", 2, "/proc")),
        observation("O2", "log_metrics", metrics=table),
    )
    found = compute(entries).calculation("printing_ranks")
    assert found.value == 1
    assert "micro-batches" in found.note
    same_as_world = (replace(entries[0], parsed=replace(entries[0].parsed, facts=(Fact("world_size", 4, "/proc"),))), entries[1])
    assert compute(same_as_world).calculation("printing_ranks").value is None


def test_a_log_of_several_runs_counts_the_newest():
    first, second = Run(steps_in_log=True, printers=4, done=40).metrics(), Run(steps_in_log=True, printers=2, done=60).metrics()
    table = pd.concat([first, second], ignore_index=True)
    found = compute((observation("O1", "log_metrics", metrics=table),)).calculation("printing_ranks")
    assert found.value == 2
    assert "2 runs" in found.note


def test_one_log_per_rank_adds_up():
    parts = []
    for rank in range(3):
        part = Run(printers=1, steps_in_log=True).metrics()
        parts.append(part.assign(file=f"rank_{rank}.log"))
    table = pd.concat(parts, ignore_index=True)
    assert compute((observation("O1", "log_metrics", metrics=table),)).calculation("printing_ranks").value == 3


def test_started_ranks_are_an_upper_bound_only():
    run = Run(printers=1, steps_in_log=True, facts=(Fact("started_ranks", 4, "train.log"),))
    found, _ = counted(run)
    assert found.value == 1
    assert "no more than these can print" in found.note


def test_a_hand_set_number_stands_and_is_said():
    found, _ = PrintingRanks(printing_ranks=4).compute(Run(warm_up=None).evidence())
    assert found.value == 4
    assert found.assumptions[0].source == "set by hand"
    assert found.parameters == {"printing_ranks": 4}


def test_no_records_and_too_few_records():
    empty, _ = PrintingRanks().compute(compute(()))
    assert empty.value is None
    found, _ = counted(Run(records=6))
    assert found.value is None
    assert "too few" in found.note
