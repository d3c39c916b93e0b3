"""Loader, storage, communication, accounting, healthy; the exoneration table; the ranking."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.exoneration import exoneration
from diag_kit.hypothesize.ranking import rank, ranked
from diag_kit.records import Fact, HoursWon, Hypothesis, Status

sys.path.append(str(Path(__file__).parent.parent / "calculate"))
from evidence_cases import FOUNDING_TOLD, START, Run, compute, disks, founding, gpus, memory, observation, told

SPLIT = {"length": 8862, "total": 44310, "batch_printed": True}


def found_in(evidence: Evidence, cause: str) -> Hypothesis:
    return next(each for each in ranked(evidence) if each.cause == cause)


def with_columns(run: Run, **columns: float) -> Evidence:
    table = run.metrics().assign(**columns)
    return compute((*run.entries()[:2], observation("O3", "log_metrics", metrics=table), *run.entries()[3:]))


def test_the_founding_step_sends_for_up_to_a_third_of_it():
    found = found_in(founding().evidence(), "comm.bound")
    assert found.status is Status.UNDECIDED
    assert found.hours_won.low == 0
    assert found.hours_won.high == pytest.approx(11.2, abs=0.1)
    assert "0-2.8 h" in found.hours_won.how
    assert any("250 W of 600 W" in reason.text for reason in found.evidence_for)
    assert any("second fault" in reason.text for reason in found.evidence_for)


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        ((), Status.NOT_TESTABLE),
        ((gpus(),), Status.UNDECIDED),
        ((gpus(power_w=550),), Status.NOT_TESTABLE),
        ((told("O9", "parameters", 2.6e9),), Status.UNDECIDED),
        ((told("O9", "parameters", 2.6e7), told("O10", "link_gb_per_s", 50)), Status.REFUTED),
        ((told("O9", "parameters", 9e9), told("O10", "link_gb_per_s", 25), gpus()), Status.SUPPORTED),
    ],
)
def test_communication_by_what_is_known(extra, status):
    assert found_in(Run(extra=extra).evidence(), "comm.bound").status is status


def test_one_rank_sends_nothing():
    assert found_in(Run(ranks=1, printers=1).evidence(), "comm.bound").status is Status.REFUTED


def test_idle_local_disks_are_innocent_for_this_window_and_starvation_is_not_refuted():
    evidence = founding().evidence()
    storage, loader = found_in(evidence, "io.slow_storage"), found_in(evidence, "input.too_few_workers")
    assert storage.status is Status.REFUTED
    assert storage.evidence_against[0].text.startswith("local disks, this window: 3 kB/s read, 0.04 % iowait; 0.69 GB/s needed")
    assert "page cache or from a mount that it cannot see" in storage.claim
    assert storage.numbers["read_gb_per_s_needed"] == pytest.approx(0.69, abs=0.01)
    assert loader.status is Status.NOT_TESTABLE
    assert any("does not refute" in reason.text for reason in loader.evidence_against)


@pytest.mark.parametrize(
    ("seen", "facts", "columns", "status"),
    [
        (None, (), {}, Status.NOT_TESTABLE),
        (disks(), (Fact("data_mount_type", "nfs4", "/proc/mounts"),), {}, Status.NOT_TESTABLE),
        (disks(read_mb_per_s=180, iowait=35, wait_ms=60, util=99), (), {}, Status.UNDECIDED),
        (disks(read_mb_per_s=180, iowait=35, wait_ms=60, util=99), (), {"profile/fetch_frac": 0.7}, Status.SUPPORTED),
        (disks(read_mb_per_s=180, iowait=35, wait_ms=60, util=99), (), {"profile/fetch_frac": 0.01}, Status.REFUTED),
        (disks(read_mb_per_s=100, iowait=8, wait_ms=5, util=60), (), {}, Status.UNDECIDED),
    ],
)
def test_storage_by_what_was_seen(seen, facts, columns, status):
    run = Run(facts=facts, extra=(seen,) if seen else ())
    assert found_in(with_columns(run, **columns), "io.slow_storage").status is status


@pytest.mark.parametrize(
    ("share", "facts", "status"),
    [
        (0.66, (Fact("num_workers", 1, "args"),), Status.SUPPORTED),
        (0.66, (Fact("num_workers", 16, "args"),), Status.UNDECIDED),
        (0.12, (Fact("num_workers", 1, "args"),), Status.UNDECIDED),
        (0.02, (Fact("num_workers", 0, "args"),), Status.REFUTED),
        (None, (Fact("num_workers", 0, "args"),), Status.UNDECIDED),
        (None, (Fact("num_workers", 4, "args"),), Status.NOT_TESTABLE),
        (None, (), Status.NOT_TESTABLE),
    ],
)
def test_the_loader_by_the_share_of_a_step_that_waits(share, facts, status):
    columns = {} if share is None else {"profile/fetch_frac": share}
    found = found_in(with_columns(Run(facts=facts), **columns), "input.too_few_workers")
    assert found.status is status
    if status is Status.SUPPORTED:
        assert found.hours_won.high == pytest.approx(0.66 * 35.13, rel=0.01)
        assert "20%" in found.evidence_for[0].text


def test_data_time_beside_batch_time_is_a_share_too():
    found = found_in(
        with_columns(Run(facts=(Fact("num_workers", 1, "args"),)), data_time=0.612, batch_time=0.931), "input.too_few_workers"
    )
    assert found.numbers["loader_share_of_step"] == pytest.approx(0.657, abs=0.001)


def test_loader_processes_seen_running_count_per_rank():
    ranks = pd.DataFrame([{"job_pid": 1, "pid": 10 + i, "rank": i} for i in range(4)])
    processes = pd.DataFrame(
        [{"pid": 100 + i, "ppid": 10 + i, "cpu_pct": 99.0, "command": "python train.py", "state": "R"} for i in range(4)]
    )
    job = observation("O9", "training_jobs", Fact("loader_processes", 4, "/proc"), Fact("ranks_running", 4, "/proc"), ranks=ranks)
    evidence = with_columns(Run(extra=(job, observation("O10", "processes", processes=processes))), **{"profile/fetch_frac": 0.5})
    found = found_in(evidence, "input.too_few_workers")
    assert found.status is Status.SUPPORTED
    assert (found.numbers["workers_per_rank"], found.numbers["worker_cpu_pct"]) == (1, 99)


@pytest.mark.parametrize(
    ("run", "status"),
    [
        (Run(), Status.UNDECIDED),
        (Run(printers=1), Status.REFUTED),
        (Run(warm_up=None), Status.NOT_TESTABLE),
        (Run(extra=(told("O9", "steps_per_s", 5.6),)), Status.SUPPORTED),
        (Run(extra=(told("O9", "expected_hours", 8.8),)), Status.SUPPORTED),
        (Run(extra=(told("O9", "expected_hours", 35.0),)), Status.UNDECIDED),
    ],
)
def test_lines_for_steps_only_where_somebody_counted_so(run, status):
    found = found_in(run.evidence(), "acct.lines_times_ranks")
    assert found.status is status
    assert found.hours_won is None or found.hours_won.high == 0


def test_a_split_steady_busy_run_is_healthy_and_nothing_less_is():
    healthy = Run(**SPLIT, extra=(gpus(power_w=540),))
    assert found_in(healthy.evidence(), "healthy").status is Status.SUPPORTED
    assert ranked(healthy.evidence())[0].cause == "healthy"
    for lacking in (
        replace(healthy, extra=()),
        replace(healthy, extra=(gpus(power_w=250),)),
        replace(healthy, burst=64),
        replace(healthy, length=None, total=None),
        replace(healthy, extra=(gpus(power_w=540), told("O9", "one_gpu_steps_per_s", 6.0))),
    ):
        assert found_in(lacking.evidence(), "healthy").status is Status.UNDECIDED
    assert found_in(Run().evidence(), "healthy").status is Status.REFUTED


def test_exoneration_says_innocent_only_where_guilt_would_have_shown():
    table = exoneration(founding().evidence()).set_index("resource")
    assert table.loc["local disks", "verdict"] == "innocent"
    assert "0.69 GB/s needed" in table.loc["local disks", "reason"]
    assert table.loc["network mounts", "verdict"] == "blind"
    assert (table.loc["CPU", "verdict"], table.loc["memory", "verdict"]) == ("innocent", "innocent")
    assert "far from busy (42% of the power limit)" in table.loc["GPU compute", "reason"]
    assert (table.loc["NVLink", "verdict"], table.loc["PCIe traffic", "verdict"]) == ("blind", "blind")
    nothing = exoneration(compute(())).set_index("resource")
    assert set(nothing["verdict"]) == {"blind"}


def test_exoneration_finds_guilt_and_other_shades():
    busy = observation(
        "O9", "iostat", cpu=pd.DataFrame([{"t": pd.Timestamp(START), "idle_pct": 2.0, "iowait_pct": 0.0, "steal_pct": 0.0}])
    )
    full = observation(
        "O10", "memory", memory=pd.DataFrame([{"total_bytes": 1e11, "available_bytes": 1e9, "swap_used_bytes": 5e9}])
    )
    no_links = Fact("nvlink", "none", "nvidia-smi topo -m")
    facts = observation("O11", "gpus", no_links, Fact("data_mount_type", "xfs", "/proc/mounts"))
    slow = disks(read_mb_per_s=180, iowait=60, wait_ms=60, util=99)
    table = exoneration(compute((slow, busy, full, facts, gpus(power_w=560)))).set_index("resource")
    assert list(table.loc[["local disks", "CPU", "memory"], "verdict"]) == ["guilty", "guilty", "guilty"]
    assert table.loc["network mounts", "verdict"] == "innocent"
    assert table.loc["NVLink", "reason"].startswith("none present")
    assert table.loc["GPU compute", "verdict"] == "busy"


def test_exoneration_of_memory_that_was_read_in_part():
    """``free`` and ``top`` as people paste them leave columns out: pandas' NA is neither true nor false."""
    part = pd.DataFrame([{"total_bytes": 1e11, "available_bytes": 5e10, "swap_used_bytes": pd.NA}]).convert_dtypes()
    part["swap_used_bytes"] = part["swap_used_bytes"].astype("Int64")
    table = exoneration(compute((observation("O10", "memory", memory=part),))).set_index("resource")
    assert table.loc["memory", "reason"] == "50% of 100 GB available, swap not read"
    part["total_bytes"] = pd.array([pd.NA], dtype="Int64")
    table = exoneration(compute((observation("O10", "memory", memory=part),))).set_index("resource")
    assert table.loc["memory", "verdict"] == "blind"


