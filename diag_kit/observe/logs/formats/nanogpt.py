"""nanoGPT: ``iter 120: loss 5.9123, time 612.40ms, mfu 41.20%`` and ``step 250: train loss 4.8120, val loss 4.8544``.

The counter counts optimizer steps from 0. ``time`` is the wall time of that one iteration (not of the window since the last
line), and the first line behind an evaluation holds the evaluation; ``mfu`` is -100 for the first five. Rank 0 prints,
buffered; the loss is that of rank 0's last micro-batch. Source: karpathy/nanoGPT train.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="nanoGPT line",
    framework="nanoGPT",
    gate=(": ", "loss "),
    heads=(
        re.compile(r"\biter (?P<step>\d{1,10}): (?=loss )"),
        re.compile(r"\bstep (?P<step>\d{1,10}): (?=train loss [\d.]+, (?P<split>val) loss )"),
    ),
    columns={"time": "step_time_s", "train loss": "train_loss", "val loss": "loss", "loss": "loss"},
    form=SPACED,
    meaning=Meaning(
        OPTIMIZER_STEPS, 0, "rank 0 only", "ms of the one iteration printed, not of the window", "karpathy/nanoGPT train.py"
    ),
)
