"""Correctly split runs in which ranks open the same files: never "confirmed", neither by a test nor by a finding."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.ranking import ranked
from diag_kit.records import Fact, Observation, Parsed, Status
from diag_kit.verify.unsplit import judge_duplicated, judge_same_order

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "calculate")]
from evidence_cases import START, Run
from test_shared_reads import simulate
from test_unsplit import lab, watched

BIG = Run(
    samples=4000, length=1000, total=5000, epochs=5, step_s=1 / 8, done=60, warm_up=None, rank_tags=True, batch_printed=True
)
WINDOW_S = 15.0


def seen_opens(run: Run, opens: pd.DataFrame) -> Run:
    """The run with these opens (rank, t_s, path, via) as what was watched."""
    table = opens.assign(t=pd.to_datetime([START + timedelta(seconds=300 + s) for s in opens["t_s"]], utc=True))
    table["rank"] = table["rank"].astype("Int64")
    parsed = Parsed("opens", (Fact("opens_window_s", WINDOW_S, "opened_files"),), {"opens": table.drop(columns="t_s")})
    return replace(run, extra=(Observation("opened_files", {}, "", (), parsed, id="O20"),))


def several_samples_a_file(run: Run, files: int = 400) -> Run:
    """Ranks split by sample, and a file holds ten samples."""
    rng = np.random.default_rng(3)
    order = rng.permutation(run.samples)
    reads = int(WINDOW_S * 8)
    rows = [
        (rank, i / 8 + rng.normal(0, 0.01), str(sample % files))
        for rank in range(4)
        for i, sample in enumerate(np.tile(order[rank::4], 3)[:reads])
    ]
    polled = pd.DataFrame(rows, columns=["rank", "t_s", "path"])
    return seen_opens(run, pd.concat([polled.assign(via="poll"), polled.assign(via="inotify", rank=pd.NA)]))


def model_parallel_pairs(run: Run) -> Run:
    """Two pairs of ranks that share a model, so that both of a pair read the same; the layout is not known."""
    rng = np.random.default_rng(3)
    opens = simulate("once", run.samples, 2, 8.0, WINDOW_S, rng)
    both = [
        opens[opens["rank"] == group].assign(
            rank=2 * group + member, t_s=lambda part: part["t_s"] + rng.normal(0, 0.02, len(part))
        )
        for group in (0, 1)
        for member in (0, 1)
    ]
    return seen_opens(run, pd.concat(both).assign(via="poll"))


CASES = {
    "reads all, keeps 1 in N": watched(lab("once"), "same"),
    "reads all, no length printed": watched(replace(lab("once"), length=None, total=None), "same"),
    "reads all, batch unknown": watched(replace(lab("once"), batch_printed=False), "same"),
    "several samples a file": several_samples_a_file(BIG),
    "several samples a file, no length": several_samples_a_file(replace(BIG, length=None, total=None)),
    "several samples a file, batch unknown": several_samples_a_file(replace(BIG, batch_printed=False)),
    "model parallel, no length": model_parallel_pairs(replace(BIG, length=None, total=None)),
    "model parallel, length of two": model_parallel_pairs(replace(BIG, length=2000, total=10000)),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_never_confirmed(name):
    evidence = CASES[name].evidence()
    duplicated, same = judge_duplicated(evidence), judge_same_order(evidence)
    assert Status.CONFIRMED not in (duplicated.verdict, same.verdict)
    tested = Evidence((*evidence.entries, replace(duplicated, id="V1"), replace(same, id="V2")))
    found = {each.cause: each.status for each in ranked(tested)}
    for cause in ("data.dup_no_sampler", "data.same_order"):
        assert found[cause] not in (Status.CONFIRMED, Status.SUPPORTED)


def test_a_validation_that_all_ranks_run_is_not_the_same_order():
    """Own orders, and for two seconds every rank reads the validation files together."""
    rng = np.random.default_rng(9)
    opens = simulate("none", 4000, 4, 8.0, WINDOW_S, rng)
    val = pd.DataFrame(
        [(rank, 5 + i / 20 + rng.normal(0, 0.01), f"val{i}") for rank in range(4) for i in range(40)],
        columns=["rank", "t_s", "path"],
    )
    run = replace(BIG, length=4000, total=20000)
    evidence = seen_opens(run, pd.concat([opens, val]).assign(via="poll")).evidence()
    assert judge_same_order(evidence).verdict is not Status.CONFIRMED
