"""Messages of trouble that carry numbers: out of memory, cache flushes, faults of a device, and the time of a whole run. Pure.

Sources: c10/cuda/CUDACachingAllocator.cpp of pytorch/pytorch (both wordings: to 2.0 in brackets, from 2.1 in sentences);
deepspeed/runtime/zero/stage3.py (flushes in the last step); ROCm/ROCR-Runtime runtime.cpp (one message a process before it ends);
detectron2 engine/hooks.py and torchvision's references (``Total training time: 1:23:45``, ``Training time 1:23:45``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from diag_kit.observe.logs.bars import clock_s
from diag_kit.observe.logs.fact_words import Stated
from diag_kit.records import Fact

_SIZE = r"(\d{1,9}(?:\.\d{1,4})?) (bytes|KiB|MiB|GiB|TiB)"
_MIB = {"bytes": 2**-20, "KiB": 2**-10, "MiB": 1.0, "GiB": 2.0**10, "TiB": 2.0**20}
_OUT_OF_MEMORY = (
    ("oom_tried_mib", re.compile(rf"Tried to allocate {_SIZE}")),
    ("oom_total_mib", re.compile(rf"{_SIZE} total capacity")),
    ("oom_total_mib", re.compile(rf"has a total capacity of {_SIZE}")),
    ("oom_free_mib", re.compile(rf"; {_SIZE} free")),
    ("oom_free_mib", re.compile(rf"of which {_SIZE} is free")),
    ("oom_allocated_mib", re.compile(rf"{_SIZE} already allocated")),
    ("oom_allocated_mib", re.compile(rf"Of the allocated memory {_SIZE} is allocated by PyTorch")),
    ("oom_reserved_mib", re.compile(rf"{_SIZE} reserved in total by PyTorch")),
    ("oom_reserved_unused_mib", re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")),
)
_FLUSHES = re.compile(r"\b(\d{1,9}) pytorch allocator cache flushes since last step")
_DEVICE_EXCEPTION = re.compile(r"\bHW Exception by GPU node-\d{1,4} .{0,80}?reason ?: ?(\w[\w ]{0,40})")
_RUN_TIME = re.compile(
    r"\b(?:total (?:training )?time taken|total training time|training time)\b[ :=]{1,60}"
    r"((?:\d{1,4} days?, )?\d{1,5}:\d\d:\d\d(?:\.\d{1,9})?)(?![\d:])",
    re.IGNORECASE,
)
_MARKS = ("Tried to allocate", "allocator cache", "HW Exc", "ime")
MAX_TEXT = 4000


class Trouble:
    """Facts of single messages, and faults counted over all."""

    def __init__(self) -> None:
        self._exceptions: Counter[str] = Counter()
        self._source = ""

    def of(self, text: str, source: str) -> Iterator[Stated]:
        if not any(mark in text for mark in _MARKS):
            return
        text = text[:MAX_TEXT]
        if "Tried to allocate" in text:
            for name, pattern in _OUT_OF_MEMORY:
                if found := pattern.search(text):
                    yield Stated(name, round(float(found[1]) * _MIB[found[2]], 6), "MiB")
        if flushes := _FLUSHES.search(text):
            yield Stated("allocator_cache_flushes_per_step", int(flushes[1]), "flushes")
        for found in _DEVICE_EXCEPTION.finditer(text):
            self._exceptions[found[1].strip()] += 1
            self._source = self._source or source
        if (run := _RUN_TIME.search(text)) and (seconds := clock_s(run[1])) is not None:
            yield Stated("run_s", seconds, "s")

    def facts(self) -> list[Fact]:
        if not self._exceptions:
            return []
        reason, count = self._exceptions.most_common(1)[0]
        return [
            Fact("gpu_exceptions", sum(self._exceptions.values()), self._source, "messages"),
            Fact("gpu_exception_reason", reason, f"{count} messages; {self._source}"),
        ]
