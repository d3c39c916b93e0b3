"""The summary that wandb prints when a run ends: ``wandb: Run summary:`` and ``wandb:  train/loss 0.512`` lines.

It repeats the last values of the run, so its row is kept only where a log has no other metrics. Values are rounded to five
digits. Source: wandb/wandb wandb/sdk/wandb_run.py _footer_history_summary_info (0.16 and later).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.fields import Number, Record
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.numbers import NUMBER

_ROW = re.compile(rf"wandb:\s{{1,40}}(?P<key>[A-Za-z_]\S{{0,119}})\s{{1,4}}(?P<value>{NUMBER})\s*(?:\n|\Z)")
_COLUMNS = {
    "train/global_step": "step",
    "trainer/global_step": "step",
    "global_step": "step",
    "_step": "wandb_step",
    "epoch": "epoch",
    "train/epoch": "epoch",
    "train/loss": "loss",
    "loss": "loss",
    "train_loss": "loss",
    "_runtime": "elapsed_s",
    "_timestamp": "unix_s",
}


@dataclass(frozen=True, slots=True)
class WandbSummary:
    name: str = "wandb summary"
    framework: str = "wandb"
    order: int = 30
    gate: tuple[str, ...] = ("Run summary:",)

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if not text.startswith("wandb:") or "Run summary:" not in text:
            return ()
        record = Record()
        for row in _ROW.finditer(text):
            record.put(_COLUMNS.get(row["key"], row["key"]), Number.of(row, "value"))
        return [record.found(self.name, 0, end=len(text), from_bar=True)] if len(record.cells) > 1 else ()


FORMAT = WandbSummary()
