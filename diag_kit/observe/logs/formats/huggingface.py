"""Hugging Face Trainer and what is built on it (TRL, axolotl): the dict that it prints per ``logging_steps``.

Grammar: ``{'loss': x, 'grad_norm': x, 'learning_rate': x, ..., 'epoch': x}``; evaluation ``{'eval_loss': x, 'eval_runtime': s,
'eval_samples_per_second': x, 'eval_steps_per_second': x, 'epoch': x}``. To 4.57 plain numbers, from 5.0.0 on strings of four
digits in quotes. No step in the line; ``epoch`` is a fraction; the ``log_history`` of trainer_state.json holds the same dicts
with ``step`` (optimizer steps). Loss is the mean over the window and the ranks. By world rank 0; with ``disable_tqdm`` by the
first rank of EACH node. ``train_tokens_per_second``: all ranks, since the start (4.x: tokens before a resume counted too).
axolotl: ``tokens/train_per_sec_per_gpu``, since the last line. TRL: ``reward``, ``kl``, ``completions/*``, some of them None.
Source: huggingface/transformers src/transformers/trainer.py, trainer_callback.py (4.40 to 5.24); huggingface/trl trl/trainer;
axolotl-ai-cloud/axolotl src/axolotl/core/trainers/base.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.pairs import Pair, find_dicts, renamed

_NAMES = {
    "eval_runtime": "eval_runtime_s",
    "eval_samples_per_second": "eval_samples_per_s",
    "eval_steps_per_second": "eval_steps_per_s",
    "train_tokens_per_second": "tokens_per_s_since_start",
    "tokens/train_per_sec_per_gpu": "tokens_per_s_per_gpu",
}


@dataclass(frozen=True, slots=True)
class HuggingFace:
    name: str = "Hugging Face Trainer"
    framework: str = "transformers Trainer"
    order: int = 60

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if "epoch" not in text or "{" not in text or ("learning_rate" not in text and "eval_" not in text):
            return ()
        found = [(start, end, pairs, _split(pairs, text[start + 1 : start + 8])) for start, end, pairs in find_dicts(text)]
        return [
            assemble("dict", renamed(pairs, _NAMES), start, end, "val" if split == "val" else "train", counts=_counts(pairs))
            for start, end, pairs, split in found
            if split
        ]


def _split(pairs: Sequence[Pair], opening: str) -> str:
    """ "train", "val", or "" where it is no dict of the Trainer (its summary at the end is none: see ``startup``)."""
    keys = {pair.key for pair in pairs}
    if "epoch" not in keys or "train_runtime" in keys:
        return ""
    if any(key.startswith("eval_") and key.endswith("_runtime") for key in keys):
        return "val"
    return "train" if "learning_rate" in keys and opening == "'loss':" else ""


def _counts(pairs: Sequence[Pair]) -> str:
    return "optimizer steps" if any(pair.key == "step" for pair in pairs) else ""


FORMAT = HuggingFace()
