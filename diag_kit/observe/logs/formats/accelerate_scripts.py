"""Scripts on accelerate: the bar of diffusers' training scripts, and the result per epoch of accelerate's examples.

diffusers: ``Steps:   3%|3 | 450/15000 [05:12<2:47:55,  1.44it/s, lr=1e-5, step_loss=0.0813]``: counts optimizer steps of the
run (moved on only where gradients are synchronised; the postfix is drawn anew at every micro-batch). ``step_loss`` is one
micro-batch of one rank. On the first rank of every node. The bar's rate is steps/s already: never divide it by the
accumulation.
accelerate: ``epoch 0: {'accuracy': 0.8186, 'f1': 0.8721}`` once an epoch, epochs from 0, main process: the metric of the
evaluation. Releases from 1.13 on put ``[RANK 0] `` in front of a logger's message.
Source: huggingface/diffusers examples/text_to_image/train_text_to_image.py; huggingface/accelerate examples/nlp_example.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.bars import find_bars
from diag_kit.observe.logs.formats.bar import bar_pairs
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.pairs import Pair, find_dicts

_EPOCH = re.compile(r"epoch (?P<n>\d{1,9}): (?=\{)")


@dataclass(frozen=True, slots=True)
class AccelerateScripts:
    name: str = "accelerate scripts"
    framework: str = "script on accelerate"
    order: int = 65

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "step_loss=" in text:
            return [
                assemble("bar", bar_pairs(text, bar), bar.start, bar.end, "train", from_bar=True, counts="optimizer steps")
                for bar in find_bars(text)
                if "step_loss=" in bar.postfix and bar.n.is_integer()
            ]
        return _epoch(text) if text[:6] == "epoch " and "{" in text else ()


def _epoch(text: str) -> list[Found]:
    head = _EPOCH.match(text)
    dicts = find_dicts(text) if head else []
    if not head or len(dicts) != 1 or dicts[0][0] != head.end():
        return []
    _, end, pairs = dicts[0]
    if any("loss" in pair.key or pair.key in ("lr", "learning_rate", "step") for pair in pairs):
        return []
    epoch = Pair("epoch", head["n"], head.start("n"), head.end("n"))
    return [assemble("epoch result", [epoch, *pairs], 0, end, "val")]


FORMAT = AccelerateScripts()
