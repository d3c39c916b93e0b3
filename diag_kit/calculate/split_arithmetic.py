"""Are the data split over the ranks? What counting says: samples, batch, ranks, and the length of an epoch on one rank.

The table is data_sharding.md section 1. "cannot tell" wherever packing, an iterable dataset, a step limit or an unknown batch
break the arithmetic: a length counts only if it is exactly what one of the readings predicts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from diag_kit.calculate.batch_size import Batch, batch_size
from diag_kit.calculate.epoch_progress import EpochProgress, epoch_progress
from diag_kit.calculate.inputs import Known, known, tidy
from diag_kit.calculate.parallel import DataParallel, data_parallel
from diag_kit.evidence import Evidence


class Split(StrEnum):
    """How often the data are divided by the number of ranks."""

    ONCE = "once"
    NONE = "none"
    TWICE = "twice"
    ONE_RANK = "one rank"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class SplitArithmetic:
    """The verdict and everything behind it.

    ``sure``: the batch surely is a rank's. ``seen``: the log itself shows that length (roll-over, or more steps in an epoch
    than a split has); otherwise it is a printed figure, which may be the dataset's length. ``length``: batches per epoch on
    one rank that stand; ``accumulation``: batches per counted step; ``if_split``: what one split would give, rounded up (``if_split_floor``: down). ``dataset_length``: where the source
    prints the dataset's length as the loader's.
    """

    verdict: Split
    reason: str
    sure: bool
    seen: bool
    samples: Known
    length: Known
    batch: Batch
    total_steps: Known
    ranks: int | None = None
    parallel: DataParallel | None = None
    accumulation: int = 1
    accumulated: int = 1
    epochs: float | None = None
    if_split: int | None = None
    if_split_floor: int | None = None
    by_epochs: bool = True
    dataset_length: str = ""
    progress: EpochProgress | None = None
    ids: tuple[str, ...] = ()


def predicted(samples: int, batch: int, shares: int) -> set[int]:
    """Batches per epoch on one rank when the data are divided by ``shares``: all roundings that samplers use."""
    per_rank = (math.ceil(samples / shares), samples // shares)
    exact = samples / (batch * shares)
    return {math.ceil(exact), math.floor(exact), *(math.ceil(n / batch) for n in per_rank), *(n // batch for n in per_rank)}


def split_arithmetic(evidence: Evidence) -> SplitArithmetic:
    """Compare the length of an epoch with what each reading predicts."""
    parallel = data_parallel(evidence)
    ranks = parallel.size
    samples = known(evidence, "train_samples", unit="samples")
    batch = batch_size(evidence, ranks)
    total, printed = known(evidence, "total_steps", unit="steps"), known(evidence, "batches_per_epoch", unit="batches")
    epochs = known(evidence, "epochs").value
    accumulation, accumulated = _accumulation(evidence, printed, total, epochs)
    progress = epoch_progress(evidence)
    length, by_epochs = _length(printed, total, epochs, accumulation)
    if epochs is None and length.value and total.value:
        ratio = total.value * accumulation / length.value
        epochs = ratio if float(ratio).is_integer() else None
    base = SplitArithmetic(
        Split.CANNOT_TELL,
        "",
        batch.sure,
        False,
        samples,
        length,
        batch,
        total,
        ranks,
        parallel,
        accumulation,
        accumulated,
        epochs,
        by_epochs=by_epochs,
        dataset_length=_dataset_length(evidence),
        progress=progress,
        ids=_ids(samples, length, total, batch.size, parallel.world_size, progress),
    )
    return _decide(base)


def _dataset_length(evidence: Evidence) -> str:
    """Where the source prints the dataset's length as the length of an epoch; empty where it does not, or was not read."""
    stated = evidence.fact("printed_length_is")
    return stated.fact.source if stated is not None and stated.fact.value == "len(dataset)" else ""


def _ids(*sources: Known | EpochProgress | None) -> tuple[str, ...]:
    found: list[str] = []
    for source in sources:
        if isinstance(source, Known):
            found += source.ids
        elif source is not None and source.id:
            found.append(source.id)
    return tuple(dict.fromkeys(each for each in found if each))


