"""fairseq with ``--log-format json``: ``{"epoch": 1, "update": 0.033, "loss": "13.214", "wps": "22134.2", "num_updates":
"100", ...}``.

Numbers are quoted, but for ``epoch`` and ``update`` (a fraction of epochs). Keys and units as in the line form. Rank 0
prints; a hydra launch puts ``[date][train_inner][INFO] - `` in front. Source: facebookresearch/fairseq
fairseq/logging/progress_bar.py JsonProgressBar (0.12).
"""

from __future__ import annotations

from diag_kit.observe.logs.formats.fairseq import COLUMNS, MEANING
from diag_kit.observe.logs.line_format import DictFormat

_TRAIN = {f"train_{key}": column for key, column in COLUMNS.items()}
_VALID = {f"valid_{key}": column for key, column in COLUMNS.items()}

FORMAT = DictFormat(
    name="fairseq JSON",
    framework="fairseq",
    gate=('num_updates"', '"epoch"'),
    keys=frozenset({"epoch"}),
    columns={**_TRAIN, **_VALID, **COLUMNS, "update": "epochs_done", "valid_loss": "loss"},
    val_keys=frozenset({"valid_loss", "valid_num_updates"}),
    meaning=MEANING,
)
