"""The data split by arithmetic: loader length and finished epochs against dataset size, batch and ranks.

Source: L = D/(b N) split once, D/b not split, D/(b N^2) split twice; the counter's roll-over checks what the printed length is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from diag_kit.calculate.inputs import calculated, ids_of, known, number_of
from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.parallel import data_parallel
from diag_kit.evidence import Evidence


class Split(StrEnum):
    """How often the data are divided over the ranks."""

    NONE = "not split"
    ONCE = "split once"
    TWICE = "split twice"


@dataclass(frozen=True, slots=True)
class ByArithmetic:
    """What printed length and finished epochs say. ``split`` None: cannot tell, and ``why``."""

    split: Split | None
    why: str
    finished_epoch: bool = False
    ids: tuple[str, ...] = ()


def lengths(samples: float, batch: float, ranks: int, split: Split) -> tuple[int, int]:
    """(low, high) batches an epoch on one rank: dropped or padded remainders give one either way."""
    over = {Split.NONE: 1, Split.ONCE: ranks, Split.TWICE: ranks * ranks}[split]
    exact = samples / (batch * over)
    return math.floor(exact), math.ceil(math.ceil(samples / over) / batch)


def by_arithmetic(evidence: Evidence) -> ByArithmetic:
    """The verdict of the numbers that the log states. A finished epoch outranks a printed length."""
    parallel = data_parallel(evidence)
    samples = known(evidence, "train_samples")
    batch = known(evidence, "batch_size_per_rank", default=1)
    if parallel.size is None or parallel.size < 2:
        return ByArithmetic(None, parallel.doubt or "one data-parallel rank: nothing to split")
    if samples.value is None:
        return ByArithmetic(None, "the log does not say how many training samples there are")
    seen = finished_epoch_batches(evidence)
    printed = known(evidence, "batches_per_epoch")
    length, what = (seen, "finished epochs of") if seen is not None else (printed.value, "a printed length of")
    if length is None or batch.value is None:
        return ByArithmetic(None, "neither a finished epoch nor a loader length is in the log")
    ids = ids_of(samples, batch, printed, parallel.world_size)
    found = [each for each in Split if _fits(length, samples.value, batch.value, parallel.size, each)]
    told = f"{what} {length:.0f} batches a rank, {samples.value:.0f} samples, {parallel.size} ranks, batch {batch.value:.0f}"
    if len(found) != 1:
        return ByArithmetic(None, f"{told}: fits {' and '.join(found) or 'no way of splitting'}", seen is not None, ids)
    if batch.assumed and found[0] is not Split.NONE:
        return ByArithmetic(None, f"{told} (batch assumed): a larger batch would look the same", seen is not None, ids)
    assumed = " (batch assumed)" if batch.assumed else ""
    return ByArithmetic(found[0], f"{told}{assumed}: {found[0]}", seen is not None, ids)


def _fits(length: float, samples: float, batch: float, ranks: int, split: Split) -> bool:
    low, high = lengths(samples, batch, ranks, split)
    return low <= length <= high


def finished_epoch_batches(evidence: Evidence) -> float | None:
    """Batches that one rank ran in an epoch seen from its start to its end in the log; None if there is none.

    Needs whole-number epochs and the number of printing ranks; a log that is cut at its head has no first epoch.
    """
    records = train_records(evidence)
    printers = number_of(calculated(evidence, "printing_ranks"))
    if records is None or printers is None or not records.has("epoch"):
        return None
    epochs = records.table["epoch"].astype("float64").dropna().to_numpy()
    if not len(epochs) or np.any(epochs != np.floor(epochs)):
        return None
    left_out = [n for o in evidence.observations for n in o.parsed.not_understood if o.id == records.id and n.why]
    numbers, counts = np.unique(epochs, return_counts=True)
    whole = counts[1:-1] if left_out or numbers[0] > 1 else counts[:-1]
    if not len(whole) or np.any(np.diff(epochs) < -1):
        return None
    every = known(evidence, "log_every_steps", default=1).value or 1
    accumulation = known(evidence, "accumulation_steps", default=1).value or 1
    return float(np.median(whole)) / printers * every * accumulation
