"""What to look at next, and the tests for storage and accounting."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from diag_kit.hypothesize.ranking import ranked
from diag_kit.records import Cost, Fact, Status
from diag_kit.verify import accounting_test, storage_test
from diag_kit.verify.next_probe import next_probes

sys.path.append(str(Path(__file__).parent.parent / "calculate"))
from evidence_cases import START, Run, compute, disks, founding, observation, told


def test_the_founding_case_asks_for_the_files_open_per_rank_first():
    evidence = founding().evidence()
    first, *others = next_probes(evidence, ranked(evidence))
    assert (first.cause, first.title, first.cost) == ("data.dup_no_sampler", "files open per rank", Cost.READ_ONLY)
    for outcome in ("own", "split", "same moments"):
        assert outcome in first.what_it_decides
    bandwidth = next(each for each in others if each.title == "bandwidth between the GPUs")
    assert bandwidth.cost is Cost.STATE_CHANGING
    assert all(each.what_it_decides for each in (first, *others))
    careful = [place for place, each in enumerate(others) if each.cost is Cost.CAREFUL]
    assert min(careful) > 0


def test_what_was_seen_is_not_asked_for_again():
    probes = {each.probe for each in next_probes(Run().evidence())}
    assert {"iostat", "rank_io"} <= probes
    seen = founding().evidence()
    assert "iostat" not in {each.probe for each in next_probes(seen)}


def test_nothing_open_asks_for_nothing_more():
    evidence = Run(ranks=1, printers=1, extra=(disks(),)).evidence()
    assert "data.dup_no_sampler" not in {each.cause for each in next_probes(evidence)}


def reads(asked_mb_per_s: float, stored_mb_per_s: float):
    rows = [
        {"t": pd.Timestamp(START) + pd.Timedelta(seconds=s), "rank": rank, "pid": 10 + rank,
         "rchar": int(s * asked_mb_per_s * 1e6 / 2), "read_bytes": int(s * stored_mb_per_s * 1e6 / 2)}
        for rank in range(2) for s in range(11)
    ]  # fmt: skip
    return observation("O20", "rank_io", rank_io=pd.DataFrame(rows))


@pytest.mark.parametrize(
    ("extra", "share", "verdict"),
    [
        ((disks(), reads(700, 0.1)), None, Status.REFUTED),
        ((reads(700, 0.1),), None, Status.REFUTED),
        ((disks(180, 35, 60, 99), reads(180, 175)), 0.6, Status.CONFIRMED),
        ((disks(180, 35, 60, 99), reads(180, 175)), 0.01, Status.REFUTED),
        ((disks(180, 35, 60, 99),), None, Status.UNDECIDED),
        ((disks(), observation("O9", "jobs", Fact("data_mount_type", "lustre", "/proc/mounts"))), None, Status.NOT_TESTABLE),
        ((), None, Status.NOT_TESTABLE),
    ],
)
def test_storage_is_decided_by_bytes_from_it_and_by_waiting(extra, share, verdict):
    run = Run(extra=extra)
    table = run.metrics() if share is None else run.metrics().assign(**{"profile/fetch_frac": share})
    evidence = compute((*run.entries()[:2], observation("O3", "log_metrics", metrics=table), *run.entries()[3:]))
    found = storage_test.judge(evidence)
    assert found.verdict is verdict
    if extra and "rank_io" in [each.probe for each in extra]:
        assert found.numbers["asked_mb_per_s"] > 100


def test_storage_asks_for_reads_only_of_a_running_job():
    assert [probe.name for probe in storage_test.rungs(Run().evidence())] == ["iostat"]
    ranks = observation("O9", "training_jobs", ranks=pd.DataFrame([{"pid": 1, "rank": 0}]))
    assert [probe.name for probe in storage_test.rungs(Run(extra=(ranks,)).evidence())] == ["rank_io", "iostat"]


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (Run(printers=1), Status.REFUTED),
        (Run(), Status.UNDECIDED),
        (Run(extra=(told("O9", "steps_per_s", 5.6),)), Status.CONFIRMED),
        (Run(warm_up=None), Status.NOT_TESTABLE),
    ],
)
def test_lines_for_steps(run, verdict):
    assert accounting_test.judge(run.evidence()).verdict is verdict
