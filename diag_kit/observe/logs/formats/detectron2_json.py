"""detectron2's ``metrics.json``: one JSON object per line with ``iteration``, ``time``, ``data_time``, ``total_loss``.

``time`` and the losses are medians of the last 20 iterations, ``data_time`` the largest over the ranks (``rank_data_time``:
rank 0's). Iterations from 0. Rank 0 writes. Source: facebookresearch/detectron2 detectron2/utils/events.py JSONWriter.
"""

from __future__ import annotations

from diag_kit.observe.logs.line_format import DictFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = DictFormat(
    name="detectron2 metrics.json",
    framework="detectron2",
    gate=('"iteration"', '"data_time"'),
    keys=frozenset({"iteration", "data_time"}),
    columns={
        "iteration": "step",
        "total_loss": "loss",
        "time": "step_time_s",
        "data_time": "data_time_s",
        "rank_data_time": "rank_data_time_s",
        "eta_seconds": "eta_s",
    },
    meaning=Meaning(
        OPTIMIZER_STEPS,
        0,
        "rank 0 only",
        "s per iteration, median of the last 20",
        "facebookresearch/detectron2 detectron2/utils/events.py JSONWriter",
    ),
)
