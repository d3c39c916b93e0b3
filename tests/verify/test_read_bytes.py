"""The rung on bytes: what fits which way of reading, and that it never decides by itself."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest

from diag_kit.records import Fact, Observation, Parsed, Status
from diag_kit.verify.read_bytes import ALL, OWN, predictions, read_bytes
from diag_kit.verify.unsplit import judge_duplicated

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "calculate")]
from evidence_cases import START, Run
from test_unsplit import lab, watched

SAMPLE = 1e6
"""Bytes of a sample: 380 of them are 0.38 GB; a rank trains on 8 a second."""


def counted(run: Run, per_s: list[float], before: float = 0.0, stored: float = 0.0, fall: bool = False) -> Run:
    """The run with 10 s of counters: bytes a second of each rank, after ``before`` bytes since its start."""
    rows = [
        {"t": START + timedelta(seconds=300 + s), "rank": rank, "pid": 100 + rank,
         "rchar": int(before + each * s * (0.1 if fall and s == 10 else 1)), "read_bytes": int(stored * each * s)}
        for rank, each in enumerate(per_s) for s in (0, 5, 10)
    ]  # fmt: skip
    table = pd.DataFrame(rows).astype({"rank": "Int64", "pid": "Int64", "rchar": "Int64", "read_bytes": "Int64"})
    table["t"] = pd.to_datetime(table["t"], utc=True)
    size = Fact("dataset_bytes", int(380 * SAMPLE), "du")
    facts = (size, Fact("dataset_samples", 380, "train.log line 1"))
    return replace(run, extra=(*run.extra, Observation("rank_io", {}, "", (), Parsed("", facts, {"rank_io": table}), id="O30")))


@pytest.mark.parametrize(
    ("times", "fits", "said"),
    [
        (1.0, (OWN,), "fits a rank that reads what it trains on"),
        (1.4, (OWN,), "fits a rank that reads what it trains on"),
        (4.0, (ALL,), "fits a rank that reads all and keeps one in 4"),
        (2.0, (), "fits no way of reading"),
        (9.0, (), "fits no way of reading"),
        (0.0, (), "mapped or kept in memory, so this says nothing"),
    ],
)
def test_what_fits(times: float, fits: tuple[str, ...], said: str) -> None:
    found = read_bytes(counted(lab("none"), [times * 8 * SAMPLE] * 4).evidence())
    assert found is not None
    assert found.fits == fits
    assert said in found.told
    assert "bytes alone decide nothing" in found.told
    assert (found.low, found.high) == (pytest.approx(times, rel=0.05), pytest.approx(times, rel=0.05))


def test_one_rank_that_reads_for_all() -> None:
    """Rank 0 reads and sends: the ranks differ, and no way of reading fits."""
    found = read_bytes(counted(lab("none"), [32 * SAMPLE, 0, 0, 0]).evidence())
    assert found is not None
    assert found.fits == ()


def test_more_than_a_part_of_the_data_within_an_epoch() -> None:
    found = read_bytes(counted(lab("none"), [8 * SAMPLE] * 4, before=150 * SAMPLE, stored=0.5).evidence())
    assert found is not None
    assert found.epoch_share == pytest.approx(230 / 380)
    assert found.more_than_a_part
    assert "in epoch 0 it has read 0.61 of the data, more than the 1/4 of a split run" in found.told
    assert found.stored == pytest.approx(0.5)
    part = read_bytes(counted(lab("once"), [8 * SAMPLE] * 4).evidence())
    assert part is not None
    assert not part.more_than_a_part


def test_counters_that_fall_are_not_counted() -> None:
    assert read_bytes(counted(lab("none"), [8 * SAMPLE] * 4, fall=True).evidence()) is None
    assert read_bytes(lab("none").evidence()) is None


@pytest.mark.parametrize("times", [0.0, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("length", ["none", "once"])
def test_bytes_alone_change_no_verdict(times: float, length: str) -> None:
    """With any bytes the verdict is that of the count, and with opened files that of the files."""
    for run in (lab(length), watched(lab(length), length)):
        without, beside = judge_duplicated(run.evidence()), judge_duplicated(counted(run, [times * 8 * SAMPLE] * 4).evidence())
        assert (beside.verdict, beside.reason) == (without.verdict, without.reason)
        assert "bytes alone decide nothing" in beside.measured
        assert beside.verdict is not Status.CONFIRMED or without.verdict is Status.CONFIRMED


def test_every_rival_predicts_its_bytes() -> None:
    said = judge_duplicated(counted(lab("none"), [8 * SAMPLE] * 4).evidence())
    assert said.predicted["split once"].endswith("1 x what its steps hold is read, 0.095 GB an epoch")
    assert said.predicted["own order on each rank"].endswith("1 x what its steps hold is read, 0.38 GB an epoch")
    assert said.predicted["split twice"].endswith("1 x what its steps hold is read, 0.0238 GB an epoch")
    assert said.predicted["all read, one in N kept"] == "4 x what its steps hold is read, 0.38 GB an epoch"
    assert said.numbers["bytes_read_over_own_samples_low"] == pytest.approx(1.0, rel=0.05)
    assert "O30" in said.inputs
    assert predictions(lab("none").evidence()) == {}
