"""Are the data split over the ranks? What counting says: samples, batch, ranks, and the length of an epoch on one rank.

"cannot tell" wherever packing, an iterable dataset, a step limit or an unknown batch
break the arithmetic: a length counts only if it is exactly what one of the readings predicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from diag_kit.calculate.batch_size import Batch, batch_size
from diag_kit.calculate.epoch_progress import EpochProgress, epoch_progress
from diag_kit.calculate.inputs import Known, known, text_fact, tidy
from diag_kit.calculate.parallel import SPAWNED_AT, DataParallel, data_parallel
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
    one rank that stand; ``accumulation``: batches per counted step; ``if_split``: what one split would give, rounded up
    (``if_split_floor``: down). ``dataset_length``: where the source prints the dataset's length as the loader's.
    ``open_readings``: where it cannot tell, the readings that remain for some batch.
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
    inferred_accumulation: int = 0
    epochs: float | None = None
    if_split: int | None = None
    if_split_floor: int | None = None
    by_epochs: bool = True
    dataset_length: str = ""
    open_readings: tuple[Split, ...] = ()
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
    whole = known(evidence, "dataset_samples", unit="samples") if samples.value is None else samples
    batch = batch_size(evidence, ranks)
    total, printed = known(evidence, "total_steps", unit="steps"), known(evidence, "batches_per_epoch", unit="batches")
    epochs = known(evidence, "epochs").value
    accumulation, accumulated, inferred = _accumulation(evidence, printed, total, epochs)
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
        whole,
        length,
        batch,
        total,
        ranks,
        parallel,
        accumulation,
        accumulated,
        inferred,
        epochs,
        by_epochs=by_epochs,
        dataset_length=_dataset_length(evidence),
        progress=progress,
        ids=_ids(whole, length, total, batch.size, parallel.world_size, progress),
    )
    found = _of_all_hosts(_decide(base))
    if samples.value is None and whole.value is not None:
        return _of_the_whole(found, evidence)
    return _of_each_rank(found, evidence)


def _of_all_hosts(found: SplitArithmetic) -> SplitArithmetic:
    """Ranks counted from the script are those of one host: N hosts that split once look like one host that splits twice."""
    if found.verdict is not Split.TWICE or found.parallel is None or not found.parallel.world_size.source.startswith(SPAWNED_AT):
        return found
    reason = f"{found.reason}; but that many are spawned on each host, and how many hosts there are is not known"
    return replace(found, verdict=Split.CANNOT_TELL, reason=reason, open_readings=(Split.ONCE, Split.TWICE))


def _of_each_rank(found: SplitArithmetic, evidence: Evidence) -> SplitArithmetic:
    """Where several ranks state the samples for themselves, an epoch through all of them is "no split" only if they mean the
    whole: a rank that says the size of its own part looks the same. The source tells, if it cuts nothing. What a user told
    stands."""
    by, told = evidence.fact("train_samples_said_by"), evidence.fact("train_samples")
    if found.verdict is not Split.NONE or by is None or text_fact(evidence, "split_by_source") == "none":
        return found
    if told is None or told.id != by.id:
        return found
    doubt = "several ranks say this number of samples, and whether each means the whole or its own part is not known"
    return replace(
        found, verdict=Split.CANNOT_TELL, reason=f"{found.reason}; but {doubt}", open_readings=(Split.NONE, Split.ONCE)
    )


def _of_the_whole(found: SplitArithmetic, evidence: Evidence) -> SplitArithmetic:
    """Where only "the dataset's size" is known. It may hold the validation part too, so that a shorter epoch need be no split;
    or it may be a rank's own part, so that its epoch need not go through everything, unless the source cuts nothing."""
    if found.verdict in (Split.ONCE, Split.TWICE):
        doubt = "how many of them are for training is not known"
    elif found.verdict is Split.NONE and text_fact(evidence, "split_by_source") != "none":
        doubt = "whether that is the whole or a rank's own part is not known"
    else:
        return found
    reason = f"{found.reason}; but of these samples, {doubt}"
    return replace(found, verdict=Split.CANNOT_TELL, reason=reason, open_readings=(Split.NONE, Split.ONCE))


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


