"""fairseq: ``epoch 001: 100 / 3002 loss=13.214, ppl=9501.4, wps=22134.2, ups=2.11, ..., num_updates=100, lr=1.25e-05,
wall=61``.

With ``--log-format simple``, and tqdm's where stderr is no terminal. At the end of an epoch the same with pipes (``epoch
001 | loss 9.1 | ... ``, ``epoch 001 | valid on 'valid' subset | loss ...``): see fairseq_epoch. ``num_updates`` counts
optimizer steps from 1, ``i / n`` the updates of the epoch (groups of micro-batches). ``wps`` are tokens/s of all ranks,
``ups`` updates/s, both means since the last line; ``wall`` s since the start. Rank 0 prints. Source:
facebookresearch/fairseq fairseq/logging/progress_bar.py, fairseq/trainer.py (0.12).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

COLUMNS = {"wps": "tokens_per_s", "ups": "steps_per_s", "num_updates": "step", "wall": "elapsed_s", "train_wall": "train_wall_s"}
MEANING = Meaning(
    OPTIMIZER_STEPS,
    1,
    "rank 0 only",
    "tokens/s of all ranks and updates/s, means since the last line",
    "facebookresearch/fairseq fairseq/logging/progress_bar.py 0.12",
)
FORMAT = LineFormat(
    name="fairseq line",
    framework="fairseq",
    gate=("epoch ", " / ", "loss="),
    heads=(re.compile(r"\bepoch (?P<epoch>\d{3,8}):\s{1,12}(?P<update_of_epoch>\d{1,10}) / \d{1,10} "),),
    columns=COLUMNS,
    meaning=MEANING,
)
