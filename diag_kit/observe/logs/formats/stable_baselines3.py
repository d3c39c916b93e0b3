"""stable-baselines3 (and baselines): a box of ``| key | value |`` between dashed lines, keys under tags (``| time/ | |``).

``iterations`` counts rollouts from 1 (on-policy algorithms); elsewhere ``n_updates``, the gradient steps, is the counter.
``total_timesteps`` counts environment steps, ``fps`` is environment steps/s since the start, ``time_elapsed`` s since the
start. Keys and values are cut at 23 characters. The one process prints. Source: DLR-RM/stable-baselines3
stable_baselines3/common/logger.py HumanOutputFormat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.fields import Number, Record
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.meaning import RL_ITERATIONS, Meaning
from diag_kit.observe.logs.numbers import NUMBER

_ROW = re.compile(
    rf"(?P<key>[A-Za-z_][\w/. @%()-]{{0,60}}?)\s{{0,40}}\|\s{{0,40}}"
    rf"(?:(?P<value>{NUMBER})|[^|\n]{{0,60}}?)\s{{0,40}}\|[ \t]*(?:\n|\Z)"
)
_COLUMNS = {
    "iterations": "step",
    "total_timesteps": "env_steps",
    "fps": "env_steps_per_s",
    "time_elapsed": "elapsed_s",
    "learning_rate": "lr",
    "loss": "loss",
}
_MARKS = {"total_timesteps", "fps", "n_updates", "ep_rew_mean"}


_MEANING = Meaning(
    RL_ITERATIONS + "; gradient steps where no iteration is printed",
    1,
    "the one process",
    "environment steps/s, mean since the start",
    "DLR-RM/stable-baselines3 stable_baselines3/common/logger.py",
)


@dataclass(frozen=True, slots=True)
class StableBaselines:
    name: str = "stable-baselines3 box"
    framework: str = "stable-baselines3"
    order: int = 30
    gate: tuple[str, ...] = ("|",)
    meaning: Meaning = _MEANING

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "|\n" not in text and "| \n" not in text:
            return ()
        record, keys, tag = Record(), set(), ""
        for row in _ROW.finditer(text):
            key = row["key"].strip()
            if row["value"] is None:
                tag = key if key.endswith("/") else tag
                continue
            keys.add(key)
            column = _COLUMNS.get(key, f"{tag}{key}" if tag == "eval/" else key)
            record.put(column, Number.of(row, "value"))
        if len(keys & _MARKS) < 2:
            return ()
        if "step" not in record.cells and "n_updates" in record.cells:
            cell = record.cells["n_updates"]
            record.put("step", Number(cell.text, cell.start, cell.end))
        return [record.found(self.name, 0, end=len(text), counts=_MEANING.counts)]


FORMAT = StableBaselines()
