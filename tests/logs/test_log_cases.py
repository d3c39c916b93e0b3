"""Each folder of tests/data/logs: raw logs, and what must come out of them.

``expected.json``: ``rows`` (all rows, in order; columns not named must be missing), or ``rows_at``, ``train_rows``,
``distinct_steps``, ``ranks``; ``no_rows``; ``timings`` (as ``rows``); ``facts`` (the newest statement of each), ``not_facts``;
``progress``, ``progress_last``.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from diag_kit.observe.logs import read_log
from diag_kit.observe.logs.startup import quoted
from diag_kit.records import CommandResult, Parsed

DATA = Path(__file__).parent.parent / "data" / "logs"
CASES = sorted(folder for folder in DATA.iterdir() if folder.is_dir())
COLLECTED = datetime(2026, 11, 30, 22, 32, tzinfo=UTC)


def pasted(name: str, data: bytes) -> CommandResult:
    return CommandResult("pasted", f"cat {name}", data, b"", 0, COLLECTED, 0.1)


def read_folder(folder: Path) -> Parsed:
    files = sorted(path for path in folder.iterdir() if path.name != "expected.json")
    return read_log(tuple(pasted(path.name, path.read_bytes()) for path in files))


def newest(parsed: Parsed) -> dict[str, Any]:
    return {fact.name: fact.value for fact in parsed.facts}


def check_row(row: pd.Series, expected: dict[str, Any], only: bool = True) -> None:
    for name, value in expected.items():
        got = row[name]
        if value is None:
            assert pd.isna(got), name
        elif name == "t":
            assert got == pd.Timestamp(value), name
        elif isinstance(value, str) and name not in ("split", "file", "host"):
            assert float(got) == float(value), name
        elif isinstance(value, float):
            assert math.isclose(float(got), value, rel_tol=1e-12, abs_tol=1e-15), (name, got, value)
        else:
            assert got == value, (name, got, value)
    others = set(row.index) - set(expected) - {"host", "file", "lr_text", "line"}
    unexpected = {name for name in others if not pd.isna(row[name])}
    assert not only or not unexpected, unexpected


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_case(folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    parsed = read_folder(folder)
    metrics = parsed.tables.get("metrics")
    if "rows" in expected:
        assert metrics is not None
        assert len(metrics) == len(expected["rows"])
        for (_, row), want in zip(metrics.iterrows(), expected["rows"], strict=True):
            check_row(row, want)
    if "no_rows" in expected:
        assert metrics is None
    if "timings" in expected:
        timings = parsed.tables["timings"]
        assert len(timings) == len(expected["timings"])
        for (_, row), want in zip(timings.iterrows(), expected["timings"], strict=True):
            check_row(row, want)
    for index, want in expected.get("rows_at", {}).items():
        assert metrics is not None
        check_row(metrics.iloc[int(index)], want, only=False)
    if "train_rows" in expected:
        assert metrics is not None
        train = metrics[metrics["split"] == "train"]
        assert len(train) == expected["train_rows"]
        assert train["step"].nunique() == expected["distinct_steps"]
        assert sorted(train["rank"].dropna().unique()) == expected["ranks"]
    facts = newest(parsed)
    for name, value in expected.get("facts", {}).items():
        assert facts.get(name) == value, name
    for name in expected.get("not_facts", []):
        assert name not in facts
    if "progress" in expected:
        assert len(parsed.tables["progress"]) == len(expected["progress"])
        for (_, row), want in zip(parsed.tables["progress"].iterrows(), expected["progress"], strict=True):
            check_row(row, want, only=False)
    if "progress_last" in expected:
        check_row(parsed.tables["progress"].iloc[-1], expected["progress_last"], only=False)
    assert parsed.not_understood == ()


def test_types_of_the_metrics_table() -> None:
    metrics = read_folder(DATA / "speculators_050_flat").tables["metrics"]
    types = metrics.dtypes.astype(str).to_dict()
    assert list(metrics.columns[:11]) == [
        "rank", "host", "t", "epoch", "step", "micro_step", "split", "line", "file", "lr", "loss",
    ]  # fmt: skip
    assert types["rank"] == types["step"] == types["micro_step"] == types["line"] == "Int64"
    assert types["t"] == "datetime64[us, UTC]"
    assert types["epoch"] == "Float64"
    assert types["lr"] == types["loss"] == types["cond_acc_2"] == "float64"
    assert set(metrics["host"]) == {"pasted"}


def test_learning_rates_keep_their_printed_digits() -> None:
    flat = read_folder(DATA / "speculators_030_flat").tables["metrics"]
    assert list(flat["lr_text"][:4]) == ["0.00e+00", "0.00e+00", "1.69e-08", "1.69e-08"]
    two = read_folder(DATA / "speculators_070_flat_two_rates").tables["metrics"]
    assert two["lr_text"].iloc[2] == "1.13e-05|1.69e-08"
    assert two["lr_text"].iloc[-1] is None or pd.isna(two["lr_text"].iloc[-1])


def phrases() -> list[tuple[str, str]]:
    """Start-up statements, and ordinary prose of logs that looks like one and states nothing (or something else)."""
    files = ("start_up_phrases.txt", "prose_without_facts.txt")
    lines = [line for name in files for line in (DATA / name).read_text().splitlines()]
    return [tuple(line.split(" || ", 1)) for line in lines if line]  # type: ignore[misc]


@pytest.mark.parametrize(("wanted", "text"), phrases(), ids=[text[:60] for _, text in phrases()])
def test_start_up_phrase(wanted: str, text: str) -> None:
    expected = {tuple(pair.split("=", 1)) for pair in wanted.split(",") if pair != "none"}
    parsed = read_log((pasted("x.log", text.replace("\\n", "\n").encode()),))
    assert {(fact.name, str(fact.value)) for fact in parsed.facts} == expected


def test_a_plain_statement_comes_after_an_unqualified_one() -> None:
    text = b"batch_size: 16\nInstantaneous batch size per device = 8\nlog: batch_size=32\n"
    parsed = read_log((pasted("x.log", text),))
    assert [fact.value for fact in parsed.facts if fact.name == "batch_size_per_rank"] == [16, 32, 8]


def test_a_reading_of_prose_is_weak_and_a_plain_statement_is_not() -> None:
    parsed = read_log((pasted("x.log", b"Using 8 GPUs\nworld_size=4\n"),))
    found = [(fact.value, fact.strength) for fact in parsed.facts if fact.name == "world_size"]
    assert found == [(8, 1), (4, 2)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a short line", "a short line"),
        ("world size: 4 " + "x" * 200, "world size: 4 " + "x" * 85 + "…"),
        ("x" * 200, "x" * 99 + "…"),
        ("word " * 40, ("word " * 20).strip() + "…"),
    ],
)
def test_quotes_are_cut_between_words(text: str, shown: str) -> None:
    assert quoted(text) == shown


def test_a_log_that_says_nothing() -> None:
    parsed = read_log((pasted("x.log", b"hello\nworld\n"),))
    assert parsed.facts == ()
    assert dict(parsed.tables) == {}
    assert parsed.summary == "no metric records in 2 lines of x.log; 0 facts"
    assert read_log((pasted("x.log", b""),)).problems == (
        "x.log could not be read: the file is empty; give another file with --log PATH",
    )
    zipped = read_log((pasted("x.log.gz", b"\x1f\x8b\x08\x00abc"),))
    assert zipped.problems == ("x.log.gz is compressed: unpack it first (zcat, zstdcat) and give the text",)


def test_what_looks_like_metrics_and_is_not_understood_is_kept() -> None:
    text = b"we saw that the final loss 2 of the whole long run that was made before was quite good indeed and so on\n"
    parsed = read_log((pasted("x.log", text),))
    assert "metrics" not in parsed.tables
    assert [(n.where, n.text) for n in parsed.not_understood] == [("x.log line 1", text.decode().strip())]


SENTENCES = [
    "Saving model checkpoint at step 500",
    "Epoch 3/10",
    "[rank0] epoch 0 finished, 375 steps",
    "start epoch 27 global train step 40112 with effective learning rate 0.0004913320 ...",
    "Loading checkpoint shards: 100%|##########| 4/4 [00:02<00:00,  1.98it/s]",
    "Early stopping at epoch 12",
    "The loss scale was reduced to 32",
    '  File "/x/step.py", line 214, in step',
    "Rank 3 took 12.5 s for step 100",
    "Evaluating at step 100",
    "Using learning rate 3e-5 for 100 steps",
    "epoch=5 lr=3e-05 batch_size=32 num_workers=4 seed=1",
    "Config: epochs 5, steps 1000, lr 0.001",
    "args: step_size=30 gamma=0.1",
    "ETA: 3:17:10 at epoch 3",
    "Epoch 3: val_loss improved from 0.5 to 0.4, saving model",
    "{'train': {'epochs': 10000, 'batch_size': 16, 'log_interval': 200}}",
    "{'train_runtime': 50816.1, 'train_samples_per_second': 0.22, 'epoch': 1.0}",
    "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 64, reducing to 32",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_sentences_about_steps_are_no_records(text: str) -> None:
    parsed = read_log((pasted("x.log", text.encode() + b"\n"),))
    assert "metrics" not in parsed.tables


ONE_LINERS = {
    "Epoch [1/5], Step [100/8862], Loss: 2.3456": {"epoch": 1, "step": 100, "loss": 2.3456},
    "Epoch: [0][ 10/8862]\tTime 0.714 ( 0.720)\tLoss 6.9e+00 (7.0e+00)": {
        "epoch": 0, "step": 10, "loss": 6.9, "loss_mean": 7.0, "step_time_s": 0.714, "step_time_mean_s": 0.72,
    },
    "Train Epoch: 0 [2560/60000 (4%)]\tLoss: 0.512": {"epoch": 0, "loss": 0.512},
    "Step 12 | loss:1.2034 lr:2e-05 ": {"step": 12, "loss": 1.2034, "lr": 2e-5},
    "rank 3 | it 40 | loss 2.5 | 1.4 it/s": {"rank": 3, "step": 40, "loss": 2.5, "it_per_s": 1.4},
    "epoch=0/micro_step=480/global_step=120, CurrSamplesPerSec=61.5": {
        "epoch": 0, "micro_step": 480, "step": 120, "samples_per_s": 61.5,
    },
    "validation loss at iteration 100 | lm loss value: 2.5E+00 |": {
        "step": 100, "split": "val", "loss": 2.5, "lm_loss_value": 2.5,
    },
    " iteration      120/  500000 | elapsed time per iteration (ms): 1532.4 | learning rate: 2.88E-05 | lm loss: 7.1E+00 |": {
        "step": 120, "step_time_ms": 1532.4, "lr": 2.88e-5, "loss": 7.1,
    },
    "step: 20  loss:  7.91  memory: 61.20GiB(77.30%)  tps: 6,418": {
        "step": 20, "loss": 7.91, "memory_gib": 61.2, "memory_percent": 77.3, "tokens_per_s_per_gpu": 6418,
    },
    "step:7 - actor/entropy:-0.4123 - timing_s/gen:41.237": {"step": 7, "actor/entropy": -0.4123, "timing_s/gen": 41.237},
}  # fmt: skip


@pytest.mark.parametrize("text", ONE_LINERS)
def test_one_line_forms(text: str) -> None:
    metrics = read_log((pasted("x.log", text.encode() + b"\n"),)).tables["metrics"]
    assert len(metrics) == 1
    check_row(metrics.iloc[0], {"line": 1, "split": "train", **ONE_LINERS[text]})
