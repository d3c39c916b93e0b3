"""modded-nanogpt: ``step:250/1750 train_loss:4.51 train_time:60012ms step_avg:240.05ms`` (``val_loss:`` at evaluations).

Optimizer steps from 0 (printed from 1 by ``step+1`` in train lines); ``train_time`` is the time in training since the start, and
``step_avg`` the mean of it per step, so that a slowdown shows late. Rank 0 prints. Source: KellerJordan/modded-nanogpt
train_gpt.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="modded-nanogpt line",
    framework="modded-nanogpt",
    gate=("step:", "step_avg:"),
    heads=(re.compile(r"\bstep:(?P<step>\d{1,10})/(?P<steps>\d{1,10}) (?=train_|(?P<split>val)_)"),),
    columns={"train_time": "elapsed_s", "step_avg": "step_time_mean_s", "val_loss": "loss", "train_loss": "loss"},
    meaning=Meaning(
        OPTIMIZER_STEPS, None, "rank 0 only", "ms per step, mean since the start", "KellerJordan/modded-nanogpt train_gpt.py"
    ),
)
