"""mmcv 1.x's ``*.log.json``: ``{"mode": "train", "epoch": 1, "iter": 50, "lr": 0.02, "memory": 3752, "data_time": 0.05,
"loss": 1.2, "time": 0.59}``.

``iter`` counts micro-batches of the epoch from 1. ``time`` and ``data_time``: means since the last line. Rank 0 writes.
Source: open-mmlab/mmcv mmcv/runner/hooks/logger/text.py (1.7).
"""

from __future__ import annotations

from diag_kit.observe.logs.formats.mmcv import FORMAT as LINE
from diag_kit.observe.logs.formats.mmengine import COLUMNS
from diag_kit.observe.logs.line_format import DictFormat

FORMAT = DictFormat(
    name="mmcv JSON",
    framework="mmcv 1.x",
    gate=('"mode": "train"', '"iter"'),
    keys=frozenset({"iter", "time"}),
    columns={**COLUMNS, "iter": "step"},
    meaning=LINE.meaning,
)
