"""What a number in a start-up message means, told from the words around it, not from exact sentences.

A phrase is reduced to lower-case singular words; each rule asks for words that must, may and must not stand there. The
answer carries a strength: an unqualified "batch_size" is a weaker statement than "batch size per device".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.numbers import scaled

SAMPLE = {
    "sample", "example", "file", "row", "image", "sequence", "record", "item", "document", "doc", "datapoint", "instance",
    "clip", "pair", "utterance", "conversation", "prompt", "point", "video", "entry", "observation", "sentence", "cut",
}  # fmt: skip
TRAIN = {"train", "training", "trainset", "trn"}
VAL = {
    "val", "valid", "validation", "validating", "eval", "evaluation", "evaluating", "dev", "test", "testing", "heldout",
    "holdout", "valset", "evalset",
}  # fmt: skip
STEP = {"step", "iteration", "iter", "update"}
DATASET = {"dataset", "data", "datum", "corpus", "set", "split", "trainset"}
SIZE = {"size", "length", "len", "count", "number", "num", "n", "nb", "total", "#", "amount", "volume"}
ALREADY = {
    "consumed", "seen", "processed", "skip", "skipped", "done", "saved", "saving", "wrote", "written", "logged", "generated",
    "cached", "dropped", "removed", "filtered", "failed", "current", "completed", "finished", "elapsed", "remaining",
    "shuffle", "buffer", "prefetch", "second", "sec", "max", "maximum", "min", "minimum", "limit", "suggested", "first",
    "queue", "retry", "attempt", "checkpoint", "after", "every",
}  # fmt: skip
OWN = {"local", "shard", "rank", "node", "own", "process", "gpu", "device", "worker", "replica", "this"}
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_SPLIT = re.compile(r"[^A-Za-z0-9#]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)")
_PLURAL = re.compile(r"(?:steps|iterations|iters|updates)\b", re.IGNORECASE)
_KEEP_S = {"loss", "bias", "pass", "class", "process", "processes", "len", "this", "has", "cls", "pos", "gas", "bs", "s"}


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact's name, its value and unit, and how plainly it was said (2 plain, 1 unqualified, 0 a guess)."""

    name: str
    value: int | float
    unit: str
    strength: int = 2


def words_of(phrase: str) -> list[str]:
    """Lower-case words, plural "s" taken off, ``trainLoader`` and ``train_loader`` taken apart."""
    words = []
    for word in _SPLIT.split(phrase):
        word = word.lower()
        if word == "processes":
            word = "process"
        elif word in ("batches", "minibatches"):
            word = "batch"
        elif word == "entries":
            word = "entry"
        elif len(word) > 3 and word.endswith("s") and word not in _KEEP_S:
            word = word[:-1]
        if word:
            words.append(word)
    return words


def _whole(value: float, low: int = 1) -> int | None:
    return int(value) if value == int(value) and low <= value < 2**62 else None


def classify(before: str, value: float, unit: str, after: Sequence[str], evaluating: bool = False) -> Stated | None:
    """What ``before = value unit`` (or ``value after``) states; None when it is nothing that the kit asks for.

    ``evaluating``: the line stands under a banner of an evaluation.
    """
    words = words_of(before)
    trailing = words_of(" ".join(after))
    if value != value or value in (float("inf"), float("-inf")) or unit == "%" or "/" in unit:
        return None
    if unit and unit.lower() in _BYTES:
        return _bytes(words, value * _BYTES[unit.lower()])
    value = scaled(value, unit) if unit in ("k", "K", "M", "B", "m", "b", "G", "T") else value
    several = bool(_PLURAL.search(before))
    for rule in (_sizes, _schedule, _samples):
        stated = rule(set(words), words, set(trailing), value, evaluating, several)
        if stated is not None:
            return stated
    return _value_first(set(words), trailing, value, evaluating, bool(_PLURAL.search(" ".join(after[:4]))))


def _bytes(words: Sequence[str], value: float) -> Stated | None:
    known = set(words)
    if known & (DATASET | SAMPLE) and not known & (VAL | ALREADY | {"memory", "mem", "per", "cache", "shm"}):
        return Stated("dataset_bytes", int(value), "B", 1)
    return None


