"""The batch of one rank, and whether it surely is that: "batch size" means the whole job's batch in some trainers.

Taking a global batch for a rank's would make a split run look unsplit (PyTorch's ImageNet example divides its argument by the
number of GPUs; detectron2, ultralytics, DeepSpeed and Megatron state the global one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from diag_kit.calculate.inputs import Known, known
from diag_kit.evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

_PER_RANK_WORDS = (
    "in every rank",
    "per_device",
    "per device",
    "per-device",
    "per rank",
    "per_rank",
    "per gpu",
    "per_gpu",
    "micro",
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Samples per rank and (micro-)step; ``sure``: it cannot be the whole job's; ``why`` says why or why not."""

    size: Known
    sure: bool
    why: str


def batch_size(evidence: Evidence, ranks: int | None, by_hand: float | None = None) -> Batch:
    """The batch per rank from facts, or the global one divided by ranks and accumulation. Unknown: value None."""
    found = known(evidence, "batch_size_per_rank", by_hand, unit="samples")
    total = known(evidence, "global_batch_size")
    accumulation = known(evidence, "accumulation_steps", default=1)
    if found.value is None:
        found = _from_source(evidence) or found
    if found.value is None and total.value and ranks:
        size = total.value / ranks / (accumulation.value or 1)
        if size >= 1 and float(size).is_integer():
            says = f"global batch {total.value:.0f} / {ranks} ranks / accumulation {accumulation.value:.0f}"
            return Batch(Known(found.name, size, says, total.ids, "samples"), True, says)
    if found.value is None or found.value < 1:
        return Batch(Known(found.name, None), False, "the batch size is not known")
    return Batch(found, *_sure(evidence, found, total, accumulation, ranks))


def _sure(evidence: Evidence, found: Known, total: Known, accumulation: Known, ranks: int | None) -> tuple[bool, str]:
    size = int(found.value or 0)
    if size == 1:
        return True, "a batch of 1 cannot be divided over ranks"
    if ranks and size % ranks:
        return True, f"a batch of {size} cannot be divided over {ranks} ranks"
    if ranks and total.value == size * ranks * (accumulation.value or 1):
        return True, f"{size} x {ranks} ranks x accumulation is the printed global batch of {total.value:.0f}"
    if any(word in found.source.lower() for word in _PER_RANK_WORDS):
        return True, f"stated per rank ({found.source})"
    loaders = evidence.table("dataloaders")
    if loaders is not None and "batch_size" in loaders and str(size) in loaders["batch_size"].astype(str).tolist():
        return True, f"the script builds its DataLoader with batch_size={size}, in every rank"
    if found.source == "set by hand":
        return True, "set by hand"
    return False, f"whether {size} is a rank's batch or the whole job's is not known ({found.source})"


def training_loaders(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of a ``dataloaders`` table that feed the training, not the validation."""
    if "side" in table:
        return table[table["side"].fillna("train") != "validation"]
    if "variable" in table:
        return table[~table["variable"].fillna("").astype(str).str.contains("val|eval|test", case=False)]
    return table


def _from_source(evidence: Evidence) -> Known | None:
    """The literal batch_size of the one training DataLoader in the script."""
    sourced = evidence.sourced_table("dataloaders")
    if sourced is None or "batch_size" not in sourced[0]:
        return None
    table, card = sourced
    rows = training_loaders(table)
    sizes = {str(size) for size in rows["batch_size"].dropna().tolist() if str(size).isdecimal()}
    if len(sizes) != 1 or len(rows) != 1:
        return None
    row = rows.iloc[0]
    return Known("batch_size_per_rank", float(sizes.pop()), f"{row['file']}:{row['line']}", (card,), "samples")
