"""fairseq's lines at the end of an epoch: ``epoch 001 | loss 9.1 | ppl 548 | wps 22000 | ... | num_updates 3002 | train_wall
1400 | wall 1500``.

Pipes, and a blank between key and value. ``epoch 001 | valid on 'valid' subset | loss 8.2 | ...`` is validation. The train
form sums the epoch up and repeats its last update, so these rows are kept only where a log has no others. Source:
facebookresearch/fairseq fairseq/logging/progress_bar.py (0.12).
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.formats.fairseq import COLUMNS, MEANING
from diag_kit.observe.logs.line_format import LineFormat

FORMAT = LineFormat(
    name="fairseq epoch line",
    framework="fairseq",
    gate=("epoch ", " | loss "),
    heads=(
        re.compile(
            r"\bepoch (?P<epoch>\d{3,8}) \| (?:(?P<split>valid) on [^|\n]{1,80} subset \| (?=loss )|(?P<summary>(?=loss )))"
        ),
    ),
    columns=COLUMNS,
    form=SPACED,
    meaning=MEANING,
)