def _sizes(
    words: set[str], ordered: Sequence[str], after: set[str], value: float, evaluating: bool, several: bool
) -> Stated | None:
    """Batch sizes, world size, workers, sequence length, parameters."""
    count = _whole(value)
    if any(word.startswith(("accum", "gradacc")) for word in words) and count and not words & {"batch", "loss"} - {"batch"}:
        if not {"batch", "size"} <= words:
            return Stated("accumulation_steps", count, "steps")
    if (("batch" in words or "minibatch" in words) and "size" in words) or words & {"bs", "batchsize", "mbs", "gbs"}:
        return _batch_size(words, count, evaluating)
    if {"world", "size"} <= words and count:
        return Stated("world_size", count, "ranks")
    if words & {"nproc"} and count:
        return Stated("world_size", count, "ranks", 1)
    counted = words & {"num", "number", "n", "total", "#"}
    if (
        counted
        and count
        and words & {"process", "gpu", "rank", "replica", "device"}
        and not words & (SAMPLE | STEP | {"epoch", "per"})
    ):
        return Stated("world_size", count, "ranks", 1)
    if ({"data", "parallel", "size"} <= words and count) or ({"dp", "size"} <= words and count):
        return Stated("world_size", count or 0, "ranks", 1)
    if "worker" in words and not words & {"suggested", "max", "rank", "id"} and _whole(value, 0) is not None and len(words) <= 5:
        return Stated("num_workers", int(value), "", 2 if counted else 1)
    if (words & {"seq", "sequence", "context", "block", "token"} and words & {"len", "length"}) or words >= {"max", "length"}:
        return Stated("max_seq_len", count, "tokens", 1) if count and not words & {"mean", "avg", "average", "min"} else None
    if words & {"parameter", "param"} and count and value >= 1000 and not words & {"group", "frozen", "non"}:
        return Stated("trainable_parameters" if "trainable" in words | after else "parameters", count, "")
    return None


def _batch_size(words: set[str], count: int | None, evaluating: bool) -> Stated | None:
    if not count or words & VAL or evaluating:
        return None
    if words & {"per", "instantaneous", "local", "micro", "mbs"} or (words & {"device", "gpu", "rank"} and "total" not in words):
        return Stated("batch_size_per_rank", count, "samples")
    if words & {"global", "total", "effective", "overall", "gbs"}:
        return Stated("global_batch_size", count, "samples")
    return Stated("batch_size_per_rank", count, "samples", 1)


