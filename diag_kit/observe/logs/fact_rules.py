"""What a number in a start-up message means: one small rule per fact, told from words, not from exact sentences.

Rules are asked in order and the first answer holds. An unqualified "batch_size" is a weaker statement (strength 1) than
"batch size per device" (2). Adding a wording is adding a word or a rule here, and a line to the test's list of phrases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diag_kit.observe.logs.fact_words import (
    ALREADY,
    BATCH,
    COUNT,
    DATASET,
    DEVICE,
    LARGEST,
    LOADER,
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
_NUMBER_OF = {"num", "number", "n", "total", "#"}
Rule = Callable[[Phrase], Stated | None]


def classify(before: str, value: float, unit: str, after: Sequence[str], evaluating: bool = False) -> Stated | None:
    """What ``before = value unit`` (or ``value after``) states; None when it is nothing that the kit asks for."""
    if value != value or value in (float("inf"), float("-inf")) or unit == "%" or "/" in unit:
        return None
    phrase = Phrase.of(before, after, scaled(value, unit) if unit in _SCALES else value, evaluating)
    if unit.lower() in _BYTES:
        return _dataset_bytes(phrase, value * _BYTES[unit.lower()])
    for rule in RULES:
        if rule in _ENDS and phrase.whole is None:
            continue
        stated = rule(phrase)
        if stated is not None:
            return stated if stated.name else None
    return None


NOTHING = Stated("", 0)
"""A rule's answer for a phrase that is known to state none of the facts, so that no later rule guesses."""


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
    if p.has({"per", "instantaneous", "local", "micro", "mbs"}) or (p.has({"device", "gpu", "rank"}) and p.lacks({"total"})):
        return Stated("batch_size_per_rank", p.whole, "samples")
    if p.has({"global", "total", "effective", "overall", "gbs"}):
        return Stated("global_batch_size", p.whole, "samples")
    return Stated("batch_size_per_rank", p.whole, "samples", 1)


LAYOUT = {"data": "data", "dp": "data", "tensor": "tensor", "tp": "tensor", "pipeline": "pipeline", "pp": "pipeline",
          "context": "context", "cp": "context", "sequence": "sequence", "sp": "sequence"}  # fmt: skip


def _layout(p: Phrase) -> Stated | None:
    """``tensor_parallel_size=4``, ``tensor-model-parallel-size 2``, ``dp_size: 8``: how the ranks are divided."""
    kinds = [LAYOUT[word] for word in LAYOUT if word in p.words]
    named = "parallel" in p.words or "parallelism" in p.words or bool(p.words & {"dp", "tp", "pp", "cp", "sp"})
    if len(kinds) == 1 and named and p.has({"size", "degree", "dim"}) and p.whole is not None:
        return Stated(f"{kinds[0]}_parallel_size", p.whole, "ranks")
    return None


def _world_size(p: Phrase) -> Stated | None:
    if not p.whole:
        return None
    if {"world", "size"} <= p.words:
        return Stated("world_size", p.whole, "ranks")
    counted = p.has(_NUMBER_OF, DEVICE) and p.lacks(SAMPLE, STEP, {"epoch", "per"})
    if counted or p.has({"nproc"}):
        return Stated("world_size", p.whole, "ranks", 1)
    return None


def _workers(p: Phrase) -> Stated | None:
    countable = p.value == int(p.value) and 0 <= p.value < 2**31
    if (
        p.has({"worker"})
        and (p.lacks({"suggested", "max", "rank", "id"}) or {"num", "per"} <= p.words)
        and countable
        and len(p.words) <= 5
    ):
        return Stated("num_workers", int(p.value), "", 2 if p.has(_NUMBER_OF) else 1)
    return None


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
    return Stated("base_lr", p.value, "", 1) if p.lacks(other) and 0 < p.value < 100 else NOTHING


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
    if "worker" in head[: 2 if head[0] in LOADER else 1]:
        return Stated("num_workers", p.whole, "", 1) if p.lacks({"rank"}) else NOTHING
    if head[0] in DEVICE and p.has({"with", "on", "using", "across", "over", "of", "world"}):
        return Stated("world_size", p.whole, "ranks", 1)
    if head[0] == "epoch" and p.has({"for", "train", "training", "run", "total"}):
        return Stated("epochs", p.whole, "", 1)
    if "epoch" in near and near & {"per", "each"}:
        plain = near & (STEP | BATCH) and not near & VAL and p.lacks(VAL)
        return Stated("batches_per_epoch", p.whole, "batches") if plain else NOTHING
    if p.steps_after and near & {"total", "training", "train", "optimization"} and set(head[:3]) & STEP:
        return Stated("total_steps", p.whole, "steps", 1)
    if near & {"parameter", "param"} and p.value >= 1000:
        return Stated("trainable_parameters" if "trainable" in near else "parameters", p.whole, "", 1)
    if p.steps_after and head[0] in STEP and p.has({"for"}, TRAIN | {"run"}):
        return Stated("total_steps", p.whole, "steps", 1)
    return _samples_after(p, head, near)


_FOUND = {
    "loaded", "found", "read", "using", "contain", "has", "have", "got", "discovered", "on", "dataset", "total", "with",
    "collected", "indexed", "split", "into",
}  # fmt: skip


def _samples_after(p: Phrase, head: Sequence[str], near: set[str]) -> Stated | None:
    said = near | p.words
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
    _layout,
    _world_size,
    _workers,
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
