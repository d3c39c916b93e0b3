"""timm's train.py: ``Train: 3 [ 50/1251 ( 4%)] Loss: 6.51 (6.70) Time: 0.412s, 621.36/s (0.538s, 475.84/s) LR: ... Data: 0.011
(0.143)``.

The counter counts updates (optimizer steps) of the epoch from 0 in 0.9 and later, micro-batches before. In brackets: means
since the epoch's start. Images/s are of all ranks; ``Time`` is per update. ``Data`` is rank 0's wait for the batch, in 0.9
and later times the accumulation steps, so that Data/Time is the share of the data wait. Rank 0 prints. ``Test: [ 40/97]
Time: 0.212 (0.301)`` is validation. Source: huggingface/pytorch-image-models train.py (0.6.12, 0.9.16, main).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import Meaning

_N = r"\d[\d.]{0,15}"

FORMAT = LineFormat(
    name="timm line",
    framework="timm",
    gate=("  Time: ", "Loss"),
    heads=(
        re.compile(r"\bTrain: (?P<epoch>\d{1,6}) \[\s{0,8}(?P<step>\d{1,9})/(?P<steps>\d{1,9}) \(\s{0,4}\d{1,4}%\)\]  "),
        re.compile(r"\b(?P<split>Test)[\w ()]{0,20}: \[\s{0,8}(?P<step>\d{1,9})/(?P<steps>\d{1,9})\]  "),
    ),
    extras=(
        re.compile(
            rf"Time: {{1,4}}(?P<step_time_s>{_N})s, {{1,8}}(?P<samples_per_s>{_N})/s"
            rf"(?: {{1,4}}\((?P<step_time_mean_s>{_N})s, {{1,8}}(?P<samples_mean_per_s>{_N})/s\))?"
        ),
    ),
    columns={"time": "step_time_s", "data": "data_time_s", "lr": "lr"},
    meaning=Meaning(
        "optimizer steps of the epoch (before timm 0.9 micro-batches)",
        0,
        "rank 0 only",
        "s of the last step, samples/s of all ranks; means since the epoch's start in step_time_mean_s",
        "huggingface/pytorch-image-models train.py",
    ),
)
