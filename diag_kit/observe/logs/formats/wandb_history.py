"""Weights & Biases rows as JSON lines or its ``wandb-summary.json``: ``{"train/loss": 0.5, "_step": 10, "_runtime": 12.3,
"_timestamp": 1.7e9}``.

``_step`` counts calls of ``wandb.log`` (unless the script passes ``step=``), so a step that the trainer logs itself goes
first. ``_runtime`` is s since the run's start, ``_timestamp`` seconds since 1970, the clock of the rows. The process that
called ``wandb.init`` writes. Source: wandb/wandb wandb/sdk/wandb_run.py (0.16 and later).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.line_format import DictFormat
from diag_kit.observe.logs.meaning import Meaning

_OWN = ("global_step", "train/global_step", "trainer/global_step", "step")
_COMMON = {
    "_runtime": "elapsed_s",
    "_timestamp": "unix_s",
    "train/loss": "loss",
    "train/epoch": "epoch",
    "train/learning_rate": "lr",
}
_GATE = ('"_step"',)


_MEANING = Meaning(
    "what the trainer logs as its step, or calls of wandb.log",
    0,
    "the process that started the run",
    source="wandb/wandb wandb/sdk/wandb_run.py",
)


def _dict_format(step: str, columns: dict[str, str]) -> DictFormat:
    return DictFormat(
        name="wandb history",
        framework="wandb",
        gate=_GATE,
        keys=frozenset({"_step", step}),
        columns=_COMMON | columns | {step: "step"},
        meaning=_MEANING,
    )


_TRAINERS = tuple(_dict_format(step, {"_step": "wandb_step"}) for step in _OWN)
_PLAIN = _dict_format("_step", {})


@dataclass(frozen=True, slots=True)
class WandbHistory:
    name: str = "wandb history"
    framework: str = "wandb"
    order: int = 20
    gate: tuple[str, ...] = ('"_step"',)
    meaning: Meaning = _MEANING

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if '"_step"' not in text:
            return ()
        for known in (*_TRAINERS, _PLAIN):
            found = known.find(text, line)
            if found:
                return found
        return ()


FORMAT = WandbHistory()
