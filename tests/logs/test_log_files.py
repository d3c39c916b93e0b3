"""Several log files of one run: ranks, attempts of torchrun, parts of a rotated log."""

from __future__ import annotations

from pathlib import Path

import pytest

import diag_kit as dk
from diag_kit.observe.documents import observe_documents
from diag_kit.observe.logs.file_families import families_of_files

FAMILIES = {
    "ranks": (["rank_0.log", "rank_1.log", "rank_2.log"], [(0, 1, 2)]),
    "two unlike logs": (["a.log", "b.log"], [(0,), (1,)]),
    "rotated": (["t.log", "t.log.1", "t.log.2", "t.log.10"], [(3, 2, 1, 0)]),
    "rotated beside another": (["o.log", "t.log", "t.log.1"], [(0,), (2, 1)]),
    "attempts": (
        ["j/attempt_1/0/stdout.log", "j/attempt_0/0/stdout.log", "j/attempt_1/1/stdout.log", "j/attempt_0/1/stdout.log"],
        [(1, 3), (0, 2)],
    ),
    "streams of an attempt": (
        ["j/attempt_0/0/stderr.log", "j/attempt_0/0/stdout.log", "j/attempt_0/1/stderr.log", "j/attempt_0/1/stdout.log"],
        [(0, 2), (1, 3)],
    ),
    "one of a kind": (["t.log.1"], [(0,)]),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_families(name: str) -> None:
    names, members = FAMILIES[name]
    assert [family.members for family in families_of_files(names)] == members


def steps(first: int, last: int, start_s: int = 0) -> str:
    return "".join(
        f"2026-03-02 09:{(start_s + n) // 60:02d}:{(start_s + n) % 60:02d},000 INFO step {n} loss {9 - n / 100:.3f}\n"
        for n in range(first, last)
    )


def test_the_newest_attempt_is_read_last_with_all_its_ranks(tmp_path: Path) -> None:
    for attempt, (first, last) in enumerate([(0, 60), (50, 70)]):
        for rank in range(2):
            folder = tmp_path / f"attempt_{attempt}" / str(rank)
            folder.mkdir(parents=True)
            (folder / "stdout.log").write_text(steps(first, last))
    seen = observe_documents(dk.files(tmp_path).documents)
    tables = [table for each in seen if (table := each.table("metrics")) is not None]
    assert [(len(table), table["step"].min(), sorted(table["rank"].unique())) for table in tables] == [
        (120, 0, [0, 1]),
        (40, 50, [0, 1]),
    ]


def test_a_rotated_log_is_one_log(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(steps(80, 100))
    (tmp_path / "train.log.1").write_text(steps(30, 80))
    (tmp_path / "train.log.2").write_text(steps(0, 30))
    (seen,) = observe_documents(dk.files(tmp_path).documents)
    table = seen.table("metrics")
    assert table is not None
    assert table["step"].tolist() == list(range(100))
    assert table["file"].iloc[[0, -1]].tolist() == ["train.log.2", "train.log"]
    assert table["rank"].isna().all()
