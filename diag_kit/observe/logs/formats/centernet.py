"""CenterNet and its kin (FairMOT, pose estimation): ``train: [37][1204/13920]|Tot: 0:18:40 |ETA: 3:17:10 |loss 1.61 |Data
0.012s(0.017s) |Net 0.905s``.

Drawn by a bar without line ends. The counter counts batches of the epoch on the one process from 0. Losses are means of the
epoch; ``Data`` is the last batch's wait and in brackets the epoch's mean, ``Net`` the epoch's mean of the whole iteration,
``Tot`` the time since the epoch's start. Source: xingyizhou/CenterNet src/lib/trains/base_trainer.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning

FORMAT = LineFormat(
    name="CenterNet line",
    framework="CenterNet",
    gate=("]|Tot: ",),
    heads=(re.compile(r"\b(?P<split>train|val): \[(?P<epoch>\d{1,6})\]\[(?P<step>\d{1,9})/(?P<steps>\d{1,9})\]\|"),),
    columns={"tot": "elapsed_epoch_s", "eta": "eta_s", "data": "data_time_s", "net": "step_time_mean_s"},
    form=SPACED,
    meaning=Meaning(
        MICRO_BATCHES,
        0,
        "the one process",
        "s of the last data wait; means of the epoch in data_time_mean_s and step_time_mean_s",
        "xingyizhou/CenterNet src/lib/trains/base_trainer.py",
    ),
)
