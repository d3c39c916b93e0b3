"""DeepSpeed: engine, throughput timer, wall clock and pipeline lines.

a) ``[Rank 0] step=N, skipped=K, lr=[..], mom=[..]``: optimizer steps, ``skipped`` of them (overflow) without an update; one lr
   per parameter group. Every ``steps_per_print``.
b) ``epoch=0/micro_step=M/global_step=N, RunningAvgSamplesPerSec=.., CurrSamplesPerSec=.., MemAllocated=..GB``: samples of ALL
   ranks; the mean leaves the first two steps out. Loading counts only with DeepSpeed's own loader. To mid-2022
   ``0/M, SamplesPerSec=..`` with M = calls, one for each micro-batch.
c) ``time (ms) | fwd: .. | bwd: .. | step: ..``: parts of a micro-batch (``*_microstep``) or sums of a step; no step number.
   ``step`` is the optimizer alone, and is called ``optimizer`` here.
d) pipeline: ``steps: N loss: x iter time (s): x samples/sec: x``: mean time of a step since the last line, samples of all
ranks. All by rank 0. From 0.15.2 on (a), (b) and (d) need steps_per_print; from 0.17.6 on (a) and (b) need the log level INFO.
Source: deepspeedai/DeepSpeed deepspeed/runtime/engine.py, utils/timer.py, runtime/pipe/engine.py, 0.5.0 to 0.19; threads
deepspeedai/DeepSpeed#255, #1825, #3742, #4132.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.numbers import NUMBER, PLAIN
from diag_kit.observe.logs.pairs import Pair, renamed, segment_pairs

_STEP = re.compile(
    rf"\bstep=(?P<step>\d{{1,12}}), skipped=(?P<skipped>\d{{1,12}})(?:, lr=\[(?P<lr>{PLAIN})?[^\]]{{0,2000}}(?:\]|\Z))?"
    r"(?:, mom=\[.{0,2000}\])?"
)
_SPEED = re.compile(
    r"(?:epoch=(?P<epoch>\d{1,9})/micro_step=(?P<micro>\d{1,12})/global_step=(?P<step>\d{1,12})|(?<![\d/])(?P<epoch0>\d{1,9})/(?P<micro0>\d{1,12}))"
    r", (?=\w{0,12}SamplesPerSec=)"
)
_SPEED_FIELD = re.compile(rf"(?P<key>\w{{1,40}})=(?P<value>{PLAIN})(?:GB)?(?:, |\Z|(?=\s))")
_PIPE = re.compile(r"\bsteps: (?P<step>\d{1,12}) ")
_PIPE_FIELD = re.compile(rf"(?P<key>[A-Za-z][\w /()-]{{0,60}}?): (?P<value>{NUMBER})(?: |\Z)")
_NAMES = {
    "runningavgsamplespersec": "samples_per_s_mean",
    "samplespersec": "samples_per_s_mean",
    "currsamplespersec": "samples_per_s",
    "memallocated": "mem_allocated_gb",
    "maxmemallocated": "max_mem_allocated_gb",
    "iter time (s)": "step_time_s",
    "samples/sec": "samples_per_s",
}


@dataclass(frozen=True, slots=True)
class DeepSpeed:
    name: str = "DeepSpeed"
    framework: str = "DeepSpeed"
    order: int = 25

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "skipped=" in text:
            return _engine(text)
        if "SamplesPerSec=" in text:
            return _throughput(text)
        if "time (ms) |" in text:
            return _wall_clock(text)
        return _pipeline(text) if "iter time (s):" in text else ()


def _engine(text: str) -> list[Found]:
    match = _STEP.search(text)
    if not match:
        return []
    keys = {"step": "step", "skipped": "skipped_steps_total", "lr": "lr"}
    pairs = [Pair(key, match[group], match.start(group), match.end(group)) for group, key in keys.items() if match[group]]
    return [assemble("engine", pairs, match.start(), match.end(), "train", level=1, counts="optimizer steps")]


def _throughput(text: str) -> list[Found]:
    match = _SPEED.search(text)
    if not match:
        return []
    keys = {"epoch": "epoch", "epoch0": "epoch", "micro": "micro_step", "micro0": "micro_step", "step": "global_step"}
    pairs = [Pair(key, match[group], match.start(group), match.end(group)) for group, key in keys.items() if match[group]]
    position = match.end()
    while field := _SPEED_FIELD.match(text, position):
        pairs += renamed([Pair(field["key"], field["value"], field.start("value"), field.end("value"))], _NAMES)
        position = field.end()
    return [assemble("throughput timer", pairs, match.start(), position, "train", level=2, counts="optimizer steps")]


def _wall_clock(text: str) -> list[Found]:
    begin = text.find("time (ms) |") + len("time (ms) |")
    pairs = segment_pairs(text, begin)
    for pair in pairs:
        name = re.sub(r"\W+", "_", pair.key).replace("step_microstep", "optimizer_microstep")
        pair.key, pair.unit = ("optimizer" if name == "step" else name) + "_ms", ""
    return [assemble("wall clock", pairs, begin, len(text), "train", level=3)] if pairs else []


def _pipeline(text: str) -> list[Found]:
    match = _PIPE.search(text)
    if not match:
        return []
    pairs = [Pair("step", match["step"], match.start("step"), match.end("step"))]
    position = match.end()
    while field := _PIPE_FIELD.match(text, position):
        pairs += renamed([Pair(field["key"], field["value"], field.start("value"), field.end("value"))], _NAMES)
        position = field.end()
    return [assemble("pipeline", pairs, match.start(), position, "train", counts="optimizer steps")]


FORMAT = DeepSpeed()
