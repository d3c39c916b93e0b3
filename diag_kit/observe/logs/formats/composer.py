"""MosaicML Composer's console logger, and LLM-foundry, which trains with it: a head and a line per metric.

``[batch=20/4800]:`` (or ``[epoch=1][batch=20/625]:`` where the run is measured in epochs) and lines TAB, blank, ``Train
loss/train/total: 9.87``; ``[Eval batch=3/10] Eval on NAME data:`` and ``Eval ...`` for evaluations. A batch is an optimizer
step; of the run, or of the epoch where an epoch stands before it, from 1; ``time/batch`` counts them over the run.
``throughput/*`` come from SpeedMonitor: means over a rolling window (100 batches), of all ranks or per ``device``;
``time/train`` is in hours. Every rank logs, the launcher sends the others' output to files. Source: mosaicml/composer
composer/loggers/console_logger.py, composer/callbacks/speed_monitor.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="Composer console",
    framework="Composer",
    gate=("atch=", "]", "\n"),
    heads=(
        re.compile(r"\[epoch=(?P<epoch>\d{1,9})\]\[batch=(?P<step>\d{1,12})(?:/(?P<steps>\d{1,12}))?\]:?\s*(?=\n)"),
        re.compile(r"\[batch=(?P<step>\d{1,12})(?:/(?P<steps>\d{1,12}))?\]:?\s*(?=\n)"),
        re.compile(r"\[(?P<split>Eval) batch=\d{1,12}(?:/\d{1,12})?\][^\n]{0,100}\s*(?=\n)"),
    ),
    columns={
        "loss/train/total": "loss",
        "throughput/batches_per_sec": "steps_per_s",
        "throughput/samples_per_sec": "samples_per_s",
        "throughput/tokens_per_sec": "tokens_per_s",
        "throughput/device/samples_per_sec": "samples_per_s_per_gpu",
        "throughput/device/tokens_per_sec": "tokens_per_s_per_gpu",
        "time/epoch": "time/epoch",
    },
    strip=("Train ", "Eval "),
    meaning=Meaning(
        OPTIMIZER_STEPS,
        1,
        "every rank, of which the launcher shows the first",
        "steps/s of a rolling window of 100 steps, samples/s and tokens/s of all ranks",
        "mosaicml/composer composer/loggers/console_logger.py",
    ),
)
