"""Start-up facts: what a log states about the run before and beside its metric records.

A statement is a noun phrase with a number: ``Train files: 35446``, ``Num examples = 35,446``, ``batch_size=32``, ``Found 50,000
training images``. Its words decide what it means, not the exact sentence. Percentages, rates and times are no facts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.numbers import to_float
from diag_kit.records import Fact

MAX_TEXT = 4000
_NUMBER = r"\d{1,3}(?:,\d{3})+(?![\d,])|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_KEY_FIRST = re.compile(
    rf"(?P<key>[A-Za-z](?:[A-Za-z0-9_./'&-]|[ (][A-Za-z(&,]|[,)] ?(?=[a-zA-Z&)])|\)){{0,90}}?)(?:\s*[:=]+>?\s*|\s+(?:is|are|of|->)\s+)"
    rf"(?P<value>{_NUMBER})(?P<after>%|/\S+|\s?(?:ms|s|sec|secs|seconds|min|h|[GMK]i?B)(?![\w/]))?(?![\w.]*/\S*s\b)"
)
_NUMBER_FIRST = re.compile(
    rf"(?<![\w.,/-])(?P<value>{_NUMBER})\s+(?P<key>(?:[A-Za-z-]+\s+){{0,3}}?"
    r"(?:samples|examples|files|images|rows|sequences|documents|records|sentences|prompts|batches(?:\s+per\s+epoch)?"
    r"|epochs|processes|gpus|ranks|workers))\b(?!\s*/|\s+(?:per|each)\s+(?!epoch))",
    re.IGNORECASE,
)
_LENGTH = re.compile(rf"len\(\s*(?P<key>[\w.]+)\s*\)\s*[:=]*\s*(?P<value>{_NUMBER})")
_STARTED = re.compile(r"(?i)\bstarted distributed\b.*?\b(?:local_)?rank\s*[=: ]\s*(?P<rank>\d{1,6})")
_MEMBER = re.compile(r"(?i)\bGLOBAL_RANK:\s*\d+,\s*MEMBER:\s*\d+/(?P<value>\d{1,6})")
_STARTING_WITH = re.compile(r"(?i)\bstarting with (?P<value>\d{1,6}) (?:processes|ranks|workers|gpus)")
_RESUMED = re.compile(r"(?i)\bresum\w*\b.*?\b(?:global[_ ]step|step|iteration|iter)s?\b\W{0,4}(?P<value>\d[\d,]*)")
_WORD = re.compile(r"[a-z]+")

_SAMPLES = {"samples", "sample", "examples", "example", "files", "images", "rows", "sequences", "documents", "records", "sentences",
            "prompts", "datapoints", "instances", "items", "utterances", "clips"}  # fmt: skip
_VAL = {"val", "valid", "validation", "eval", "evaluation", "test", "dev", "heldout", "holdout"}
_TRAIN = {"train", "training", "trn"}
_STEPS = {"steps", "step", "iterations", "iters", "iter", "updates", "batches", "minibatches"}
_NOISE = {"per", "sec", "second", "seconds", "s", "time", "ms", "loss", "acc", "accuracy", "speed", "throughput", "rate", "tokens", "elapsed",
          "remaining", "eta", "memory", "mem", "gb", "mb"}  # fmt: skip
_NOT_STEPS = {"warmup", "warm", "accumulation", "accumulate", "logging", "log", "save", "saving", "checkpoint", "eval", "every", "interval",
              "frequency", "freq", "decay", "ttt", "resume", "current", "start"}  # fmt: skip


@dataclass(slots=True)
class StartUp:
    """Facts so far. ``generic``: sample counts that do not say train or val; they count only where nothing else does."""

    stated: list[Fact] = field(default_factory=list)
    generic: list[Fact] = field(default_factory=list)
    started: set[int] = field(default_factory=set)
    _seen: set[tuple[str, float]] = field(default_factory=set)
    _started_where: str = ""

    def begin_file(self) -> None:
        """Another file may state the same again; a fact is kept once for each value."""

    def take(self, line: Line, file: str, *, before_metrics: bool) -> None:
        """Read one logical line that is no metric record."""
        text = line.text[:MAX_TEXT]
        if not any(character.isdigit() for character in text):
            return
        where = f"{file} line {line.last}"
        started = _STARTED.search(text)
        if started:
            self.started.add(int(started["rank"]))
            self._started_where = self._started_where or where
        for name, value, key in statements(text):
            self._add(name, value, f"{where}: {key}" if key else where)
        if not before_metrics:
            return
        for name, pattern in (("world_size", _MEMBER), ("world_size", _STARTING_WITH), ("resume_step", _RESUMED)):
            found = pattern.search(text)
            if found and (number := to_float(found["value"])) is not None:
                self._add(name, number, where)

    def _add(self, name: str, value: float, source: str) -> None:
        if (name, value) in self._seen or len(self._seen) > 2000:
            return
        self._seen.add((name, value))
        number = int(value) if float(value).is_integer() else value
        if name == "samples":
            self.generic.append(Fact("train_samples", number, source, "samples"))
        else:
            self.stated.append(Fact(name, number, source, _UNITS.get(name, "")))

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All facts, in the order in which they were stated."""
        found = list(self.stated)
        if self.generic and not any(fact.name == "train_samples" for fact in found):
            found.append(self.generic[0])
        if self.started:
            found.append(Fact("started_ranks", len(self.started), f"{self._started_where} and others like it", "ranks"))
        return tuple(found)


