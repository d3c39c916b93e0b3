"""OLMo and OLMo-core: ``[step=10/739328]`` or ``[step=10/1000,epoch=1,eta=1:02:03]`` and an indented line ``name=value`` per
metric.

Optimizer steps from 1. Numbers over 1000 have thousands commas and no fraction. ``throughput/device/tokens_per_second`` and
``batches_per_second`` (OLMo) or ``throughput/device/TPS`` and ``BPS`` (OLMo-core) are per device, over a window (OLMo) or
the last step; the step behind a checkpoint or an evaluation is left out of the window. OLMo-core also prints ``data loading
(s)``. Every rank logs by default, marked by its logger, unless the launcher filters. Source: allenai/OLMo olmo/train.py
log_metrics_to_console; allenai/OLMo-core src/olmo_core/train/callbacks/console_logger.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="OLMo console",
    framework="OLMo",
    gate=("[step=", "]"),
    bare=True,
    heads=(
        re.compile(
            r"\[step=(?P<step>\d{1,12})/(?:(?P<run_steps>\d{1,12})|\?\?\?)(?:,epoch=(?P<epoch>\d{1,9}))?"
            r"(?:,eta=[^\]\n]{0,60})?\]\s*(?=\n|\Z)"
        ),
    ),
    columns={
        "train/crossentropyloss": "loss",
        "train/ce loss": "loss",
        "throughput/device/tokens_per_second": "tokens_per_s_per_gpu",
        "throughput/device/tps": "tokens_per_s_per_gpu",
        "throughput/device/batches_per_second": "steps_per_s",
        "throughput/device/bps": "steps_per_s",
        "throughput/device/data loading (s)": "data_time_s",
        "throughput/device/data loading (%)": "data_time_percent",
        "optim/learning_rate_group0": "lr",
        "optim/lr (group 0)": "lr",
    },
    meaning=Meaning(
        OPTIMIZER_STEPS,
        1,
        "every rank, unless filtered",
        "steps/s and tokens/s per device",
        "allenai/OLMo-core console_logger.py",
    ),
)
