"""Ultralytics YOLO (and YOLOv5): a header line of columns, under it the bar of each epoch with the same columns in front.

``Epoch GPU_mem box_loss cls_loss dfl_loss Instances Size`` / ``3/100 7.41G 1.523 2.871 1.402 37 640: 52%|##### | 104/200
[00:30<00:28, 3.4it/s]``; 8.4 draws ``640: 52% ---- 104/200 3.4it/s 30.1s<28.2s``. Losses are means of the epoch so far. The
bar counts micro-batches of the epoch on rank 0 from 1, the epoch counts from 1. The rate is the bar's, at its end the mean.
Kept as states of a bar. Source: ultralytics/ultralytics ultralytics/models/yolo/detect/train.py, engine/trainer.py,
utils/tqdm.py (8.2 to 8.4).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diag_kit.observe.logs.fields import Number, Record
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.meaning import MICRO_BATCHES, Meaning
from diag_kit.observe.logs.numbers import PLAIN

_EPOCH = re.compile(r"(?P<epoch>\d{1,6})/(?P<epochs>\d{1,6}) {2,40}")
_CELL = re.compile(rf"(?P<value>{PLAIN}|nan|inf)(?P<unit>[GMK]?)(?=[ :]|\Z) {{0,40}}")
_COUNT = re.compile(r" (?P<step>\d{1,9})/(?P<steps>\d{1,9}) (?=\[|[\d.?]{1,10} ?(?:it/s|s/it))")
_RATE = re.compile(r"[ ,](?P<rate>\d[\d.]{0,10}) ?(?P<unit>it/s|s/it)")
_MEMORY = {"G": "memory_gb", "M": "memory_mb", "K": "memory_kb", "": "memory_gb"}
_COLUMNS = {"instances": "instances", "labels": "instances", "size": "image_size", "img_size": "image_size"}


_MEANING = Meaning(
    MICRO_BATCHES, 1, "rank 0 only", "it/s of the bar, at its end the epoch's mean", "ultralytics/ultralytics engine/trainer.py"
)


@dataclass(frozen=True, slots=True)
class Ultralytics:
    name: str = "Ultralytics bar"
    framework: str = "Ultralytics YOLO"
    order: int = 30
    gate: tuple[str, ...] = ("Epoch ",)
    meaning: Meaning = _MEANING

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if not text.startswith("Epoch ") or "\n" not in text:
            return ()
        header = text.partition("\n")[0]
        names = header.split()
        offset = len(header) + 1
        head = _EPOCH.match(text, offset)
        count = _COUNT.search(text, offset)
        if len(names) < 4 or head is None or count is None:
            return ()
        record = Record()
        record.put("epoch", Number.of(head, "epoch"))
        record.put("step", Number.of(count, "step"))
        position = head.end()
        for name in names[1:]:
            cell = _CELL.match(text, position)
            if cell is None:
                return ()
            column = _MEMORY[cell["unit"]] if name.lower() == "gpu_mem" else _COLUMNS.get(name.lower(), name)
            record.put(column, Number.of(cell, "value"))
            position = cell.end()
        rate = _RATE.search(text, count.end() - 1)
        if rate:
            record.put("steps_per_s" if rate["unit"] == "it/s" else "step_time_s", Number.of(rate, "rate"))
        steps, epochs = int(count["steps"]), int(head["epochs"])
        found = record.found(self.name, 0, end=len(text), step_of=steps, epoch_of=epochs, from_bar=True, whole_loss=True)
        return [replace(found, counts=_MEANING.counts)]


FORMAT = Ultralytics()
