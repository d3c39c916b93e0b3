"""MaxText: ``completed step: 12, seconds: 1.874, TFLOP/s/device: 412.377, Tokens/s/device: 8741.512, total_weights: 1048576,
loss: 7.412``.

Optimizer steps from 0. EVERY host process prints. ``seconds`` is the host's time between dispatches: step 0 holds the
compilation, step 1 is a bare dispatch, step 2 absorbs the wait; use those from 5 on. Evaluation: ``eval metrics after step:
99, loss=2.1``. Source: AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py; google/maxtext MaxText/train.py
(2023).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="MaxText line",
    framework="MaxText",
    gate=("step", ", ", "loss"),
    heads=(
        re.compile(r"\bcompleted step: (?P<step>\d{1,10}), (?=seconds: )"),
        re.compile(r"\b(?P<split>eval) (?:metrics )?after (?:train )?step:? (?P<step>\d{1,10}), ", re.IGNORECASE),
    ),
    columns={
        "seconds": "step_time_s",
        "tflop/s/device": "tflop_per_s_per_gpu",
        "tflop/s": "tflop_per_s_per_gpu",
        "tokens/s/device": "tokens_per_s_per_gpu",
        "avg_loss": "loss",
    },
    meaning=Meaning(
        OPTIMIZER_STEPS,
        0,
        "every host process",
        "s between dispatches of two steps on the host: the first three are no step times",
        "AI-Hypercomputer/maxtext src/maxtext/common/metric_logger.py",
    ),
)
