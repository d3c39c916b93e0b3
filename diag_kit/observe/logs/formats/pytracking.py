"""pytracking and OSTrack: ``[train: 1, 50 / 1000] FPS: 120.5 (98.2) , DataTime: 0.012 (0.003) , TotalTime: 0.320 , Loss/total:
1.2``.

The counter counts batches of the epoch on this rank from 1. FPS: samples/s of this rank, mean since the epoch's start, in
brackets of the last window. Losses are means of the epoch. Rank 0 prints (``local_rank in [-1, 0]``). Source:
visionml/pytracking ltr/trainers/ltr_trainer.py; botaoye/OSTrack lib/train/trainers/ltr_trainer.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="pytracking line",
    framework="pytracking",
    gate=("FPS: ", " / ", "["),
    heads=(
        re.compile(
            r"\[(?:train|(?P<split>val)|\w{1,20}): (?P<epoch>\d{1,6}), (?P<step>\d{1,9}) / (?P<steps>\d{1,9})\] (?=FPS: )"
        ),
    ),
    extras=(re.compile(r"FPS: (?P<samples_mean_per_s_per_gpu>\d[\d.]{0,15}) \((?P<samples_per_s_per_gpu>\d[\d.]{0,15})\)"),),
    columns={
        "fps": "",
        "loss/total": "loss",
        "datatime": "data_time_s",
        "forwardtime": "forward_time_s",
        "totaltime": "step_time_s",
    },
    meaning=Meaning(
        MICRO_BATCHES,
        1,
        "rank 0 only",
        "samples/s of one rank in the last window; since the epoch's start in samples_mean_per_s_per_gpu",
        "visionml/pytracking ltr/trainers/ltr_trainer.py",
    ),
)
