"""No bytes raise or hang; a line repeated, cut or interleaved changes only its own rows; blocks and templates change nothing."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diag_kit.observe.logs import GrepCount, GrepLines, LogFacts, LogMetrics, LogRate, normalise, read_log, template
from diag_kit.records import CommandResult, Parsed

DATA = Path(__file__).parent.parent / "data" / "logs"
RAW = sorted(path for path in DATA.glob("*/*") if path.name != "expected.json")
LINES = sorted({line for path in RAW for line in path.read_bytes().split(b"\n")})
MARKS = [
    b"==diag_kit:part file=0 kind=tail offset=10 line=3 bytes=40 size=99 mtime=5==\n",
    b"==diag_kit:part file=9 kind=lines==\n12:step 1 loss 2\nx:y\n",
    b"==diag_kit:host now=1 zone=+9999==\n",
    b"==diag_kit:problem file=0 what=missing==\n",
    b"==diag_kit:count file=0 status=0 count=7 exact=x==\n",
    b"==diag_kit:start file=0 t=1e999 size=4 cut=1 fstype=nfs==\n",
    b"==diag_kit:tick file=0 n=1 t=5 appended=10 lines=2 event=rotated bytes=10==\nstep 1 loss",
    b"==diag_kit:tick file=0 n=-1 t=nan appended=zz lines=1e400 event= bytes=-3==\n",
    b"==diag_kit:status file=0 status=2==\n",
]
FRAGMENTS = [
    b"\r", b"\n", b"\x08" * 5, b"\x1b[1;36m", b"\x1b[2K", b"{'", b"'loss': ", b"nan", b"1e400", b"-", b"[rank",
    b"]: ", b"epoch", b"12%|", b"it/s]", b"2026-02-31 25:61:61", b"99:99:99", b"02/30 10:00:00", b"9" * 40, b"step ",
    b"=", b"\xff\xfe", b"\0", b"          INFO ", b"Resuming from step " + b"8" * 400, b"batch_size=" + b"9" * 30,
    b'{"log":"', b"tensor(", b"{" * 30, b"'train': {", b"/", b"world_size=0", b"1 day, 99999:00:00", b"(1,", b"len(",
    b"\xe2\x94\x81" * 5, b" iteration  1/ 9 |", b" elapsed time per iteration (ms): 5 |", b"time (ms) | step: 1 |",
    b"step=1, skipped=", b"SamplesPerSec=", b"steps: 1 ", b"iter time (s): ", b" \xe2\x80\xa2 ", b"v_num=", b"step_loss=",
    b"Training epoch 1, iteration 2/3 |", b"memory: ", b"tps: ", b"step: 1  ", b"Step 1 | a:1 ", b"1|2|Loss: 3: ",
    b"\x1b[38;2;1;2;3m", b"loss 1,25 ", b"epoch,step,loss\n", b'{"current_steps": 1, "total_steps": 1e999, "loss": 1}',
    b" DataLoader 0: ", b"\\u001b[31m",
]  # fmt: skip


def pasted(data: bytes) -> CommandResult:
    return CommandResult("pasted", "cat x.log", data, b"", 0, datetime(2026, 11, 30, 22, 32, tzinfo=UTC), 0.1)


def rows(data: bytes) -> pd.DataFrame:
    return read_log((pasted(data),)).tables.get("metrics", pd.DataFrame())


mixed = st.lists(
    st.one_of(st.sampled_from(LINES), st.sampled_from(FRAGMENTS), st.sampled_from(MARKS), st.binary(max_size=40)), max_size=25
).map(b"".join)


@settings(max_examples=80, deadline=5000, suppress_health_check=list(HealthCheck))
@given(mixed)
def test_no_bytes_raise(data: bytes) -> None:
    result = pasted(data)
    for parsed in (
        read_log((result, result)),
        LogMetrics().read((result,)),
        LogFacts().read((result,)),
        LogRate().read((result,)),
        GrepCount("x").read((result,)),
        GrepLines("x").read((result,)),
    ):
        assert isinstance(parsed, Parsed)
        assert parsed.summary


HOSTILE = {
    "open braces": b"{'" * 20_000,
    "nested dicts": b"{'a': " * 20_000,
    "digits": b"9" * 200_000,
    "colons": b"a:" * 100_000,
    "bars": b"  1%|#| 1/9 [00:01<00:08, 1.0it/s, loss=1" * 4_000,
    "half bars": b"12%|" * 50_000,
    "brackets": b"[" * 100_000 + b"]" * 100_000,
    "returns": b"\r" * 200_000 + b"step 1 loss 2",
    "backspaces": b"ab\x08" * 100_000,
    "escapes": b"\x1b[" * 100_000,
    "prefixes": b"[rank1] 12:00:00 INFO " * 10_000,
    "dates": b"2026-01-01 00:00:00 " * 10_000,
    "rich heads": b"[12:00:00] INFO     x\n" * 5_000 + b" " * 100_000,
    "words": b"train samples of the " * 10_000 + b"= 5",
    "numbers": b"step 1 loss 2 " * 10_000,
    "indent": b"           \n" * 20_000,
    "continuations": b"[12:00:00] INFO     x\n"
    + b"                    y" * 1
    + b"\n"
    + b"                    train/loss=1,\n" * 20_000,
    "partial containers": b"2026-03-02T09:14:55.1Z stdout P x\n" * 10_000,
    "resume": b"resume " * 10_000,
    "rank": b"start rank " * 10_000,
    "fields": b"iter 1: loss 1 (2), time " * 8_000,
    "heads": b"Epoch: [0][1/2]\tTime 1 (2) [TRAIN] epoch: 1, iter: 2/3 batch_cost: 1 " * 3_000,
    "boxes": b"| total_timesteps | 1 |\n" * 5_000 + b"| time/ " * 5_000,
    "open blocks": b"[batch=1/2]:\n" * 5_000 + b"[batch=1/2]:\n" + b"\t Train loss/a: 1\n" * 5_000,
    "columns": b"      Epoch    GPU_mem   box_loss   cls_loss\n" + b"  1/3   2.1G   1.5  2.5: " + b" 1.5" * 40_000,
    "guesses": b"".join(b"a%d=%d b=%.2f\n" % (i % 997, i, i / 7) for i in range(5_000)),
    "segments": b" iteration 1/2 | elapsed time per iteration (ms): 3 " + b"| a: 1 " * 20_000,
    "empty segments": b"time (ms) |" + b"|" * 200_000,
    "timer colons": b"time (ms) |" + b" a:" * 60_000,
    "timer dots": b"a ...." + b"." * 200_000,
    "timer words": b"a " * 50_000 + b" ....: (1, 2",
    "groups": b"step=1, skipped=1, lr=[1, " * 8_000,
    "moments": b"step=1, skipped=1, lr=[1], mom=[" + b"(0, 0), " * 20_000,
    "pipeline": b"steps: 1 iter time (s): " * 8_000,
    "throughput": b"0/1, SamplesPerSec=1, " * 8_000,
    "rich bars": (b"\xe2\x94\x81" * 300 + b" \xe2\x80\xa2 ") * 200,
    "rich bars in full": b"Epoch 0/9 \xe2\x94\x81\xe2\x94\x81 1/9 0:00:01 \xe2\x80\xa2 0:00:01 1it/s a: 1 " * 2_000,
    "titan": b"memory: tps: step: 1  " + b"a: 1  " * 30_000,
    "steps": b"Step 1 | " * 20_000,
    "printer": b"Training epoch 1, iteration 1/2 | a: 1 | " * 5_000,
    "decimal commas": b"loss 1,25 " * 20_000,
    "cells": b"epoch,step,loss\n" + b"1,2,3\n" * 20_000,
    "open cells": b"epoch,step,loss\n" + b'"1,' * 60_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_does_not_hang(name: str) -> None:
    began = time.process_time()
    read_log((pasted(HOSTILE[name]),))
    assert time.process_time() - began < 6, "at most 200 kB: seconds mean that it grows worse than linearly"


def line_rows(metrics: pd.DataFrame, drop: int | None = None) -> list[tuple[object, ...]]:
    """Rows as values without line numbers, without those of one line."""
    kept = metrics if drop is None else metrics[metrics["line"] != drop]
    columns = [name for name in kept.columns if name not in ("line", "t")]
    return [tuple(repr(value) for value in row) for row in kept[columns].itertuples(index=False)]


UNTAGGED_FORMS = [
    "hf_v5_axolotl_trl", "llama_factory_jsonl", "megatron_fork", "deepspeed_pipeline", "torchtune", "torchtitan_all_ranks",
    "nemo_2_printer",
]  # fmt: skip
ONE_LINE_FORMS = [
    "speculators_030_repr", "speculators_050_asctime", "speculators_070_flat", "rank_tag_bracket", "json_lines", "torchtitan",
    "megatron", "gpt_neox", "deepspeed_engine", "accelerate_example", *UNTAGGED_FORMS,
]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ONE_LINE_FORMS), st.data())
def test_a_repeated_line_adds_only_its_own_rows(form: str, data: st.DataObject) -> None:
    raw = next(path for path in RAW if path.parent.name == form).read_bytes().rstrip(b"\n").split(b"\n")
    index = data.draw(st.integers(0, len(raw) - 1))
    before = rows(b"\n".join(raw) + b"\n")
    own = line_rows(before[before["line"] == index + 1])
    after = rows(b"\n".join([*raw[: index + 1], raw[index], *raw[index + 1 :]]) + b"\n")
    assert line_rows(after, drop=index + 2) == line_rows(before)
    assert line_rows(after[after["line"] == index + 2]) == own


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ONE_LINE_FORMS), st.data())
def test_a_cut_line_loses_only_its_own_rows(form: str, data: st.DataObject) -> None:
    raw = next(path for path in RAW if path.parent.name == form).read_bytes().rstrip(b"\n").split(b"\n")
    index = data.draw(st.integers(0, len(raw) - 1))
    keep = data.draw(st.integers(0, max(0, len(raw[index]) - 1)))
    before = rows(b"\n".join(raw) + b"\n")
    after = rows(b"\n".join([*raw[:index], raw[index][:keep], *raw[index + 1 :]]) + b"\n")
    same = [name for name in before.columns if name in after.columns]
    assert line_rows(after[same], drop=index + 1) == line_rows(before[same], drop=index + 1)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(ONE_LINE_FORMS), st.data())
def test_foreign_lines_in_between_change_nothing(form: str, data: st.DataObject) -> None:
    raw = next(path for path in RAW if path.parent.name == form).read_bytes().rstrip(b"\n").split(b"\n")
    foreign = data.draw(st.lists(st.sampled_from([b"", b"Traceback (most recent call last):", b'  File "/x/y.py", line 214, in f',
                                                  b"    return self._load(index)", b"some warning"]), max_size=5))  # fmt: skip
    index = data.draw(st.integers(0, len(raw)))
    after = rows(b"\n".join([*raw[:index], *foreign, *raw[index:]]) + b"\n")
    assert line_rows(after) == line_rows(rows(b"\n".join(raw) + b"\n"))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(UNTAGGED_FORMS), st.data())
def test_interleaved_ranks_keep_their_rows(form: str, data: st.DataObject) -> None:
    """Two ranks behind one launcher, in any order of lines, one of them cut by the other's: each has the rows it has alone."""
    raw = next(path for path in RAW if path.parent.name == form).read_bytes().rstrip(b"\n").split(b"\n")
    raw = [line.removeprefix(b"0: ") for line in raw]
    order = data.draw(st.permutations([0] * len(raw) + [1] * len(raw)))
    left = {0: list(raw), 1: list(raw)}
    together = rows(b"".join(b"[default%d]:%s\n" % (rank, left[rank].pop(0)) for rank in order))
    alone = rows(b"\n".join(raw) + b"\n")
    names = [name for name in alone.columns if name != "rank"]
    for rank in (0, 1):
        own = together[together["rank"] == rank]
        assert line_rows(own[[*names]]) == line_rows(alone[names])


@pytest.mark.parametrize("path", RAW, ids=lambda path: path.parent.name + "/" + path.name)
def test_blocks_and_templates_change_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = path.read_bytes() * 3
    usual = read_log((pasted(data),))
    monkeypatch.setattr(template, "MAX_LEARNED", 0)
    monkeypatch.setattr(normalise.blocks, "__defaults__", (64,))
    slow = read_log((pasted(data),))
    assert usual.facts == slow.facts
    assert set(usual.tables) == set(slow.tables)
    for name, table in usual.tables.items():
        pd.testing.assert_frame_equal(table, slow.tables[name])
