"""NeMo: the progress printer of release 2 and the bar of release 1.

2: ``Training epoch e, iteration n/N | lr: x | global_step: n | reduced_train_loss: x | train_step_timing in s: x | ...``: one
   line per log interval, means over it except ``global_step``; iterations count optimizer steps from 0, and N is the last one,
   so a run has N + 1. Plain print of rank 0. ``val_loss`` may stand on train lines: that of the last validation.
1: Lightning's bar with ``reduced_train_loss=, global_step=, consumed_samples=2.56e+5, train_step_timing in s=``, often without
   a rate; ``global_step`` counts optimizer steps. ``[NeMo I 2026-03-02 09:14:55 module:123]`` stands in front of messages.
Source: NVIDIA-NeMo/NeMo nemo/lightning/pytorch/callbacks/progress_printer.py (2.1.0), nemo/utils/exp_manager.py; threads
NVIDIA-BioNeMo/bionemo-recipes#740, NVIDIA-NeMo/Speech#10128, NVIDIA/NeMo-Framework-Launcher#55.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diag_kit.observe.logs.bars import find_bars
from diag_kit.observe.logs.formats.bar import bar_pairs
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.pairs import Pair, renamed, segment_pairs

_HEAD = re.compile(r"\bTraining epoch (?P<epoch>\d{1,9}), iteration (?P<n>\d{1,12})(?:/(?P<last>\d{1,12}))? \|")
_NAMES = {"train_step_timing in s": "step_time_s", "tokens_per_sec_per_gpu": "tokens_per_s_per_gpu", "v_num": ""}
_BAR_NAMES = {**_NAMES, "loss": "loss_running_mean"}
"""Lightning 1 put its own running mean of the loss into every bar."""
_BAR_MARKS = ("reduced_train_loss=", "train_step_timing in s=")


@dataclass(frozen=True, slots=True)
class NeMo:
    name: str = "NeMo"
    framework: str = "NeMo"
    order: int = 30

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "Training epoch " in text:
            return _printed(text)
        return _bars(text) if any(mark in text for mark in _BAR_MARKS) else ()


def _printed(text: str) -> list[Found]:
    head = _HEAD.search(text)
    if not head:
        return []
    pairs = renamed(segment_pairs(text, head.end()), _NAMES)
    if not any(pair.key == "global_step" for pair in pairs):
        pairs.insert(0, Pair("step", head["n"], head.start("n"), head.end("n")))
    pairs.insert(0, Pair("epoch", head["epoch"], head.start("epoch"), head.end("epoch")))
    found = assemble("progress printer", pairs, head.start(), len(text), "train", counts="optimizer steps, from 0")
    return [replace(found, run_steps=int(head["last"]) + 1) if head["last"] else found]


def _bars(text: str) -> list[Found]:
    return [
        assemble(
            "bar",
            renamed(bar_pairs(text, bar), _BAR_NAMES),
            bar.start,
            bar.end,
            "train",
            from_bar=True,
            counts="optimizer steps, from 0",
        )
        for bar in find_bars(text)
        if "global_step=" in bar.postfix
    ]


FORMAT = NeMo()
