"""verl's console logger: ``step:7 - actor/pg_loss:0.01 - timing_s/gen:41.2 - timing_s/step:83.5 - perf/throughput:2218.4``.

`` - `` between fields, values may be ``np.float64(0.5)``. In reinforcement learning a step is one RL iteration (generation,
scoring and many optimizer steps), in the SFT trainer one optimizer step; counted from 1 (0 for the validation before
training). ``timing_s/*`` are s of that one iteration, ``perf/throughput`` tokens/s per GPU. The driver process prints,
perhaps behind Ray's prefix. Source: volcengine/verl verl/utils/logger/aggregate_logger.py,
verl/trainer/ppo/metric_utils.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import RL_ITERATIONS, Meaning

FORMAT = LineFormat(
    name="verl line",
    framework="verl",
    gate=("step:", " - "),
    heads=(re.compile(r"\bstep:(?P<step>\d{1,10}) - (?=(?P<split>val)-(?![^\n]*timing_s/)|[A-Za-z][\w/@.() -]{0,80}:)"),),
    columns={
        "timing_s/step": "step_time_s",
        "perf/time_per_step": "step_time_s",
        "train/time(s)": "step_time_s",
        "train/time (s)": "step_time_s",
        "perf/throughput": "tokens_per_s_per_gpu",
        "actor/lr": "lr",
        "train/lr": "lr",
        "train/lr(1e-3)": "train/lr_thousandths",
        "train/loss": "loss",
    },
    meaning=Meaning(
        RL_ITERATIONS + "; in the SFT trainer optimizer steps",
        None,
        "the driver process",
        "s of the one iteration printed; tokens/s per GPU",
        "volcengine/verl verl/utils/logger/aggregate_logger.py",
    ),
)
