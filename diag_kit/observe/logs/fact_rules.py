"""What a number in a start-up message means: one small rule per fact, told from words, not from exact sentences.

Rules are asked in order and the first answer holds. An unqualified "batch_size" is a weaker statement (strength 1) than
"batch size per device" (2). Adding a wording is adding a word or a rule here, and a line to the test's list of phrases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diag_kit.observe.logs.fact_ranks import devices_first, layout, workers, world_size
from diag_kit.observe.logs.fact_words import (
    ALREADY,
    ASIDE,
    BATCH,
    COUNT,
    DATASET,
    DEVICE,
    DURATIONS,
    LARGEST,
    LOADER,
    NOTHING,
    SAMPLE,
    SIZE,
    STEP,
    TRAIN,
    VAL,
    Phrase,
    Stated,
)
from diag_kit.observe.logs.numbers import scaled

_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SCALES = {"k", "K", "M", "B", "m", "b", "G", "T"}
Rule = Callable[[Phrase], Stated | None]


def classify(
    before: str, value: float, unit: str, after: Sequence[str], evaluating: bool = False, explicit: bool = True
) -> Stated | None:
    """What ``before = value unit`` (or ``value after``) states; None when it is nothing that the kit asks for.

    ``explicit``: "=" or ":" stood between; without it, a thing in the singular before a number is numbered, not counted.
    """
    if value != value or value in (float("inf"), float("-inf")) or unit == "%" or "/" in unit:
        return None
    phrase = Phrase.of(before, after, scaled(value, unit) if unit in _SCALES else value, evaluating, explicit)
    if phrase.index or unit.lower() in DURATIONS or set(phrase.after[:1]) & DURATIONS:
        return None
    if unit.lower() in _BYTES:
        return _dataset_bytes(phrase, value * _BYTES[unit.lower()])
    for rule in RULES:
        if rule in _ENDS and phrase.whole is None:
            continue
        stated = rule(phrase)
        if stated is not None:
            return stated if stated.name else None
    return None


def _dataset_bytes(p: Phrase, size: float) -> Stated | None:
    plain = p.has(DATASET | SAMPLE) and p.lacks(VAL, ALREADY, {"memory", "mem", "per", "cache", "shm"})
    return Stated("dataset_bytes", int(size), "B", 1) if plain else None


def _accumulation(p: Phrase) -> Stated | None:
    if not any(word.startswith(("accum", "gradacc")) for word in p.words) or {"batch", "size"} <= p.words:
        return None
    return Stated("accumulation_steps", p.whole, "steps") if p.whole else NOTHING


def _batch_size(p: Phrase) -> Stated | None:
    whole = p.has(BATCH, {"global", "effective"}) and p.lacks(STEP, {"epoch", "time", "per"})
    if not (whole or p.has(BATCH, {"size"}) or p.has({"bs", "batchsize", "mbs", "gbs"})):
        return None
    if not p.whole or p.has(VAL) or p.evaluating:
        return NOTHING
    between = p.behind("size", "batch", "bs", "batchsize", "mbs", "gbs")
    if not between <= _BETWEEN | DEVICE or p.has(ASIDE | LARGEST | {"node"}) or set(p.after[:4]) & _REFUSED:
        return NOTHING
    if p.has({"per", "instantaneous", "local", "micro", "mbs"}) or (p.has({"device", "gpu", "rank"}) and p.lacks({"total"})):
        return Stated("batch_size_per_rank", p.whole, "samples")
    if p.has({"global", "total", "effective", "overall", "gbs"}):
        return Stated("global_batch_size", p.whole, "samples")
    return Stated("batch_size_per_rank", p.whole, "samples", 1)


_BETWEEN = {"per", "is", "of", "set", "to", "used", "total", "train", "training", "w", "parallel", "distributed", "accumulation",
            "the", "in", "sample", "sequence", "global", "local", "micro", "each"}  # fmt: skip
_REFUSED = {"too", "not", "fail", "failed", "oom", "fit"}


def _sequence_length(p: Phrase) -> Stated | None:
    unit = p.has({"seq", "sequence", "context", "block", "token"}, {"len", "length"})
    if not unit and not {"max", "length"} <= p.words and not p.has({"block", "context"}, {"size"}):
        return None
    plain = p.whole and p.lacks({"mean", "avg", "average", "min"})
    return Stated("max_seq_len", p.whole or 0, "tokens", 1) if plain else NOTHING


def _parameters(p: Phrase) -> Stated | None:
    if p.whole and p.value >= 1000 and p.has({"parameter", "param"}) and p.lacks({"group", "frozen", "non"}):
        return Stated("trainable_parameters" if "trainable" in p.words | set(p.after) else "parameters", p.whole)
    return None


def _warm_up(p: Phrase) -> Stated | None:
    if not any(word.startswith("warm") for word in p.words):
        return None
    plain = p.value == int(p.value) and p.value >= 0 and p.has(STEP) and p.lacks({"ratio"})
    return Stated("warmup_steps", int(p.value), "steps") if plain else NOTHING


def _learning_rate(p: Phrase) -> Stated | None:
    if not p.has({"lr"}) and not {"learning", "rate"} <= p.words:
        return None
    other = {
        "min",
        "final",
        "end",
        "effective",
        "current",
        "decay",
        "scheduler",
        "schedule",
        "layer",
        "embedding",
        "factor",
        "mult",
    }
    beside = p.behind("lr", "rate") <= {"is", "of", "set", "to", "base", "initial", "init", "peak", "max", "value"}
    return Stated("base_lr", p.value, "", 1) if beside and p.lacks(other) and 0 < p.value < 100 else NOTHING


def _log_interval(p: Phrase) -> Stated | None:
    if not p.has({"log", "logging", "print", "report"}, STEP | {"interval", "freq", "frequency", "every"}):
        return None
    return Stated("log_every_steps", p.whole, "steps") if p.whole else NOTHING


def _still_running(p: Phrase) -> Stated | None:
    """Counts of something under way end here, except for those with "max" before steps or epochs."""
    return NOTHING if p.has(ALREADY - LARGEST) else None


def _per_epoch(p: Phrase) -> Stated | None:
    if not p.has(STEP | BATCH | {"it"}, {"epoch"}):
        return None
    if p.has(VAL | {"save", "warmup"}):
        return NOTHING
    if p.has({"optimizer", "optimization", "update"}):
        return Stated("updates_per_epoch", p.whole or 0, "steps")
    return Stated("batches_per_epoch", p.whole or 0, "batches")


def _loader_length(p: Phrase) -> Stated | None:
    if p.has(LOADER, SIZE | BATCH) and p.lacks(VAL, {"worker", "rank", "time", "valloader"}):
        return Stated("batches_per_epoch", p.whole or 0, "batches")
    own = {"local", "shard", "rank", "node", "own", "process", "gpu", "device", "worker", "replica", "this", "per", "size"}
    if p.has(BATCH, (SIZE - {"size", "n"}) | TRAIN) and p.lacks(VAL, own):
        return Stated("batches_per_epoch", p.whole or 0, "batches", 1)
    return None


def _total_steps(p: Phrase) -> Stated | None:
    whole_run = {"total", "optimization"} | LARGEST
    if not p.has(STEP, whole_run | {"train", "training", "num", "number"}) or not (p.has(LARGEST) or p.steps_before):
        return None
    other = {"save", "per", "ttt", "draft", "inference", "diffusion", "sampling", "decay", "ema", "start"}
    if p.has(VAL) or p.has(other):
        return NOTHING
    return Stated("total_steps", p.whole or 0, "steps", 2 if p.has(whole_run) else 1)


def _epochs(p: Phrase) -> Stated | None:
    plain = p.has({"epoch"}, COUNT | LARGEST) and p.lacks(STEP, SAMPLE, VAL, BATCH, {"per", "save"})
    if plain and p.value < 100_000:
        return Stated("epochs", p.whole or 0)
    return Stated("epochs", p.whole or 0, "", 1) if p.epochs_before and p.lacks(STEP, SAMPLE, VAL, BATCH) else None


def _tokens(p: Phrase) -> Stated | None:
    if "token" not in p.words | set(p.after):
        return None
    other = {"per", "batch", "special", "new", "max", "vocab", "id"}
    plain = p.has(TRAIN | DATASET | SIZE) or (p.after[:1] != ("token",) and bool(set(p.after[:4]) & (TRAIN | DATASET)))
    if plain and p.value >= 10_000 and p.lacks(other, ALREADY) and not set(p.after) & (other | ALREADY):
        return Stated("dataset_tokens", p.whole or 0, "tokens", 1)
    return NOTHING


def _samples(p: Phrase) -> Stated | None:
    """``<train> <samples> = N``: of the training part, of the validation part, of one rank, or of everything."""
    after = set(p.after)
    own = p.has({"local", "shard", "own", "per", "rank"})
    if p.has(ALREADY) or after & {"per", "of"} or ({"per"} <= p.words and p.lacks(DEVICE | {"worker", "node", "shard"})):
        return None
    noun = p.has(SAMPLE) or (p.has(DATASET) and after & SAMPLE)
    sized = p.has(DATASET, SIZE) and p.lacks(LOADER, {"world", "parallel"})
    bare = p.ordered[-1:] in (("trainset",), ("valset",), ("size",)) and p.has(TRAIN | VAL) and len(p.words) <= 3
    counted = p.has({"n", "num"}, TRAIN | VAL) and p.words <= {"n", "num", "number"} | TRAIN | VAL
    if not (noun or sized or bare or counted) or p.has(BATCH | STEP | {"epoch"}) or len(p.words) > 8:
        return None
    split = p.words if p.has(TRAIN | VAL) or not noun else p.words | set(p.after[:3])
    if split & VAL or p.evaluating:
        return Stated("val_samples", p.whole or 0, "samples")
    if own:
        return Stated("samples_per_rank", p.whole or 0, "samples")
    if split & TRAIN:
        return Stated("train_samples", p.whole or 0, "samples")
    if {"num", "example"} <= p.words:  # the banner "Num examples" of a training
        return Stated("train_samples", p.whole or 0, "samples", 1)
    return Stated("dataset_samples", p.whole or 0, "samples", 2 if p.has(DATASET | SIZE) else 1)


def _value_first(p: Phrase) -> Stated | None:
    """The number stands first: ``35446 training files``, ``Starting with 4 processes``, ``8862 steps per epoch``."""
    if not p.after or not p.whole:
        return NOTHING
    head, near = p.after[:4], set(p.after[:4])
    if "worker" in head[:3] and set(head[: head.index("worker")]) <= LOADER | {"data", "loading"}:
        loading = p.has(LOADER) or head[0] != "worker"
        return Stated("num_workers", p.whole, "", 1) if loading and p.lacks({"rank"}, ASIDE) else NOTHING
    if head[0] in DEVICE:
        return devices_first(p, near)
    if head[0] == "epoch" and near.isdisjoint({"per", "without", "later"}):
        run = p.has(TRAIN | {"run", "running", "total", "fit", "fitting"}) and p.lacks(ASIDE, ALREADY)
        return Stated("epochs", p.whole, "", 1) if run else NOTHING
    if "epoch" in near and near & {"per", "each"}:
        plain = near & (STEP | BATCH) and not near & VAL and p.lacks(VAL)
        return Stated("batches_per_epoch", p.whole, "batches") if plain else NOTHING
    total = near & {"total", "optimization"} or (near & TRAIN and p.words <= TRAIN | {"for", "with", "over", "run", "will", "in"})
    if p.steps_after and total and set(head[:3]) & STEP and p.lacks(ASIDE, ALREADY):
        return Stated("total_steps", p.whole, "steps", 1)
    if near & {"parameter", "param"} and p.value >= 1000:
        return Stated("trainable_parameters" if "trainable" in near else "parameters", p.whole, "", 1)
    if p.steps_after and head[0] in STEP and p.has({"for"}, TRAIN | {"run"}) and p.lacks(ASIDE, ALREADY):
        return Stated("total_steps", p.whole, "steps", 1)
    return _samples_after(p, head, near)


_FOUND = {
    "loaded", "found", "read", "using", "contain", "has", "have", "got", "discovered", "on", "dataset", "total", "with",
    "collected", "indexed", "split", "into",
}  # fmt: skip


def _samples_after(p: Phrase, head: Sequence[str], near: set[str]) -> Stated | None:
    said = near | p.words
    if said & (ASIDE - {"found"}):
        return None
    if set(head[:3]) & SAMPLE and not near & (ALREADY | BATCH | {"per"}):
        if said & VAL and not near & TRAIN:
            return Stated("val_samples", p.whole or 0, "samples")
        if said & TRAIN:
            return Stated("train_samples", p.whole or 0, "samples")
        if p.has(_FOUND) or near & {"total", "all"}:
            return Stated("val_samples" if p.evaluating else "dataset_samples", p.whole or 0, "samples", 1)
    if head[0] in TRAIN | VAL and p.has(SAMPLE | DATASET):
        return Stated("train_samples" if head[0] in TRAIN else "val_samples", p.whole or 0, "samples", 1)
    return None


RULES: tuple[Rule, ...] = (
    _accumulation,
    _batch_size,
    layout,
    world_size,
    workers,
    _sequence_length,
    _parameters,
    _warm_up,
    _learning_rate,
    _log_interval,
    _still_running,
    _per_epoch,
    _loader_length,
    _total_steps,
    _epochs,
    _tokens,
    _samples,
    _value_first,
)
_ENDS = frozenset({_per_epoch, _loader_length, _total_steps, _epochs, _tokens, _samples, _value_first})
"""Rules about whole numbers only."""
