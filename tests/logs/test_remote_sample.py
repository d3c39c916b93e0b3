"""Blocks of a huge log: where it stands, without reading it."""

from __future__ import annotations

from pathlib import Path

import pytest

from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.logs.remote_sample import BLOCK_BYTES, LogSample
from diag_kit.records import Parsed


def sample(path: Path, blocks: int = 256) -> tuple[Parsed, int]:
    with local() as host:
        results = LogSample(str(path), blocks).collect(host, Evidence())
    return LogSample(str(path), blocks).read(results), len(results[0].stdout)


def write(path: Path, steps: int, restart_at: int = 10**9) -> None:
    """Two ranks, a step each two seconds from 20:00 on, so that a log of 10,000 steps passes midnight once."""
    lines = []
    for step in range(steps):
        second = 72_000 + 2 * step
        clock = f"{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}"
        shown = step if step < restart_at else step - restart_at
        for rank in range(2):
            lines.append(f"[rank{rank}] {clock} [a.b] INFO - {{'loss': 1.5, 'lr': 1e-05, 'epoch': 0, 'step': {shown}}}\n")
    path.write_text("".join(lines))


def test_ends_rate_and_count_of_a_log_of_which_a_part_is_read(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, 10_000)
    parsed, shipped = sample(path, blocks=16)
    ranks, size = parsed.tables["log_sample"], parsed.tables["log_sample_size"].iloc[0]
    assert ranks["rank"].tolist() == [0, 1]
    assert ranks["first_step"].tolist() == [0, 0] and ranks["last_step"].tolist() == [9999, 9999]
    assert ranks["seconds"].tolist() == [19_998.0, 19_998.0]  # over midnight
    assert ranks["steps_per_s"].tolist() == [0.5, 0.5]
    assert abs(size["records"] - 20_000) <= size["records_error"] < 2_000
    assert shipped < 20 * BLOCK_BYTES < path.stat().st_size / 4
    assert size["step_falls"] == 0


def test_a_restart_is_said_and_gives_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, 10_000, restart_at=6000)
    parsed, _ = sample(path, blocks=16)
    assert parsed.tables["log_sample_size"]["step_falls"].iloc[0] == 2
    assert parsed.tables["log_sample"]["steps_per_s"].isna().all()


def test_blocks_that_lie_days_apart_give_no_rate(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, 200_000)  # 4.6 days in 29 MB
    parsed, _ = sample(path, blocks=6)
    assert "midnights may be missed" in parsed.problems[0]
    assert parsed.tables["log_sample"]["steps_per_s"].isna().all()
    parsed, _ = sample(path, blocks=64)
    assert parsed.tables["log_sample"]["seconds"].tolist() == [399_998.0, 399_998.0] and not parsed.problems


def test_a_small_log_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    write(path, 50)
    parsed, _ = sample(path)
    size = parsed.tables["log_sample_size"].iloc[0]
    assert (size["records"], size["records_error"], size["size_bytes"]) == (100, 0, path.stat().st_size)


@pytest.mark.parametrize("text", ["", "nothing here\n" * 9])
def test_no_metrics(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.log"
    path.write_text(text)
    assert not sample(path)[0].tables
    assert "does not exist" in sample(tmp_path / "none")[0].problems[0]
