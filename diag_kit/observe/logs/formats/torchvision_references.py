"""MetricLogger of torchvision's references (also DeiT, MAE, DINO, BEiT): ``Epoch: [0] [ 10/1251] eta: 1:05:11 lr: ... time:
3.5 data: 3.0``.

Delimiter: two blanks (or a TAB). Fields print the median of 20 and in brackets the mean since the epoch's start, but
``time`` and ``data`` the mean of the last 20. The counter counts the loader's batches of the epoch on rank 0, from 0;
``time`` holds the data wait. Rank 0 prints (``setup_for_distributed``). Source: pytorch/vision
references/classification/utils.py; facebookresearch/deit utils.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="MetricLogger line",
    framework="torchvision references",
    gate=("]", "eta: ", "time: "),
    heads=(
        re.compile(
            r"\bEpoch:? \[(?P<epoch>\d{1,8})(?:/(?P<epochs>\d{1,8}))?\]:?\s{1,4}"
            r"\[\s{0,8}(?P<step>\d{1,10})/(?P<steps>\d{1,10})\]\s{1,4}(?=eta: )"
        ),
        re.compile(
            r"\b(?P<split>Test|Val|Eval|Validation)\w{0,10}(?:[ :]{1,3}[A-Za-z]{0,20}){0,2}\s{0,4}"
            r"\[\s{0,8}(?P<step>\d{1,10})/(?P<steps>\d{1,10})\]\s{1,4}(?=eta: )"
        ),
    ),
    columns={"time": "step_time_s", "data": "data_time_s", "eta": "eta_s", "max mem": "memory_mib"},
    meaning=Meaning(
        MICRO_BATCHES,
        0,
        "rank 0 only",
        "s per batch with its data wait, mean of the last 20",
        "pytorch/vision references/classification/utils.py",
    ),
)
