"""ESPnet 2: ``3epoch:train:101-200batch: iter_time=0.012, forward_time=0.21, loss_ctc=81.2, loss=75.1, optim_step_time=0.05,
train_time=1.21``.

The counter counts micro-batches of the epoch on this rank from 1; the line covers those from the first number to the
second, and its values are means over them. ``iter_time`` is the wait for the batch, ``train_time`` the whole time per
batch. Rank 0 prints. Source: espnet/espnet espnet2/train/reporter.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="ESPnet line",
    framework="ESPnet",
    gate=("epoch:", "batch: "),
    heads=(re.compile(r"\b(?P<epoch>\d{1,6})epoch:(?:train|(?P<split>valid)):\d{1,9}-(?P<step>\d{1,9})batch: "),),
    columns={
        "iter_time": "data_time_s",
        "train_time": "step_time_s",
        "forward_time": "forward_time_s",
        "backward_time": "backward_time_s",
        "optim_step_time": "optim_step_time_s",
        "optim0_lr0": "lr",
        "lr_0": "lr",
    },
    meaning=Meaning(
        MICRO_BATCHES, 1, "rank 0 only", "s per batch, mean since the last line", "espnet/espnet espnet2/train/reporter.py"
    ),
)
