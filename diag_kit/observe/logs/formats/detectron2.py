"""detectron2: ``eta: 3:41:07 iter: 1019 total_loss: 1.432 loss_cls: 0.51 time: 0.3145 [last_time: 0.29] data_time: 0.01 ...``.

Runs of blanks between fields. The counter counts iterations (optimizer steps) from 0. To 0.6 ``time`` is a recent smoothed
value; later it is the mean since the start, and only ``last_time`` shows a slowdown. ``data_time`` is the largest over the
ranks. Losses are medians of 20. Rank 0 prints to the console, every rank to its ``log.txt.rankN``. Source:
facebookresearch/detectron2 detectron2/utils/events.py (0.6, main).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning
from diag_kit.observe.logs.numbers import DURATION

FORMAT = LineFormat(
    name="detectron2 line",
    framework="detectron2",
    gate=("iter: ", "lr: ", "  "),
    heads=(
        re.compile(rf"\beta: (?P<eta_s>{DURATION}) {{1,4}}iter: (?P<step>\d{{1,10}}) {{2}}(?=\w{{0,40}}loss)"),
        re.compile(r"\biter: (?P<step>\d{1,10}) {2}(?=total_loss: )"),
    ),
    columns={
        "total_loss": "loss",
        "time": "step_time_s",
        "last_time": "step_time_last_s",
        "data_time": "data_time_s",
        "last_data_time": "data_time_last_s",
        "max_mem": "memory_mib",
    },
    meaning=Meaning(
        OPTIMIZER_STEPS,
        0,
        "rank 0 on the console, every rank in its own file",
        "s per iteration: smoothed to release 0.6, later the mean since the start (the last one is step_time_last_s)",
        "facebookresearch/detectron2 detectron2/utils/events.py",
    ),
)
