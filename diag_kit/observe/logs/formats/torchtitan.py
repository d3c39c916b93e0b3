"""torchtitan: ``step: 10  loss:  7.91  grad_norm:  1.03  memory: 61.20GiB(77.30%)  tps: 6,418  mfu: 37.6%``.

Behind ``[titan] TIME - root - INFO - ``. Counts optimizer steps from 1: step 1 (compilation included), then every ``log_freq``.
Loss is the mean of all ranks; the other numbers are this rank's. tps: tokens per second and device over the window since the
last line; 0.1.0 has no grad_norm, releases before it say wps. ``validate step:`` lines are validation. Every rank prints, and
the launcher hides all but one of a node: its ``[rank0]:`` is a local rank. Colours stand between the fields.
Source: pytorch/torchtitan torchtitan/components/metrics.py (0.1.0, main of 2026); threads pytorch/torchtitan#2389, #3393.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.numbers import NUMBER
from diag_kit.observe.logs.pairs import Pair

_HEAD = re.compile(r"(?P<val>\bvalidate )?\bstep:\s{1,12}(?P<step>\d{1,12})\s{1,4}(?=[A-Za-z_]+:\s)")
_FIELD = re.compile(
    rf"(?P<key>[A-Za-z_][\w/]{{0,60}}):\s{{1,12}}(?:(?P<value>{NUMBER})(?:GiB|%)?(?:\((?P<percent>[\d.]{{1,8}})%\))?|N/A)(?:\s{{1,4}}|\Z)"
)
_NAMES = {
    "memory": "memory_gib",
    "tps": "tokens_per_s_per_gpu",
    "wps": "tokens_per_s_per_gpu",
    "tflops": "tflop_per_s_per_gpu",
    "mfu": "mfu_percent",
}


@dataclass(frozen=True, slots=True)
class TorchTitan:
    name: str = "torchtitan"
    framework: str = "torchtitan"
    order: int = 35

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "memory:" not in text or ("tps:" not in text and "wps:" not in text):
            return ()
        head = _HEAD.search(text)
        if not head:
            return ()
        pairs = [Pair("step", head["step"], head.start("step"), head.end("step"))]
        position = head.end()
        while field := _FIELD.match(text, position):
            if field["value"]:
                key = _NAMES.get(field["key"], field["key"])
                pairs.append(Pair(key, field["value"], field.start("value"), field.end("value")))
            if field["percent"]:
                pairs.append(Pair(f"{field['key']}_percent", field["percent"], field.start("percent"), field.end("percent")))
            position = field.end()
        split = "val" if head["val"] else "train"
        return [assemble("titan", pairs, head.start(), position, "val" if split == "val" else "train", counts="optimizer steps")]


FORMAT = TorchTitan()