_UNITS = {
    "train_samples": "samples",
    "val_samples": "samples",
    "batches_per_epoch": "batches",
    "updates_per_epoch": "steps",
    "total_steps": "steps",
    "warmup_steps": "steps",
    "world_size": "ranks",
    "batch_size_per_rank": "samples",
    "global_batch_size": "samples",
}


def statements(text: str) -> Iterator[tuple[str, float, str]]:
    """(fact name or "samples", value, key as printed) of every statement in a text."""
    taken: list[tuple[int, int]] = []
    for pattern in (_LENGTH, _KEY_FIRST, _NUMBER_FIRST):
        for found in pattern.finditer(text):
            if any(start < found.end("value") and found.start("value") < end for start, end in taken):
                continue
            value = to_float(found["value"])
            after = found.groupdict().get("after")
            key = found["key"].strip()
            if value is None or after:
                continue
            name = meaning(f"len {key}" if pattern is _LENGTH else key)
            if name is not None and _plausible(name, value):
                taken.append(found.span("value"))
                yield name, value, key


def _plausible(name: str, value: float) -> bool:
    if name == "base_lr":
        return 0 < value < 10
    return value.is_integer() and (value >= 1 or name in ("num_workers", "warmup_steps"))


def meaning(key: str) -> str | None:
    """What a key names: a fact, "samples" for a count of samples that says no more, or None."""
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key).lower()
    words = _WORD.findall(plain.replace("_", " ").replace("mini-batch", "minibatch"))
    have = set(words)
    if not words or len(words) > 14:
        return None
    for rule in (_parallel, _batch, _steps, _counts):
        name = rule(plain, words, have)
        if name:
            return None if name == "nothing" else name
    return None


def _parallel(plain: str, words: list[str], have: set[str]) -> str | None:
    if {"world", "size"} <= have or plain in ("world", "num_processes", "nproc_per_node", "num_gpus", "n_gpus", "ngpus", "world_size"):
        return "world_size"
    if have & {"num", "number"} and have & {"processes", "gpus", "devices", "ranks"} and not have & {"per"}:
        return "world_size"
    for kind in ("data", "tensor", "pipeline", "context", "sequence"):
        if {kind, "parallel"} <= have:
            return f"{kind}_parallel_size"
    if have & {"workers"} and have & {"num", "number", "loader", "dataloader", "workers"}:
        return "num_workers"
    if plain in ("lr", "learning_rate", "learning rate", "base_lr", "base lr", "peak_lr", "max_lr"):
        return "base_lr"
    return None


def _batch(plain: str, words: list[str], have: set[str]) -> str | None:
    if have & {"accumulation", "accumulate", "accum"} and not {"batch", "size"} <= have:
        return "accumulation_steps" if have & {"gradient", "grad", "accumulation", "accum", "steps"} else None
    if not ({"batch", "size"} <= have or "batchsize" in have or plain in ("bs", "micro_batch", "batch")):
        return None
    if have & _VAL:
        return "nothing"
    if have & {"total", "global", "effective", "overall"}:
        return "global_batch_size"
    return "batch_size_per_rank"


def _steps(plain: str, words: list[str], have: set[str]) -> str | None:
    if plain.replace("-", "_").replace(" ", "_") in ("log_freq", "logging_steps", "log_every", "log_interval", "log_every_n_steps", "print_freq"):
        return "log_every_steps"
    if have & {"warmup"} and have & _STEPS:
        return "warmup_steps"
    loader = "len" in have and have & {"loader", "dataloader", "batches"}
    per_epoch = "epoch" in have and have & _STEPS
    if loader or per_epoch or (have & {"loader", "dataloader"} and have & {"length", "batches", "size"}):
        if have & _VAL:
            return "nothing"
        return "updates_per_epoch" if have & {"update", "updates", "optimizer", "optimization"} else "batches_per_epoch"
    if have & {"batches", "minibatches"} and have & (_TRAIN | {"num", "number"}) and not have & _VAL:
        return "batches_per_epoch"
    if have & _STEPS and have & {"total", "max", "optimization", "num", "number", "training", "train"} and not have & (_NOT_STEPS | _VAL):
        return "total_steps" if have & {"steps", "iterations", "iters", "iter", "updates"} and "batches" not in have else None
    if "epochs" in have and not have & (_NOT_STEPS | _VAL | {"completed", "done", "left"}):
        return "epochs"
    return None


def _counts(plain: str, words: list[str], have: set[str]) -> str | None:
    dataset = bool(have & {"dataset", "datasets", "data", "set"}) and bool(have & {"size", "length", "len"})
    if not (have & _SAMPLES or dataset) or have & _NOISE:
        return None
    if have & {"skipped", "dropped", "filtered", "removed", "seen", "processed", "consumed", "max", "limit", "shards", "cached", "epoch"}:
        return None
    if have & _VAL:
        return "val_samples"
    return "train_samples" if have & _TRAIN else "samples"
