"""llm.c: ``step   12/18865 | loss 10.98 (+1.2z)| norm 15.4 (-nanz)| lr 2.57e-07 | 3116.09 ms | 31.2% bf16 MFU | 168250 tok/s``.

Optimizer steps from 1; the time is of that one step, tok/s a running mean over all ranks. Rank 0 prints. The older PyTorch twin
prints ``step   1/76 | train loss 11.0 | norm 15.4 | lr 2.5e-07 | (3116.09 ms | 168250 tok/s)``. Source: karpathy/llm.c
train_gpt2.cu, train_gpt2.py.
"""

from __future__ import annotations

import re

from diag_kit.observe.logs.fields import SPACED
from diag_kit.observe.logs.line_format import LineFormat
from diag_kit.observe.logs.meaning import OPTIMIZER_STEPS, Meaning

FORMAT = LineFormat(
    name="llm.c line",
    framework="llm.c",
    gate=("step ", " tok/s"),
    heads=(re.compile(r"\bstep\s{1,8}(?P<step>\d{1,10})/(?P<steps>\d{1,10}) \| (?=(?:train )?loss )"),),
    columns={"train loss": "loss", "loss": "loss"},
    extras=(
        re.compile(r"\| \(?(?P<step_time_ms>\d[\d.]{0,20}) ms \|"),
        re.compile(r"\| (?P<mfu_percent>-?\d[\d.]{0,20})% \w{2,6} MFU"),
        re.compile(r"\| (?P<tokens_per_s>\d[\d.]{0,20}) tok/s"),
    ),
    form=SPACED,
    meaning=Meaning(OPTIMIZER_STEPS, 1, "rank 0 only", "ms of the one step printed; tok/s of all ranks", "karpathy/llm.c"),
)
