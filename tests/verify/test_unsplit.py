"""The judges of the deciding test, over synthetic runs whose opened files are simulated."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diag_kit.records import Fact, Observation, Parsed, Status
from diag_kit.verify.unsplit import judge_double, judge_duplicated, judge_same_order, window_needed_s

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "calculate")]
from evidence_cases import START, Run
from test_shared_reads import simulate

OPEN = (Status.UNDECIDED, Status.NOT_TESTABLE)


def watched(run: Run, split: str, window_s: float = 15.0, caught: float = 0.5, folder: bool = True) -> Run:
    """The run with a window of opened files: polled with ranks, and all opens of the folder without."""
    rng = np.random.default_rng(5)
    rate = run.batch / run.step_s
    opens = simulate(split, run.samples, run.ranks, rate, window_s, rng)
    polled = opens[rng.random(len(opens)) < caught].assign(via="poll")
    table = pd.concat([polled, opens.assign(via="inotify", rank=pd.NA)] if folder else [polled])
    table["t"] = pd.to_datetime([START + timedelta(seconds=300 + s) for s in table["t_s"]], utc=True)
    table["rank"] = table["rank"].astype("Int64")
    window = Fact("opens_window_s", window_s, "opened_files")
    parsed = Parsed("opens", (window,), {"opens": table.drop(columns="t_s")})
    return replace(run, extra=(*run.extra, Observation("opened_files", {}, "", (), parsed, id="O20")))


def lab(split: str, **changes: object) -> Run:
    """A small run with 380 files at 8 steps a second, its loader length printed as the loader has it."""
    length = {"none": 380, "same": 380, "once": 95, "twice": 24}[split]
    run = Run(
        samples=380,
        length=length,
        total=length * 5,
        epochs=5,
        step_s=1 / 8,
        done=60,
        warm_up=None,
        rank_tags=True,
        batch_printed=True,
    )
    return replace(run, **changes)


def test_own_order_on_each_rank_is_confirmed():
    evidence = watched(lab("none"), "none").evidence()
    found = judge_duplicated(evidence)
    assert (found.verdict, judge_same_order(evidence).verdict) == (Status.CONFIRMED, Status.REFUTED)
    assert found.numbers["shared_reads_by_rank"] > 20
    assert judge_double(evidence).verdict is Status.REFUTED


@pytest.mark.parametrize("folder", [True, False])
def test_the_same_order_is_confirmed(folder):
    evidence = watched(lab("same"), "same", folder=folder).evidence()
    assert judge_same_order(evidence).verdict is Status.CONFIRMED
    assert judge_duplicated(evidence).verdict is Status.REFUTED


@pytest.mark.parametrize("split", ["once", "twice"])
@pytest.mark.parametrize("printed", ["the loader's", "the dataset's"])
def test_a_split_run_is_never_called_unsplit_by_the_window(split, printed):
    run = lab(split) if printed == "the loader's" else replace(lab(split), length=380, total=1900)
    evidence = watched(run, split).evidence()
    assert judge_duplicated(evidence).verdict is not Status.CONFIRMED
    assert judge_same_order(evidence).verdict is not Status.CONFIRMED
    if printed == "the loader's":
        assert judge_duplicated(evidence).verdict is Status.REFUTED
        assert judge_double(evidence).verdict is (Status.CONFIRMED if split == "twice" else Status.REFUTED)


def test_few_large_shards_opened_by_all_ranks_say_nothing():
    run = lab("once")
    rows = [
        {"t": START + timedelta(seconds=s), "rank": s % 4, "pid": 1, "path": f"/data/{s % 8}.arrow", "via": "poll"}
        for s in range(40)
    ]
    table = pd.DataFrame(rows).astype({"rank": "Int64"})
    table["t"] = pd.to_datetime(table["t"], utc=True)
    shards = Observation("opened_files", {}, "", (), Parsed("opens", (), {"opens": table}), id="O20")
    evidence = replace(run, length=None, total=None, extra=(shards,)).evidence()
    assert judge_duplicated(evidence).verdict in OPEN
    assert "too few" in judge_duplicated(evidence).measured


def test_the_founding_case_rests_on_arithmetic_and_leaves_the_order_open():
    evidence = Run().evidence()
    assert judge_duplicated(evidence).verdict is Status.SUPPORTED
    assert judge_same_order(evidence).verdict is Status.UNDECIDED
    assert "8861 or 8862" in judge_duplicated(evidence).predicted["split once"]
    assert window_needed_s(evidence) == 30.0


def test_model_parallel_ranks_share_data_and_are_not_called_unsplit():
    run = replace(lab("none"), command_line="train.py --tensor-parallel-size 4")
    evidence = watched(run, "same").evidence()
    assert judge_same_order(evidence).verdict in OPEN
    assert judge_duplicated(evidence).verdict in OPEN
