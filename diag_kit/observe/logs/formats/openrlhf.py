"""OpenRLHF's reinforcement learning: ``Global step 7: {'policy_loss': 0.012, 'timing/generation': 38.2, 'timing/step_total':
71.4}``.

A global step is one RL iteration (rollout and updates), counted from 1; ``timing/*`` are s of that one. A sparkle stands in
front, but not in the asynchronous trainer. The driver prints, perhaps behind Ray's prefix. Its SFT and DPO trainers print
bars with ``gpt_loss``, whose counter counts micro-batches of one rank. Source: OpenRLHF/OpenRLHF
openrlhf/trainer/ppo_trainer.py, openrlhf/utils/logging_utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.fields import Number, Record
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.meaning import RL_ITERATIONS, Meaning
from diag_kit.observe.logs.pairs import find_dicts

_HEAD = re.compile(r"\bGlobal step (?P<step>\d{1,10})(?: \[\w{1,20}\])?: (?=\{)")
_COLUMNS = {"timing/step_total": "step_time_s", "actor_lr": "lr", "policy_loss": "loss"}


_MEANING = Meaning(
    RL_ITERATIONS, 1, "the driver process", "s of the one iteration printed", "OpenRLHF/OpenRLHF openrlhf/trainer/ppo_trainer.py"
)


@dataclass(frozen=True, slots=True)
class OpenRlhf:
    name: str = "OpenRLHF line"
    framework: str = "OpenRLHF"
    order: int = 20
    gate: tuple[str, ...] = ("Global step ",)
    meaning: Meaning = _MEANING

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "Global step " not in text:
            return ()
        head = _HEAD.search(text)
        if head is None:
            return ()
        for start, end, pairs in find_dicts(text, head.end())[:1]:
            if start != head.end():
                return ()
            record = Record()
            record.put("step", Number.of(head, "step"))
            for pair in pairs:
                column = _COLUMNS.get(pair.key, f"{pair.key}_s" if pair.key.startswith("timing/") else pair.key)
                record.put(column, Number(pair.value, pair.start, pair.end))
            return [record.found(self.name, head.start(), end=end, counts=_MEANING.counts)]
        return ()


FORMAT = OpenRlhf()
