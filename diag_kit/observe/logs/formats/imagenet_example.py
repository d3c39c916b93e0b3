"""The PyTorch ImageNet example and the many scripts made from it, with ``name value (mean)`` and TABs.

``Epoch: [0][ 10/5005]\\tTime 0.714 ( 0.720)\\tData 0.000 ( 0.003)\\tLoss 6.9e+00 (7.0e+00)\\tAcc@1 ...``, ``Test: [
0/196]\\tTime ...``; Swin Transformer: ``Train: [0/300][0/1251]\\teta 1:00:00 lr 0.000001\\ttime 1.2 (1.3)\\tloss 7.0
(7.0)``. The first number is the last batch's, the one in brackets the mean since the epoch's start. ``Time`` holds the data
wait. The counter counts batches of one rank, from 0 (in the example since 2022 from 1). EVERY rank prints in the example
(nothing stands in front of ``progress.display``). Source: pytorch/examples imagenet/main.py; microsoft/Swin-Transformer
main.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="ImageNet example line",
    framework="PyTorch ImageNet example",
    gate=("]", "ime ", "("),
    heads=(
        re.compile(
            r"\b(?:Epoch|Train(?:ing)?)\s?:\s{0,4}\[\s{0,6}(?P<epoch>\d{1,6})(?:/(?P<epochs>\d{1,6}))?\]\s{0,2}"
            r"\[\s{0,8}(?P<step>\d{1,9})/\s{0,4}(?P<steps>\d{1,9})\]\s(?!\s)"
        ),
        re.compile(
            r"\b(?P<split>Test|Val|Valid|Validation|Eval)\s?:\s{0,4}\[\s{0,8}(?P<step>\d{1,9})/\s{0,4}(?P<steps>\d{1,9})\]\s(?!\s)"
        ),
    ),
    columns={"time": "step_time_s", "batch time": "step_time_s", "data": "data_time_s", "data time": "data_time_s",
             "eta": "eta_s", "loss": "loss", "mem": "memory_mib"},
    need=frozenset({"step_time_s"}),
    form=SPACED,
    meaning=Meaning(
        MICRO_BATCHES,
        None,
        "every rank, unless the script tests it",
        "s of the last batch with its data wait; the mean since the epoch's start in step_time_mean_s",
        "pytorch/examples imagenet/main.py",
    ),
    order=32,
)  # fmt: skip
