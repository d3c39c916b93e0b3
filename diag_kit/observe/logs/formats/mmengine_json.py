"""MMEngine's ``vis_data/scalars.json``: ``{"lr": 0.02, "data_time": 0.01, "loss": 1.2, "time": 0.53, "epoch": 1, "iter": 50,
"memory": 5123, "step": 50}``.

``step`` and ``iter`` count micro-batches of the run from 1. ``time`` and ``data_time`` are means of the last 10. Rank 0
writes. Source: open-mmlab/mmengine mmengine/visualization/vis_backend.py LocalVisBackend, hooks/logger_hook.py (0.10).
"""

from __future__ import annotations

from diag_kit.observe.logs.formats.mmengine import COLUMNS
from diag_kit.observe.logs.formats.mmengine import FORMAT as LINE
from diag_kit.observe.logs.line_format import DictFormat

FORMAT = DictFormat(
    name="MMEngine JSON",
    framework="MMEngine",
    gate=('"data_time"', '"step"'),
    keys=frozenset({"data_time", "time", "step"}),
    columns={**COLUMNS, "iter": ""},
    meaning=LINE.meaning,
)
