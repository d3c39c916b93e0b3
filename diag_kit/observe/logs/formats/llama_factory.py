"""LLaMA-Factory's ``trainer_log.jsonl``: one JSON object per log interval, appended by rank 0.

Keys: ``current_steps``, ``total_steps`` (optimizer steps), ``loss``, ``lr``, ``epoch``, ``percentage``, ``elapsed_time`` and
``remaining_time`` (``[D days, ]H:MM:SS``), ``throughput`` and ``total_tokens``; with evaluation ``eval_loss``; absent values
are left out. ``throughput`` is tokens so far / seconds since the start of this session, all ranks: wrong after a resume, where
the tokens go on and the clock begins anew; use the differences. Its console lines are the Hugging Face Trainer's.
Source: hiyouga/LLaMA-Factory src/llamafactory/train/callbacks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.numbers import to_float
from diag_kit.observe.logs.pairs import Pair, find_dicts, renamed

_NAMES = {
    "throughput": "tokens_per_s_since_start",
    "percentage": "progress_percent",
    "total_tokens": "tokens_seen",
    "total_steps": "",
    "elapsed_time": "elapsed_s",
    "remaining_time": "remaining_s",
}


@dataclass(frozen=True, slots=True)
class LlamaFactory:
    name: str = "LLaMA-Factory"
    framework: str = "LLaMA-Factory"
    order: int = 55

    def find(self, text: str, line: Line) -> Sequence[Found]:
        return [found for each in find_dicts(text) if (found := _found(text, *each))] if '"current_steps"' in text else ()


def _found(text: str, start: int, end: int, pairs: list[Pair]) -> Found | None:
    keys = {pair.key: pair.value for pair in pairs}
    if "current_steps" not in keys or "total_steps" not in keys or len(keys) < 3:
        return None
    total = to_float(keys["total_steps"])
    split = "val" if any(key.startswith("eval_") for key in keys) and "loss" not in keys else "train"
    found = assemble(
        "trainer_log", renamed(pairs, _NAMES), start, end, "val" if split == "val" else "train", counts="optimizer steps"
    )
    return replace(found, run_steps=int(total)) if total and total > 0 and total < 2**53 else found


FORMAT = LlamaFactory()
