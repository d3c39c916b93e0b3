"""Keras: ``Epoch 3/10`` and ``50/390 ---- 4s 12ms/step - accuracy: 0.3100 - loss: 1.9200``, rewritten within the epoch.

Also ``verbose=2`` (``390/390 - 12s - 30ms/step - loss: ..``, one line per epoch) and 2.x (``50/390 [==>...] - ETA: 12s -
loss: ..``). Steps of the epoch of this process, from 1. s, ms or us per step: mean since the second step of the epoch,
rounded to whole units. Before the end the first time is what is left, at the end what has passed. Metrics are means of the
epoch. Every worker prints. Kept as states of a bar. Source: keras-team/keras keras/src/utils/progbar.py (3.15),
tensorflow/keras utils/generic_utils.py (2.15).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="Keras bar",
    framework="Keras",
    gate=(" - ", "/", ": "),
    heads=(
        re.compile(
            r"Epoch (?P<epoch>\d{1,6})/(?P<epochs>\d{1,6})\s{0,4}\n\s{0,8}"
            r"(?P<step>\d{1,12})/(?:(?P<steps>\d{1,12})|Unknown) {1,4}"
            r"(?=\[|━|- )"
        ),
        re.compile(
            r"(?:\A|\s)(?P<step>\d{1,12})/(?:(?P<steps>\d{1,12})|Unknown) {1,4}"
            r"(?=\[[=>.]{5,80}\] - |━{5}|- \d{1,9}(?:s|ms|us) - )"
        ),
    ),
    extras=(
        re.compile(r" (?P<step_time_ms>\d{1,9})ms/step"),
        re.compile(r" (?P<step_time_s>\d{1,9})s/step"),
        re.compile(r" (?P<step_time_us>\d{1,9})us/step"),
    ),
    columns={"eta": "eta_s", "lr": "lr", "learning_rate": "lr"},
    from_bar=True,
    order=29,
    meaning=Meaning(
        OPTIMIZER_STEPS,
        1,
        "every worker process",
        "time per step, mean of the epoch so far",
        "keras-team/keras keras/src/utils/progbar.py",
    ),
)
