"""maskrcnn-benchmark and its kin: ``eta: 1 day, 13:21:40 iter: 580 loss: 0.8214 (0.9710) time: 0.2110 (0.2043) data: 0.0031
(0.0070)``.

Each field is the median of the last 20 iterations, and in brackets the mean since the start. Iterations (optimizer steps)
from 1 (printed every 20). ``max mem`` in MiB. Rank 0 prints. Source: facebookresearch/maskrcnn-benchmark
maskrcnn_benchmark/engine/trainer.py, utils/metric_logger.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning
from diag_kit.observe.logs.numbers import DURATION

FORMAT = LineFormat(
    name="maskrcnn-benchmark line",
    framework="maskrcnn-benchmark",
    gate=("iter: ", "max mem: "),
    heads=(re.compile(rf"\beta: (?P<eta_s>{DURATION})\s{{1,4}}iter: (?P<step>\d{{1,10}})\s{{1,4}}"),),
    columns={"time": "step_time_s", "data": "data_time_s", "max mem": "memory_mib"},
    meaning=Meaning(
        OPTIMIZER_STEPS,
        1,
        "rank 0 only",
        "s per iteration, median of the last 20; the mean since the start in step_time_mean_s",
        "facebookresearch/maskrcnn-benchmark maskrcnn_benchmark/engine/trainer.py",
    ),
    order=28,
)
