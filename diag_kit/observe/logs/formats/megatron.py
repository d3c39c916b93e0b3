"""Megatron-LM and its forks (Megatron-DeepSpeed, GPT-NeoX, Megatron-LLM): one line of ``key: value |`` per log interval.

Grammar: `` [time] iteration n/N | consumed samples: n | elapsed time per iteration (ms): x | [throughput per GPU
(TFLOP/s/GPU): x |] learning rate: x | global batch size: n | <loss>: x | ... number of skipped iterations: n | number of nan
iterations: n |``;
validation: `` validation loss at iteration n | lm loss value: x | lm loss PPL: x |``; timers: a heading, then one indented
``name ....: (min, max)`` or ``name ....: max`` each, in ms over all ranks.
Counts optimizer steps over the global batch, from 1. Printed by the LAST rank only, that is on the last node. ``step_time_ms``
is the mean over the interval, data and logging included, evaluation and checkpoints not. GPT-NeoX puts ``samples/sec`` first.
Source: NVIDIA/Megatron-LM megatron/training/training.py (training_log, evaluate_and_print_results) and
megatron/core/timers.py, tags v2.5 to core_v0.9.0; forks: epfLLM/Megatron-LLM#11, deepspeedai/DeepSpeed#3742.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.pairs import Pair, renamed, segment_pairs

_HEAD = re.compile(
    r"(?:samples/sec:\s{1,4}(?P<rate>[\d.]{1,12}) \|\s{1,4})?\biteration\s{1,12}(?P<n>\d{1,12})\s?/\s{0,12}(?P<of>\d{1,12})\s?\|"
)
_VALIDATION = re.compile(r"\bvalidation loss at (?:iteration (?P<n>\d{1,12})|the end of training)[^|]{0,60}\|")
_TIMER = re.compile(
    r"\s{0,8}(?P<name>[A-Za-z][\w -]{0,80}?) \.{2,60}: "
    r"(?:\((?P<min>[\d.]{1,15}), (?P<max>[\d.]{1,15})\)|(?P<only>[\d.]{1,15}))\s*\Z"
)
_NAMES = {
    "learning rate": "lr",
    "elapsed time per iteration (ms)": "step_time_ms",
    "throughput per gpu (tflop/s/gpu)": "tflop_per_s_per_gpu",
    "tflops": "tflop_per_s_per_gpu",
    "approx flops per gpu": "tflop_per_s_per_gpu",
    "samples per second": "samples_per_s",
    "tokens per gpu per second (tgs)": "tokens_per_s_per_gpu",
    "number of skipped iterations": "skipped_steps",
    "number of nan iterations": "nan_steps",
}


@dataclass(frozen=True, slots=True)
class Megatron:
    name: str = "Megatron-LM"
    framework: str = "Megatron-LM"
    order: int = 20

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "|" in text and "iteration" in text:
            return _train(text) or _validation(text)
        if " ...." in text:
            return _timer(text)
        return _validation(text) if "validation loss at the end" in text else ()


def _train(text: str) -> list[Found]:
    head = _HEAD.search(text)
    if not head or "elapsed time per iteration" not in text:
        return []
    pairs = [Pair("step", head["n"], head.start("n"), head.end("n"), of=head["of"])]
    if head["rate"]:
        pairs.append(Pair("samples_per_s", head["rate"], head.start("rate"), head.end("rate")))
    pairs += renamed(segment_pairs(text, head.end()), _NAMES)
    return [assemble("pipe-separated", pairs, head.start(), len(text), "train", counts="optimizer steps")]


def _validation(text: str) -> list[Found]:
    head = _VALIDATION.search(text)
    if not head:
        return []
    pairs = [Pair("step", head["n"], head.start("n"), head.end("n"))] if head["n"] else []
    values = [pair for pair in segment_pairs(text, head.end()) if pair.key]
    return [assemble("validation", [*pairs, *values], head.start(), len(text), "val")] if values else []


def _timer(text: str) -> list[Found]:
    match = _TIMER.match(text)
    if not match:
        return []
    name = re.sub(r"\W+", "_", match["name"]).strip("_")
    keys = {"min": f"{name}_min_ms", "max": f"{name}_max_ms", "only": f"{name}_max_ms"}
    pairs = [Pair(key, match[group], match.start(group), match.end(group)) for group, key in keys.items() if match[group]]
    return [assemble("timer", pairs, match.start(), match.end(), "train", level=3)]


FORMAT = Megatron()
