"""NVIDIA's DLLogger (DeepLearningExamples): ``DLL 2031-10-23 12:10:01 - Epoch: 0 Iteration: 10 train.loss : 6.93
train.compute_ips : 1159 images/s``.

Metrics as ``name : value unit``; ``Summary`` lines sum up an epoch or the run. Iterations of the epoch from 1, of the
process that logs (rank 0). ``*_ips`` are samples/s of all ranks; ``train.data_time`` s that the loop waited for data, in a
summary the epoch's total. Source: NVIDIA/dllogger dllogger/logger.py, NVIDIA/DeepLearningExamples
PyTorch/Classification/ConvNets/image_classification/logger.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="DLLogger line",
    framework="DLLogger",
    gate=("Epoch: ", " : "),
    heads=(
        re.compile(
            r"\bEpoch: (?P<epoch>\d{1,6})(?: (?P<split>Validation) Iteration: \d{1,9})?(?: Iteration: (?P<step>\d{1,9}))?"
            r"(?: (?:(?P<summary>Summary)|Validation)?:?)?\s{1,4}(?=[A-Za-z][\w.@ -]{0,60} : )"
        ),
    ),
    columns={"train.loss": "loss", "train.time": "train.time_s", "train.data_time": "train.data_time_s",
             "train.compute_time": "train.compute_time_s", "train.compute_ips": "train.compute_samples_per_s",
             "train.total_ips": "train.total_samples_per_s", "train.lr": "lr", "lr": "lr"},
    meaning=Meaning(
        OPTIMIZER_STEPS, 1, "rank 0 only", "s and samples/s; in a summary of the epoch", "NVIDIA/dllogger dllogger/logger.py"
    ),
)  # fmt: skip
