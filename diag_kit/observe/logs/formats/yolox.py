"""YOLOX: ``epoch: 1/20, iter: 10/988, gpu mem: 20839Mb, mem: 44.2Gb, iter_time: 2.433s, data_time: 0.301s, total_loss: 8.8,
..., ETA: 13:51:20``.

The counter counts micro-batches of the epoch on rank 0, from 1. Times are means of the last 10 iterations, ``iter_time``
holds the data wait. ``size`` changes with multi-scale training every 10 iterations, and the times with it. Rank 0 prints.
Source: Megvii-BaseDetection/YOLOX yolox/core/trainer.py after_iter.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="YOLOX line",
    framework="YOLOX",
    gate=("iter: ", "iter_time: "),
    heads=(
        re.compile(
            r"\bepoch: (?P<epoch>\d{1,6})/(?P<epochs>\d{1,6}), iter: (?P<step>\d{1,9})/(?P<steps>\d{1,9})(?:, (?:gpu )?mem: )?"
            r"(?:(?<=mem: )(?P<memory_mib>\d{1,8})M[bB])?"
        ),
    ),
    columns={"total_loss": "loss", "iter_time": "step_time_s", "data_time": "data_time_s", "eta": "eta_s"},
    meaning=Meaning(
        MICRO_BATCHES,
        1,
        "rank 0 only",
        "s per iteration with its data wait, mean of the last 10",
        "Megvii-BaseDetection/YOLOX yolox/core/trainer.py",
    ),
    order=27,
)
