"""PaddlePaddle's suites, which all print ``batch_cost`` (s per step, data wait included) and ``reader_cost`` or ``data_cost``.

PaddleDetection ``Epoch: [0] [ 20/1000] learning_rate: 0.001 loss: 1.2 eta: 1:00:00 batch_cost: 0.5 data_cost: 0.001 ips:
16.0 images/s``; PaddleSeg ``[TRAIN] epoch: 1, iter: 20/6000, loss: 2.5, lr: 0.009, batch_cost: 0.5, reader_cost: 0.4, ips:
15.2 samples/sec | ETA 00:52:26``; PaddleClas ``[Train][Epoch 1/120][Iter: 0/1250]lr(..): 0.1, top1: .., batch_cost: 3.2s,
ips: 80.0 samples/s, eta: ..``; PaddleOCR ``epoch: [1/500], global_step: 10, ..., avg_batch_cost: 0.5 s``; PaddleNLP
``global step 100, epoch: 0, batch: 99, loss: ..``; ``[epoch 0, iter 20] [TRAIN]avg_samples: ..``. Steps are optimizer steps
(PaddleSeg's of the run, from 1; of the epoch from 0 elsewhere). ``ips`` is of ONE card (batch size per card / batch_cost).
Means since the last line. Rank 0 prints. Source: PaddlePaddle/PaddleDetection ppdet/engine/callbacks.py, PaddleSeg
paddleseg/core/train.py, PaddleOCR tools/program.py, PaddleNLP examples.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

_N = r"\d[\d.]{0,20}"
FORMAT = LineFormat(
    name="Paddle line",
    framework="PaddlePaddle",
    gate=("batch_cost",),
    heads=(
        re.compile(r"\bEpoch: \[(?P<epoch>\d{1,6})\] \[\s{0,8}(?P<step>\d{1,9})/(?P<steps>\d{1,9})\] "),
        re.compile(r"\[TRAIN\] epoch: (?P<epoch>\d{1,6}), iter: (?P<step>\d{1,9})/(?P<run_steps>\d{1,9})"),
        re.compile(
            r"\[(?:Train|(?P<split>Eval))\]\[Epoch (?P<epoch>\d{1,6})/?(?P<epochs>\d{1,6})?\]"
            r"\[Iter: (?P<step>\d{1,9})/(?P<steps>\d{1,9})\]"
        ),
        re.compile(r"\bepoch: \[(?P<epoch>\d{1,6})/(?P<epochs>\d{1,6})\], (?:global_step|iter): (?P<step>\d{1,9})"),
        re.compile(
            r"\bglobal step:? (?P<step>\d{1,9})(?: ?/ ?(?P<run_steps>\d{1,9}))?(?:, epoch: (?P<epoch>\d{1,6}))?"
            r"(?:, batch: (?P<micro_step>\d{1,9}))?"
        ),
        re.compile(r"\[[Ee]poch:? (?P<epoch>\d{1,6}), iter:? (?P<step>\d{1,9})\]"),
        re.compile(r"(?:\[(?:train|(?P<split>eval))\] )?\bepoch: (?P<epoch>\d{1,6}), batch(?:_id)?: (?P<step>\d{1,9})"),
    ),
    extras=(
        re.compile(rf"\bips: {{0,2}}(?P<samples_per_s_per_gpu>{_N}) {{0,2}}(?:images|samples|sequences|ins|instances|img)/s"),
        re.compile(rf"\bips: {{0,2}}(?P<tokens_per_s_per_gpu>{_N}) {{0,2}}tokens/s"),
        re.compile(rf"\bips_total: {{0,2}}(?P<tokens_per_s>{_N}) {{0,2}}tokens/s"),
    ),
    columns={
        "batch_cost": "step_time_s",
        "avg_batch_cost": "step_time_s",
        "reader_cost": "data_time_s",
        "avg_reader_cost": "data_time_s",
        "data_cost": "data_time_s",
        "learning_rate": "lr",
        "learning rate": "lr",
        "eta": "eta_s",
        "ips": "",
        "ips_total": "",
        "speed": "steps_per_s",
    },
    form=SPACED,
    meaning=Meaning(
        OPTIMIZER_STEPS,
        None,
        "rank 0 only",
        "s per step with its data wait, mean since the last line; ips of one card",
        "PaddlePaddle/PaddleDetection ppdet/engine/callbacks.py",
    ),
    order=26,
)
