"""mmcv 1.x (mmdet 2, mmseg 0.x ...): ``Epoch [1][1850/26480]\\tlr: 2.000e-02, eta: 1 day, 14:02:57, time: 0.402, data_time:
0.011, ...``.

Also ``Iter [50/80000]\\t`` and ``Epoch(val) [1][625]\\t``. A TAB behind the counter, ", " between fields (and inside an eta
of days). The counter counts micro-batches of rank 0 from 1; ``time`` (data wait included) and ``data_time`` are means since
the last line. Rank 0 prints. Source: open-mmlab/mmcv mmcv/runner/hooks/logger/text.py (1.7).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.formats.mmengine import COLUMNS
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="mmcv line",
    framework="mmcv 1.x",
    gate=("]\t", ": "),
    heads=(
        re.compile(
            r"\bEpoch\s?(?:\((?P<split>train|val|test)\)\s)?\[\s{0,8}(?P<epoch>\d{1,8})\]"
            r"\[\s{0,8}(?P<step>\d{1,10})(?:/(?P<steps>\d{1,10}))?\]\t(?=[a-z_A-Z]{1,40}[\w./]{0,40}: )"
        ),
        re.compile(
            r"\bIter\s?(?:\((?P<split>train|val|test)\)\s)?\[\s{0,8}(?P<step>\d{1,10})(?:/(?P<steps>\d{1,10}))?\]\t"
            r"(?=[a-z_A-Z]{1,40}[\w./]{0,40}: )"
        ),
    ),
    columns=COLUMNS,
    meaning=Meaning(
        MICRO_BATCHES,
        1,
        "rank 0 only",
        "s per iteration with its data wait, mean since the last line",
        "open-mmlab/mmcv mmcv/runner/hooks/logger/text.py 1.7",
    ),
)