def _accumulation(evidence: Evidence, printed: Known, total: Known, epochs: float | None) -> tuple[int, int, int]:
    """Batches per counted step and per optimizer step: stated, else what total, length and epochs leave open, else 1.

    They differ where a script accumulates gradients and counts batches as steps: its total is then length x epochs. Third: the
    inferred one, 0 where none was inferred.
    """
    stated = known(evidence, "accumulation_steps")
    if stated.value:
        steps = max(1, int(stated.value))
        in_batches = bool(printed.value and epochs and total.value == printed.value * epochs)
        return (1 if in_batches else steps), steps, 0
    if printed.value and total.value and epochs:
        for steps in range(1, 129):
            if total.value in {math.ceil(printed.value / steps) * epochs, printed.value // steps * epochs}:
                return steps, steps, steps if steps > 1 else 0
    return 1, 1, 0


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
    if batch is None:
        return _decide_without_batch(base, samples, ranks)
    base = _with_split_length(base, samples, batch, ranks)
    if base.progress is not None and base.progress.low is not None:
        return _decide_seen(base, samples, ranks, batch)
    if base.dataset_length:
        where = base.dataset_length
        return replace(base, reason=f"the printed length is the dataset's ({where}), which is the same with and without a split")
    if not base.length.value:
        return replace(base, reason="no length of an epoch is printed, and no epoch was seen whole")
    return _decide_printed(base, samples, ranks, batch)


def _with_split_length(base: SplitArithmetic, samples: int, batch: int, ranks: int) -> SplitArithmetic:
    exact = samples / (batch * ranks)
    return replace(base, if_split=math.ceil(exact), if_split_floor=math.floor(exact))


def _shares(ranks: int) -> tuple[tuple[Split, int], ...]:
    return (Split.NONE, 1), (Split.ONCE, ranks), (Split.TWICE, ranks * ranks)


def _decide_printed(base: SplitArithmetic, samples: int, ranks: int, batch: int) -> SplitArithmetic:
    """By the printed length, which must be exactly what one reading predicts."""
    value = float(base.length.value or 0)
    slack = base.accumulation if base.length.source.startswith("total steps") else 0
    fits = [
        split
        for split, shares in _shares(ranks)
        if any(abs(value - each) <= max(slack, 0.01) for each in predicted(samples, batch, shares) if each > 0)
    ]
    what = f"{tidy(value)} batches an epoch, {samples} samples, batch {batch}, {ranks} ranks"
    if len(fits) != 1:
        why = "fits more than one reading" if fits else "fits no reading: packing, a filter, an iterable or a step limit"
        return replace(base, reason=f"{what}: {why}", open_readings=tuple(fits))
    texts = {
        Split.NONE: f"{what}: the whole dataset on each rank; one split would give {_or(base)}",
        Split.ONCE: f"{what}: exactly one split",
        Split.TWICE: f"{what}: split twice; one split would give {_or(base)}",
    }
    return _check(replace(base, verdict=fits[0], reason=texts[fits[0]]))


def _decide_without_batch(base: SplitArithmetic, samples: int, ranks: int) -> SplitArithmetic:
    """Without a batch size only the extreme counts: as many batches as samples is one sample a batch, and no split.

    Unless the log shows another length: then the printed one is not the loader's, and says nothing on the batch either.
    """
    progress, value = base.progress, float(base.length.value or 0)
    seen = progress is not None and progress.low is not None
    per_step = base.accumulation
    if progress is not None and value and not progress.fits(value / per_step):
        fits = _readings_for_some_batch(samples, ranks, lambda each: progress.fits(each / per_step))
        reason = f"{progress.says}, and {tidy(value)} batches are printed: not the loader's length; the batch size is not known"
        return replace(base, reason=reason, open_readings=fits)
    if base.dataset_length and not seen:
        return replace(base, reason=f"the printed length is the dataset's ({base.dataset_length})")
    if not value:
        return replace(base, reason="no length of an epoch is printed, and the batch size is not known")
    if value != samples:
        fits = _readings_for_some_batch(samples, ranks, lambda each: abs(value - each) < 0.01)
        reason = f"{tidy(value)} batches of unknown size for {samples} samples on {ranks} ranks"
        if Split.ONCE in fits and Split.NONE in fits:
            reason += ": one split, or no split and a batch larger by that factor"
        return replace(base, reason=reason, open_readings=fits)
    one = Batch(Known("batch_size_per_rank", 1.0, "as many batches as samples"), True, "as many batches as samples")
    base = _with_split_length(replace(base, batch=one, sure=True), samples, 1, ranks)
    reason = f"{samples} batches an epoch = {samples} samples: one sample a batch, and one split by {ranks} would give"
    return _check(replace(base, verdict=Split.NONE, seen=seen, reason=f"{reason} {_or(base)}"))


def _readings_for_some_batch(samples: int, ranks: int, fits: Callable[[float], bool]) -> tuple[Split, ...]:
    """The readings that some batch size would make fit."""
    found = []
    for split, shares in _shares(ranks):
        if any(fits(length) for batch in range(1, 4097) for length in predicted(samples, batch, shares) if length > 0):
            found.append(split)
    return tuple(found)


def _check(base: SplitArithmetic) -> SplitArithmetic:
    """Against what the log shows beside the printed length: steps that ran, and a total that does not fit it."""
    if base.verdict is not Split.NONE:
        return base
    progress, limit = base.progress, base.if_split
    if progress is not None and limit is not None and base.length.value:
        ran = progress.at_least * base.accumulation
        if base.length.value + base.accumulation >= ran > limit + base.accumulation + 1:
            reason = f"{base.reason}; {progress.says}, and one split would have ended it after {limit}"
            return replace(base, seen=True, reason=reason)
    if base.inferred_accumulation and base.ranks and base.inferred_accumulation % base.ranks == 0 and not base.seen:
        reason = (
            f"{base.reason}; but the total of {tidy(base.total_steps.value)} steps is 1/{base.inferred_accumulation} of that "
            "length x epochs: a split, or accumulation"
        )
        return replace(base, verdict=Split.CANNOT_TELL, reason=reason, open_readings=(Split.NONE, Split.ONCE))
    return base


def _decide_seen(base: SplitArithmetic, samples: int, ranks: int, batch: int) -> SplitArithmetic:
    """By the epochs that the log shows whole, which outrank any printed length."""
    progress = base.progress
    assert progress is not None
    fits = [
        (split, shares)
        for split, shares in _shares(ranks)
        if any(progress.fits(each / base.accumulation) for each in predicted(samples, batch, shares))
    ]
    if len(fits) != 1:
        why = "more than one reading" if fits else "no reading"
        reason = f"{progress.says}, which fits {why} of {samples} samples, batch {batch}, {ranks} ranks"
        return replace(base, reason=reason, open_readings=tuple(split for split, _ in fits))
    split, shares = fits[0]
    length = Known("batches_per_epoch", float(math.ceil(samples / batch / shares)), progress.says, (progress.id,))
    word = {Split.NONE: "no split", Split.ONCE: "one split", Split.TWICE: "two splits"}[split]
    reason = f"{progress.says}; {samples} samples in batches of {batch} on {ranks} ranks: {word}"
    if split is Split.NONE:
        reason += f", which would give {_or(base)}"
    return replace(base, verdict=split, seen=True, length=length, reason=reason)


def _or(base: SplitArithmetic) -> str:
    low, high = base.if_split_floor, base.if_split
    return f"{high}" if low == high else f"{low} or {high}"
