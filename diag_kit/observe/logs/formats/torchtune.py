"""torchtune: ``Step 12 | loss:1.20 lr:2e-05 tokens_per_second_per_gpu:1843.2 peak_memory_active:38.1`` and its bar.

Counts optimizer steps of the run from 1, rank 0 only, no time in the line (the disk logger's file name holds the start:
``log_<unixtime>.txt``). The numbers are those of the LAST step of the window: tokens/s counts tokens that have a label, and
the wait for data is in it. Memory in GiB. The bar's description is ``{epoch from 1}|{global step}|Loss: x``; its counter
begins anew each epoch.
Source: pytorch/torchtune torchtune/training/metric_logging.py, memory.py, recipes/full_finetune_distributed.py (0.6.1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.bars import find_bars
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.numbers import NUMBER
from diag_kit.observe.logs.pairs import Pair

_HEAD = re.compile(r"\bStep (?P<step>\d{1,12}) \| (?=\w{1,60}:[-+\dnNiI.])")
_FIELD = re.compile(rf"(?P<key>[A-Za-z_][\w./-]{{0,60}}):(?P<value>{NUMBER})(?:\s{{1,4}}|\Z)")
_BAR = re.compile(rf"(?P<epoch>\d{{1,9}})\|(?P<step>\d{{1,12}})\|Loss: (?P<loss>{NUMBER})")
_NAMES = {
    "tokens_per_second_per_gpu": "tokens_per_s_per_gpu",
    "peak_memory_active": "peak_memory_active_gib",
    "peak_memory_alloc": "peak_memory_alloc_gib",
    "peak_memory_reserved": "peak_memory_reserved_gib",
}


@dataclass(frozen=True, slots=True)
class TorchTune:
    name: str = "torchtune"
    framework: str = "torchtune"
    order: int = 40

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "|Loss: " in text:
            return _bars(text)
        return _step(text) if "Step " in text and " | " in text else ()


def _step(text: str) -> list[Found]:
    head = _HEAD.search(text)
    if not head:
        return []
    pairs = [Pair("step", head["step"], head.start("step"), head.end("step"))]
    position = head.end()
    while field := _FIELD.match(text, position):
        key = _NAMES.get(field["key"], field["key"])
        pairs.append(Pair(key, field["value"], field.start("value"), field.end("value")))
        position = field.end()
    return [assemble("step line", pairs, head.start(), position, counts="optimizer steps")] if len(pairs) > 1 else []


def _bars(text: str) -> list[Found]:
    found: list[Found] = []
    for bar in find_bars(text):
        match = _BAR.search(text, bar.start, bar.percent_at)
        if match:
            pairs = [Pair(key, match[key], match.start(key), match.end(key)) for key in ("epoch", "step", "loss")]
            found.append(assemble("bar", pairs, bar.start, bar.end, "train", from_bar=True, counts="optimizer steps"))
    return found


FORMAT = TorchTune()
