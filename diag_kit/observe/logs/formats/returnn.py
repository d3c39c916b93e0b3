"""RETURNN: ``ep 27 train, step 30, ce 5.540, ctc_17 6.850, fer 0.843, num_seqs 12, mem_usage:cuda:3 6.8GB, 3.430 sec/step,
elapsed 0:01:02, ...``.

The counter counts the steps of the epoch from 0 (one per optimizer update without accumulation). EVERY rank prints, its
device named by ``mem_usage``. ``sec/step`` is that one step. Source: rwth-i6/returnn returnn/torch/engine.py
_print_process.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="RETURNN line",
    framework="RETURNN",
    gate=("ep ", ", step "),
    heads=(re.compile(r"\bep (?P<epoch>\d{1,6}) (?:train|(?P<split>dev|eval|test)\w{0,20})(?: eval)?, step (?P<step>\d{1,9})"),),
    extras=(
        re.compile(r", (?P<step_time_s>\d[\d.]{0,15}) sec/step"),
        re.compile(r"mem_usage:(?:cuda:(?P<rank>\d{1,3})|cuda) (?P<memory_gb>\d[\d.]{0,15})GB"),
    ),
    columns={"ce": "loss", "loss": "loss", "cuda": "", "mem_usage": "", "time": "max_size_time", "elapsed": "elapsed_s",
             "exp. remaining": "eta_s", "complete": "complete_percent"},
    form=SPACED,
    rank_kind="device",
    meaning=Meaning(
        MICRO_BATCHES, 0, "every rank", "s of the one step printed", "rwth-i6/returnn returnn/torch/engine.py"
    ),
)  # fmt: skip