def _accumulation(evidence: Evidence, printed: Known, total: Known, epochs: float | None) -> tuple[int, int]:
    """Batches per counted step, and per optimizer step: stated, else what total steps, length and epochs leave open, else 1.

    They differ where a script accumulates gradients and counts batches as steps: its total is then length x epochs.
    """
    stated = known(evidence, "accumulation_steps")
    if stated.value:
        steps = max(1, int(stated.value))
        in_batches = bool(printed.value and epochs and total.value == printed.value * epochs)
        return (1 if in_batches else steps), steps
    if printed.value and total.value and epochs:
        for steps in range(1, 129):
            if total.value in {math.ceil(printed.value / steps) * epochs, printed.value // steps * epochs}:
                return steps, steps
    return 1, 1


def _length(printed: Known, total: Known, epochs: float | None, accumulation: int) -> tuple[Known, bool]:
    """Batches per epoch on one rank as stated, and whether epochs (not a step limit) end the run."""
    if printed.value:
        if total.value and epochs:
            by_epochs = printed.value / accumulation * epochs
            return printed, total.value >= by_epochs * 0.999 - epochs
        return printed, True
    if total.value and epochs:
        value = total.value / epochs * accumulation
        source = f"total steps {total.value:.0f} / {epochs:g} epochs"
        if accumulation > 1:
            source += f" x accumulation {accumulation}"
        return Known("batches_per_epoch", value, source, total.ids, "batches"), True
    return printed, True


def _decide(base: SplitArithmetic) -> SplitArithmetic:
    doubt = base.parallel.doubt if base.parallel else ""
    if base.ranks is None:
        return replace(base, reason=doubt or "the number of ranks is not known")
    if base.ranks == 1:
        return replace(base, verdict=Split.ONE_RANK, sure=True, reason="one data-parallel rank: there is nothing to split")
    if not base.samples.value:
        return replace(base, reason="the number of training samples is not known")
    samples, ranks = int(base.samples.value), base.ranks
    batch = int(base.batch.size.value) if base.batch.size.value else None
    if batch:
        exact = samples / (batch * ranks)
        base = replace(base, if_split=math.ceil(exact), if_split_floor=math.floor(exact))
    seen = _decide_seen(base, samples, ranks, batch)
    if seen is not None:
        return seen
    if base.dataset_length:
        where = base.dataset_length
        return replace(base, reason=f"the printed length is the dataset's ({where}), which is the same with and without a split")
    if not base.length.value:
        return replace(base, reason="no length of an epoch is printed, and no epoch was seen whole")
    if batch is None:
        return _decide_without_batch(base, samples, ranks)
    return _decide_printed(base, samples, ranks, batch)


def _decide_printed(base: SplitArithmetic, samples: int, ranks: int, batch: int) -> SplitArithmetic:
    value = float(base.length.value or 0)
    slack = base.accumulation if base.length.source.startswith("total steps") else 0
    fits = [
        split
        for split, shares in ((Split.NONE, 1), (Split.ONCE, ranks), (Split.TWICE, ranks * ranks))
        if any(abs(value - each) <= max(slack, 0.01) for each in predicted(samples, batch, shares) if each > 0)
    ]
    what = f"{tidy(value)} batches an epoch, {samples} samples, batch {batch}, {ranks} ranks"
    if len(fits) != 1:
        why = "fits more than one reading" if fits else "fits no reading: packing, a filter, an iterable or a step limit"
        return replace(base, reason=f"{what}: {why}")
    texts = {
        Split.NONE: f"{what}: the whole dataset on each rank; one split would give {_or(base)}",
        Split.ONCE: f"{what}: exactly one split",
        Split.TWICE: f"{what}: split twice; one split would give {_or(base)}",
    }
    return _with_what_ran(replace(base, verdict=fits[0], reason=texts[fits[0]]))


def _with_what_ran(base: SplitArithmetic) -> SplitArithmetic:
    """More steps inside one epoch than a split has: the printed length is the loader's, not the dataset's."""
    progress, limit = base.progress, base.if_split
    if base.verdict is not Split.NONE or progress is None or limit is None:
        return base
    if progress.at_least * base.accumulation <= limit + base.accumulation + 1:
        return base
    reason = f"{base.reason}; {progress.says}, and one split would have ended it after {limit}"
    return replace(base, seen=True, reason=reason)


def _decide_without_batch(base: SplitArithmetic, samples: int, ranks: int) -> SplitArithmetic:
    """Without a batch size only the extreme counts: as many batches as samples is one sample a batch, and no split."""
    value = float(base.length.value or 0)
    if value != samples:
        return replace(base, reason=f"{tidy(value)} batches of unknown size for {samples} samples on {ranks} ranks")
    one = Batch(Known("batch_size_per_rank", 1.0, "as many batches as samples"), True, "as many batches as samples")
    exact = samples / ranks
    base = replace(base, batch=one, sure=True, if_split=math.ceil(exact), if_split_floor=math.floor(exact))
    reason = f"{samples} batches an epoch = {samples} samples: one sample a batch, and one split by {ranks} would give"
    return _with_what_ran(replace(base, verdict=Split.NONE, reason=f"{reason} {_or(base)}"))


def _decide_seen(base: SplitArithmetic, samples: int, ranks: int, batch: int | None) -> SplitArithmetic | None:
    """What the log's own epochs say; None where they say nothing."""
    progress = base.progress
    if progress is None:
        return None
    if progress.low is not None and batch is not None:
        fits = [
            split
            for split, shares in ((Split.NONE, 1), (Split.ONCE, ranks), (Split.TWICE, ranks * ranks))
            if any(progress.fits(each / base.accumulation) for each in predicted(samples, batch, shares))
        ]
        if len(fits) == 1:
            shares = {Split.NONE: 1, Split.ONCE: ranks, Split.TWICE: ranks * ranks}[fits[0]]
            length = Known("batches_per_epoch", float(math.ceil(samples / batch / shares)), progress.says, (progress.id,))
            word = {Split.NONE: "no split", Split.ONCE: "one split", Split.TWICE: "two splits"}[fits[0]]
            reason = f"{progress.says}; {samples} samples in batches of {batch} on {ranks} ranks: {word}"
            return replace(base, verdict=fits[0], seen=True, length=length, reason=reason)
        if not fits:
            return replace(base, reason=f"{progress.says}, which fits no reading of {samples} samples, batch {batch}")
    return None


def _or(base: SplitArithmetic) -> str:
    low, high = base.if_split_floor, base.if_split
    return f"{high}" if low == high else f"{low} or {high}"
