"""fairseq's lines at the end of an epoch: ``epoch 001 | loss 9.1 | ppl 548 | wps 22000 | ... | num_updates 3002 | train_wall
1400 | wall 1500``.

Pipes, and a blank between key and value. ``epoch 001 | valid on 'valid' subset | loss 8.2 | ...`` is validation. The train
form sums the epoch up and repeats its last update, so these rows are kept only where a log has no others. Source:
facebookresearch/fairseq fairseq/logging/progress_bar.py (0.12).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.formats.fairseq import COLUMNS, MEANING
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import Meaning

_LINE = LineFormat(
    name="fairseq epoch line",
    framework="fairseq",
    gate=("epoch ", " | loss "),
    heads=(re.compile(r"\bepoch (?P<epoch>\d{3,8}) \| (?:(?P<split>valid) on [^|\n]{1,80} subset \| )?(?=loss )"),),
    columns=COLUMNS,
    form=SPACED,
)


@dataclass(frozen=True, slots=True)
class FairseqEpoch:
    name: str = "fairseq epoch line"
    framework: str = "fairseq"
    order: int = 31
    meaning: Meaning = MEANING

    def find(self, text: str, line: Line) -> Sequence[Found]:
        return [replace(found, from_bar=found.split == "train") for found in _LINE.find(text, line)]


FORMAT = FairseqEpoch()
