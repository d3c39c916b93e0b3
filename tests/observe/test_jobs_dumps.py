"""training_jobs on process dumps recorded from real runs (tests/lab/record_jobs.py made them)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diag_kit.observe.jobs import TrainingJobs
from diag_kit.records import CommandResult, Parsed

CASES = Path(__file__).parents[1] / "data" / "jobs"
NOW = datetime(2026, 11, 30, tzinfo=UTC)


def result(raw: bytes, status: int | None = 0, error: bytes = b"") -> CommandResult:
    return CommandResult("trainbox", "sh -c ...", raw, error, status, NOW, 0.1)


def read(case: str, name: str = "dump.txt", pid: int | None = None) -> Parsed:
    return TrainingJobs(pid=pid).read((result((CASES / case / name).read_bytes()),))


def facts(parsed: Parsed) -> dict[str, object]:
    return {fact.name: fact.value for fact in parsed.facts}


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_recorded_dump(case: str) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text())
    for path in sorted((CASES / case).glob("dump*.txt")):
        if path.name != "dump.txt":
            continue
        parsed = read(case, path.name)
        found = facts(parsed)
        assert {name: found.get(name) for name in expected["facts"]} == expected["facts"]
        jobs = parsed.tables["jobs"]
        assert [list(row) for row in zip(jobs["pid"], jobs["launcher"], jobs["ranks"], strict=True)] == expected["jobs"]
        ranks = parsed.tables.get("ranks", pd.DataFrame())
        columns = list(expected["ranks"][0]) if expected["ranks"] else []
        rows = ranks[columns].astype(object).where(ranks[columns].notna(), None).to_dict("records") if columns else []
        assert rows == expected["ranks"]
        assert list(parsed.problems) == expected["problems"]
        assert parsed.not_understood == ()


@pytest.mark.parametrize("case", ["torchrun_redirect", "torchrun_tee"])
def test_sh_fallback_sees_the_same(case: str) -> None:
    """The host without python3: the same facts and ranks from grep, ls and stat."""
    by_python, by_sh = read(case), read(case, "dump_sh.txt")
    assert facts(by_sh) == facts(by_python)
    pd.testing.assert_frame_equal(by_sh.tables["ranks"], by_python.tables["ranks"])
    assert by_sh.problems == by_python.problems == ()


def test_pid_chooses_among_several() -> None:
    """Launcher, rank and loader process all name their job; the other job stays listed."""
    both = read("two_jobs")
    assert both.tables["jobs"]["ranks"].tolist() == [3, 2]
    said = "1 of 2 trainings: pid 3421 (train.py); the other: pid 3359 (train.py, 2 ranks, root); choose with --pid"
    assert both.problems[0] == said
    assert facts(both)["choice_of_training"] == said
    smaller = int(both.tables["jobs"]["pid"].iloc[1])
    chosen = read("two_jobs", pid=smaller)
    assert facts(chosen)["world_size"] == 2
    assert str(facts(chosen)["choice_of_training"]).startswith("1 of 2 trainings: pid 3359 (train.py); the other: pid 3421")
    assert facts(chosen)["log_path"] == "/data/run/first/train.log"
    assert chosen.problems == ()
    rank = int(chosen.tables["ranks"]["pid"].iloc[1])
    assert facts(read("two_jobs", pid=rank))["job_pid"] == smaller


def test_pid_that_is_no_training() -> None:
    parsed = read("two_jobs", pid=1)
    assert parsed.facts == ()
    assert parsed.problems[0].startswith("no training holds pid 1")


def test_only_chosen_variables_are_sent() -> None:
    """The recorder had WANDB_API_KEY in the environment of the accelerate case: no byte of it is in the dump."""
    raw = (CASES / "accelerate" / "dump.txt").read_bytes()
    assert b"WANDB" not in raw
    assert b"CUDA_VISIBLE_DEVICES=2,3" in raw
    environment = read("accelerate").tables["environment"]
    assert set(environment["name"]) <= {
        "CUDA_VISIBLE_DEVICES", "GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "RANK",
        "OMP_NUM_THREADS", "PYTHONUNBUFFERED", "TORCHELASTIC_RUN_ID", "WORLD_SIZE",
    }  # fmt: skip


def test_log_in_another_mount_namespace() -> None:
    """As with a container: paths go through /proc/PID/root, once."""
    parsed = read("other_namespace")
    log = str(facts(parsed)["log_path"])
    assert log.startswith("/proc/")
    assert log.endswith("/root/data/run/train.log")
    assert "log_path_other" not in facts(parsed)


def test_cut_dump_is_told() -> None:
    raw = (CASES / "torchrun_tee" / "dump.txt").read_bytes()
    parsed = TrainingJobs().read((result(raw[: len(raw) // 2], 124),))
    assert any("incomplete (exit status 124)" in text for text in parsed.problems)


def test_empty_answer() -> None:
    parsed = TrainingJobs().read((result(b"", 127, b"sh: not found"),))
    assert parsed.summary == "no training is running"
    assert "sh: not found" in parsed.problems[0]
    assert len(parsed.tables["jobs"]) == 0


@given(st.binary(max_size=400))
def test_any_bytes(raw: bytes) -> None:
    TrainingJobs().read((result(raw),))


LINES = (CASES / "torchrun_tee" / "dump.txt").read_bytes().split(b"\n")


@given(st.lists(st.sampled_from(LINES), max_size=60), st.binary(max_size=20))
def test_shuffled_and_torn_lines(lines: list[bytes], dirt: bytes) -> None:
    """Processes vanish in mid-dump: any subset of lines in any order, with dirt between them."""
    TrainingJobs().read((result(dirt.join(line + b"\n" for line in lines)),))