def test_nvlink_that_is_present_stays_blind():
    facts = observation("O11", "gpus", Fact("nvlink", "present", "nvidia-smi topo -m"))
    table = exoneration(compute((facts,))).set_index("resource")
    assert table.loc["NVLink", "verdict"] == "blind"
    assert table.loc["NVLink", "reason"] == "present (nvidia-smi topo -m); the traffic over it was not read"


def made(cause: str, status: Status, low: float | None = None, high: float | None = None) -> Hypothesis:
    won = None if low is None else HoursWon(low, high or low, "")
    return Hypothesis(cause, cause, cause, status, hours_won=won)


def test_ranking_is_by_status_then_hours_and_ties_say_so():
    given = [
        made("x.refuted", Status.REFUTED),
        made("x.blind", Status.NOT_TESTABLE),
        made("healthy", Status.UNDECIDED),
        made("x.small", Status.SUPPORTED, 1, 9),
        made("x.large", Status.SUPPORTED, 2, 3),
        made("x.open", Status.UNDECIDED, 0, 11),
        made("x.also", Status.SUPPORTED, 2, 3),
        made("x.sure", Status.CONFIRMED, 0.1),
    ]
    found = rank(given)
    assert [each.cause for each in found] == [
        "x.sure", "x.also", "x.large", "x.small", "x.open", "healthy", "x.blind", "x.refuted",
    ]  # fmt: skip
    assert found[1].numbers["ties_with"] == "x.large"
    assert found[2].numbers["ties_with"] == "x.also"
    assert "ties_with" not in found[3].numbers
    assert rank(found) == found


def test_told_facts_of_the_founding_case_are_cited():
    found = found_in(founding().evidence(), "comm.bound")
    assert FOUNDING_TOLD[-1].id in found.evidence_for[0].ids
    assert memory().probe == "memory"