def _schedule(
    words: set[str], ordered: Sequence[str], after: set[str], value: float, evaluating: bool, several: bool
) -> Stated | None:
    """Steps, epochs, learning rate, logging interval, resume."""
    if any(word.startswith("warm") for word in words):
        count = _whole(value, 0)
        return Stated("warmup_steps", count, "steps") if count is not None and words & STEP and "ratio" not in words else None
    if words & {"lr"} or {"learning", "rate"} <= words:
        plain = not words & {
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
        return Stated("base_lr", value, "", 1) if plain and 0 < value < 100 else None
    if words & {"log", "logging", "print", "report"} and words & (STEP | {"interval", "freq", "frequency", "every"}):
        count = _whole(value)
        return Stated("log_every_steps", count, "steps") if count else None
    count = _whole(value)
    if not count or words & ALREADY - {"max", "maximum"}:
        return None
    stepping = bool(words & (STEP | {"batch", "minibatch", "it"}))
    if stepping and "epoch" in words and not words & (VAL | {"eval", "save", "warmup"}):
        if words & {"optimizer", "optimization"} or "update" in words:
            return Stated("updates_per_epoch", count, "steps")
        return Stated("batches_per_epoch", count, "batches")
    loader = words & {"loader", "dataloader", "trainloader"}
    if (
        loader
        and words & (SIZE | {"batch"})
        and not words & (VAL | {"worker", "rank", "time", "valloader"})
        and "size" not in words - {"batch"} | ({"size"} if "batch" in words else set())
    ):
        return Stated("batches_per_epoch", count, "batches")
    if loader and "len" in words and not words & VAL:
        return Stated("batches_per_epoch", count, "batches")
    if "batch" in words and words & (SIZE - {"size", "n"} | TRAIN) and not words & (VAL | {"size", "per"} | OWN):
        return Stated("batches_per_epoch", count, "batches", 1)
    limit = words & {"max", "maximum"} or several
    if words & STEP and limit and words & {"total", "max", "maximum", "train", "training", "optimization", "num", "number"}:
        if not words & (VAL | {"save", "per", "ttt", "draft", "inference", "diffusion", "sampling", "decay", "ema", "start"}):
            return Stated("total_steps", count, "steps", 2 if words & {"total", "max", "maximum", "optimization"} else 1)
        return None
    plural = {"epoch"} & words and words & {"num", "max", "n", "number", "total", "train", "training"}
    if plural and not words & (STEP | SAMPLE | VAL | {"per", "save", "batch"}) and count < 100_000:
        return Stated("epochs", count, "", 2) if words & {"num", "max", "n", "number", "total"} else None
    return None


def _samples(
    words: set[str], ordered: Sequence[str], after: set[str], value: float, evaluating: bool, several: bool
) -> Stated | None:
    """Files, rows, examples: of the training part, of the validation part, of one rank, or of everything."""
    count = _whole(value)
    if not count or words & ALREADY or after & {"per"} or ("per" in words and not words & OWN):
        return None
    noun = words & SAMPLE or (words & DATASET and after & SAMPLE)
    sized = words & DATASET and words & SIZE and not words & {"batch", "loader", "dataloader", "world", "parallel"}
    bare = (
        ordered
        and ordered[-1] in ("trainset", "valset", "size")
        and words & (TRAIN | VAL)
        and len(words) <= 3
        and "batch" not in words
    )
    token = "token" in words | after
    if token:
        plain = words & (TRAIN | DATASET | SIZE) and not words & {"per", "batch", "special", "new", "max", "vocab", "id"}
        return Stated("dataset_tokens", count, "tokens", 1) if plain and count >= 10_000 else None
    if not (noun or sized or bare) or words & {"batch", "epoch"} or words & STEP or len(words) > 8:
        return None
    if words & VAL or evaluating:
        return Stated("val_samples", count, "samples")
    if words & {"local", "shard", "own"} or "per" in words or words & {"rank"}:
        return Stated("samples_per_rank", count, "samples")
    if words & TRAIN:
        return Stated("train_samples", count, "samples")
    if "num" in words and "example" in words:
        return Stated("train_samples", count, "samples", 1)  # the banner "Num examples" of a training
    return Stated("dataset_samples", count, "samples", 2 if words & (DATASET | SIZE) else 1)


_FOUND = {"loaded", "found", "read", "using", "contain", "has", "have", "got", "discovered", "on", "dataset", "total", "with",
          "collected", "indexed", "split", "into"}  # fmt: skip


def _value_first(words: set[str], trailing: Sequence[str], value: float, evaluating: bool, several: bool) -> Stated | None:
    """``35446 training files``, ``Starting with 4 processes``, ``for 5 epochs``, ``8862 steps per epoch``."""
    count = _whole(value)
    if not count or not trailing or words & (ALREADY - {"max", "maximum"}):
        return None
    head = list(trailing[:4])
    near = set(head)
    if head[0] == "worker" or head[:2] == ["loader", "worker"]:
        return Stated("num_workers", count, "", 1) if "rank" not in words else None
    if head[0] in ("process", "gpu", "rank", "device", "replica") and words & {
        "with",
        "on",
        "using",
        "across",
        "over",
        "of",
        "world",
    }:
        return Stated("world_size", count, "ranks", 1)
    if head[0] == "epoch" and words & {"for", "train", "training", "run", "total"} and not words & {"after", "every"}:
        return Stated("epochs", count, "", 1)
    if {"per", "epoch"} <= near or ({"each", "epoch"} <= near):
        if near & VAL or words & VAL:
            return None
        return Stated("batches_per_epoch", count, "batches") if near & (STEP | {"batch", "minibatch"}) else None
    if (
        several
        and near & STEP
        and near & {"total", "training", "train", "optimization"}
        and head.index(next(w for w in head if w in STEP)) <= 2
    ):
        return Stated("total_steps", count, "steps", 1)
    if near & {"parameter", "param"} and value >= 1000:
        return Stated("trainable_parameters" if "trainable" in near else "parameters", count, "", 1)
    if near & {"token"} and near | words & (TRAIN | DATASET) and count >= 10_000 and "per" not in near:
        return Stated("dataset_tokens", count, "tokens", 1)
    nouns = [word for word in head[:3] if word in SAMPLE]
    if nouns and not near & (ALREADY | {"per", "batch"}):
        if (near | words) & VAL and not near & TRAIN:
            return Stated("val_samples", count, "samples")
        if near & TRAIN or words & TRAIN:
            return Stated("train_samples", count, "samples")
        if words & _FOUND:
            return Stated("val_samples" if evaluating else "dataset_samples", count, "samples", 1)
    if head[0] in TRAIN | VAL and words & {"split", "file", "sample", "example", "row", "image", "dataset", "data"}:
        return Stated("train_samples" if head[0] in TRAIN else "val_samples", count, "samples", 1)
    return None
