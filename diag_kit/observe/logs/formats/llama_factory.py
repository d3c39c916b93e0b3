"""LLaMA-Factory's ``trainer_log.jsonl``: ``{"current_steps": 120, "total_steps": 3000, "loss": 1.2, "lr": 9.1e-06, "epoch":
0.12, ...}``.

``current_steps`` counts optimizer steps from 1. ``throughput`` is tokens since the start / seconds since the start: a mean
over the session, which says nothing of now, and wrong after a resume (the tokens of the old session count, its seconds do
not); ``elapsed_time`` and ``remaining_time`` begin anew at a resume too. The saving process writes. Older runs in the same
folder stay in front. Source: hiyouga/LLaMA-Factory src/llamafactory/train/callbacks.py.
"""

from __future__ import annotations

from diag_kit.observe.logs.line_format import DictFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = DictFormat(
    name="LLaMA-Factory trainer_log",
    framework="LLaMA-Factory",
    gate=('"current_steps"', '"total_steps"'),
    keys=frozenset({"current_steps", "total_steps"}),
    columns={
        "current_steps": "step",
        "elapsed_time": "elapsed_s",
        "remaining_time": "eta_s",
        "throughput": "tokens_per_s_since_start",
        "percentage": "complete_pct",
        "eval_loss": "loss",
    },
    totals={"total_steps": "step"},
    val_keys=frozenset({"eval_loss"}),
    meaning=Meaning(
        OPTIMIZER_STEPS,
        1,
        "rank 0 only",
        "tokens/s, mean since the start of the session (too large after a resume)",
        "hiyouga/LLaMA-Factory src/llamafactory/train/callbacks.py",
    ),
)
