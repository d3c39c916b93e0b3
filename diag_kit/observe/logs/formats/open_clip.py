"""open_clip: ``Train Epoch: 0 [ 1280/1281024 (0%)] Data (t): 0.612 Batch (t): 0.931, 1100.2/s, 137.5/s/gpu LR: 0.000005 Logit
Scale: 14.2 Loss: 5.2 (5.3)``.

The counter counts SAMPLES of the epoch over all ranks (``samples_seen``), not steps; a step is a line only in so far as
log_every_n_steps says. ``Data (t)`` and ``Batch (t)`` are means over the batches since the last line (older releases, with
TABs: of the last batch). Rank 0 prints (with --log-local each node's first). Source: mlfoundations/open_clip
src/open_clip_train/train.py; older src/training/train.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import Meaning

FORMAT = LineFormat(
    name="open_clip line",
    framework="open_clip",
    gate=("Train Epoch: ", "Batch (t)"),
    heads=(
        re.compile(
            r"\bTrain Epoch: (?P<epoch>\d{1,6}) \[\s{0,12}(?P<samples_seen>\d{1,13})/(?P<samples>\d{1,13}) \(\d{1,4}%\)\]"
        ),
        re.compile(r"\bTrain Epoch: (?P<epoch>\d{1,6}) \[\d{1,4}% (?P<step>\d{1,9})/(?P<steps>\d{1,9})\]"),
    ),
    extras=(
        re.compile(
            r"Batch \(t\):?\s{1,4}(?P<step_time_s>\d[\d.]{0,15})(?:, (?P<samples_per_s>\d[\d.]{0,15})/s"
            r"(?:, (?P<samples_per_s_per_gpu>\d[\d.]{0,15})/s/gpu)?)?"
        ),
    ),
    columns={"data (t)": "data_time_s", "batch (t)": "step_time_s", "loss": "loss", "lr": "lr", "logit scale": "logit_scale"},
    form=SPACED,
    meaning=Meaning(
        "no step is printed: samples_seen counts the samples of the epoch over all ranks",
        None,
        "rank 0 only",
        "s per step, mean of the batches since the last line; samples/s of all ranks",
        "mlfoundations/open_clip src/open_clip_train/train.py",
    ),
)
