"""MMEngine (mmdet 3, mmseg 1, mmyolo ...): ``Epoch(train) [3][ 150/7330] lr: 2.0000e-02 eta: 2 days, 5:43:32 time: 0.5321
...``.

Also ``Iter(train) [ 50/80000]`` and ``Epoch(val)``. Two blanks between fields. The counter counts micro-batches of rank 0
from 1, within the epoch or of the run. ``time`` (data wait included) and ``data_time`` are means over the last 10
iterations, ``eta`` follows from the mean since the start. Rank 0 prints. Source: open-mmlab/mmengine
mmengine/runner/log_processor.py (0.10).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

COLUMNS = {"time": "step_time_s", "data_time": "data_time_s", "eta": "eta_s", "memory": "memory_mib", "val/loss": "loss"}

FORMAT = LineFormat(
    name="MMEngine line",
    framework="MMEngine",
    gate=("/", "]  ", ": ", "("),
    heads=(
        re.compile(
            r"\bEpoch\((?P<split>train|val|test)\)\s{0,8}(?:\[\s{0,8}(?P<epoch>\d{1,8})\])?"
            r"\[\s{0,8}(?P<step>\d{1,10})/\s{0,4}(?P<steps>\d{1,10})\]  "
        ),
        re.compile(r"\bIter\((?P<split>train|val|test)\)\s{0,8}\[\s{0,8}(?P<step>\d{1,10})/\s{0,4}(?P<steps>\d{1,10})\]  "),
    ),
    columns=COLUMNS,
    meaning=Meaning(
        MICRO_BATCHES,
        1,
        "rank 0 only",
        "s per iteration with its data wait, mean of the last 10 iterations",
        "open-mmlab/mmengine mmengine/runner/log_processor.py 0.10",
    ),
)
