"""The words of start-up messages: a phrase and its number reduced to what the rules of ``fact_rules`` ask about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

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
BATCH = {"batch", "minibatch"}
DATASET = {"dataset", "data", "datum", "corpus", "set", "split", "trainset"}
LOADER = {"loader", "dataloader", "trainloader"}
DEVICE = {"process", "gpu", "rank", "replica", "device"}
LARGEST = {"max", "maximum"}
COUNT = {"count", "number", "num", "n", "nb", "total", "#", "amount"}
SIZE = {"size", "length", "len", "volume"} | COUNT
ALREADY = {
    "consumed", "seen", "processed", "skip", "skipped", "done", "saved", "saving", "wrote", "written", "logged", "generated",
    "cached", "dropped", "removed", "filtered", "failed", "current", "completed", "finished", "elapsed", "remaining",
    "shuffle", "buffer", "prefetch", "second", "sec", "max", "maximum", "min", "minimum", "limit", "suggested", "first",
    "processing", "reading", "writing", "copying", "queue", "retry", "attempt", "checkpoint", "after", "every",
}  # fmt: skip
"""Words of counts that go on while it runs, or of limits: no statement about the whole."""

ASIDE = {
    "showing",
    "show",
    "here",
    "random",
    "displaying",
    "plotting",
    "visualizing",
    "profiling",
    "profile",
    "profiler",
    "active",
    "compile",
    "compiling",
    "ran",
    "sanity",
    "benchmark",
    "benchmarking",
    "estimated",
    "eta",
    "time",
    "took",
    "patience",
    "last",
    "warmup",
    "improvement",
    "retry",
    "oom",
    "trying",
    "try",
    "reducing",
    "increasing",
    "supported",
    "found",
    "without",
}
"""Words of remarks beside the run: an excerpt, a trial, a limit of something, a forecast."""
ELSEWHERE = {"per", "each", "every", "thread", "omp", "max", "maximum", "visible", "available", "free", "memory", "mem", "local"}
"""A count of devices or processes beside one of these is of a part, or of what could be used."""
DURATIONS = {"s", "sec", "second", "ms", "us", "min", "minute", "h", "hr", "hour", "day"}

_SPLIT = re.compile(r"[^A-Za-z0-9#]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)")
_STEPS = re.compile(r"(?:steps|iterations|iters|updates)\b", re.IGNORECASE)
_PER = re.compile(r"(?<=\w)/(?=epoch|step|rank|gpu)", re.IGNORECASE)
_EPOCHS = re.compile(r"(?:^|[\s_/])epochs$", re.IGNORECASE)
_PLURAL = re.compile(r"s$", re.IGNORECASE)
_COUNTED = SAMPLE | STEP | BATCH | DEVICE | {"epoch", "worker", "node", "shard", "loader"}
_IRREGULAR = {"processes": "process", "batches": "batch", "minibatches": "minibatch", "entries": "entry"}
_ENDS_IN_S = {"loss", "bias", "pass", "class", "process", "this", "has", "cls", "pos", "gas"}


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact's name, its value and unit, and how plainly it was said (2 plain, 1 unqualified)."""

    name: str
    value: int | float
    unit: str = ""
    strength: int = 2


NOTHING = Stated("", 0)
"""A rule's answer for a phrase that is known to state none of the facts, so that no later rule guesses."""


def words_of(phrase: str) -> list[str]:
    """Lower-case words, plural "s" taken off, ``trainLoader`` and ``train_loader`` taken apart."""
    return [_singular(word.lower()) for word in _SPLIT.split(phrase) if word]


def _singular(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    return word[:-1] if len(word) > 3 and word.endswith("s") and word not in _ENDS_IN_S else word


@dataclass(frozen=True, slots=True)
class Phrase:
    """``words`` before a number, ``after`` it, and the number.

    ``whole``: the value where it is a positive whole number, else None. ``steps_before``/``steps_after``: steps, iterations
    or updates in the plural; ``epochs_before``: it ends in "epochs". ``evaluating``: it stands under a banner of an evaluation.
    ``index``: it is one of many, not a count ("GPU 0", "for file 12"): a thing in the singular, and neither "=" nor ":".
    """

    ordered: tuple[str, ...]
    words: frozenset[str]
    after: tuple[str, ...]
    value: float
    steps_before: bool
    epochs_before: bool
    steps_after: bool
    evaluating: bool
    index: bool

    @classmethod
    def of(cls, before: str, after: Sequence[str], value: float, evaluating: bool, explicit: bool = True) -> Phrase:
        ordered = tuple(words_of(before))
        behind = _PER.sub(" per ", " ".join(after[:6]))
        plural = bool(_STEPS.search(before)), bool(_EPOCHS.search(before)), bool(_STEPS.search(" ".join(after[:4])))
        numbered = bool(ordered) and ordered[-1] in _COUNTED and not explicit and not _PLURAL.search(before.strip())
        index = numbered and not set(ordered) & {"num", "number", "n", "per"}
        return cls(ordered, frozenset(ordered), tuple(words_of(behind)), value, *plural, evaluating, index)

    @property
    def whole(self) -> int | None:
        return int(self.value) if self.value == int(self.value) and 1 <= self.value < 2**62 else None

    def behind(self, *names: str) -> set[str]:
        """The words between the last of these names and the number; all words where none of them stands."""
        last = max((place for place, word in enumerate(self.ordered) if word in names), default=-1)
        return set(self.ordered[last + 1 :])

    def has(self, *groups: set[str]) -> bool:
        """A word of each group stands before the number."""
        return all(self.words & group for group in groups)

    def lacks(self, *groups: set[str]) -> bool:
        """No word of any group stands before the number."""
        return not any(self.words & group for group in groups)
