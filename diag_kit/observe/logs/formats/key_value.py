"""Free text with keys and values: ``step 100 loss 2.31``, ``iter 120: loss 5.91, time 612ms``, ``epoch=0/global_step=40``.

The last resort. It never takes a step from a number without a word that says step, and leaves sentences alone.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found, Split
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import CONFIG_KEYS, EPOCH, LR, RANK, STEP, VAL_WORDS, assemble, column_name, is_junk
from diag_kit.observe.logs.pairs import Pair, text_pairs

_HINT = re.compile(r"loss|step|iter|epoch|\bep\b|\bit\b|\blr\b|learning.rate|update", re.IGNORECASE)
NOT_A_RECORD = re.compile(
    r"\b(?:start(?:ed|ing)?|begin(?:ning)?|(?:resum|continu)\w*|sav(?:ed|ing|e)|load(?:ed|ing)?|finish(?:ed)?|done|complete[ds]?|restor\w*"
    r"|checkpoint\w*|warm-?up|cost|took|ended|skipp\w*|total|every|recompil\w*|reached|stopp\w*|per|schedule\w*|will)\b(?!\s?[=:])",
    re.IGNORECASE,
)
_ERROR = re.compile(r"\A(?:[\w.]{0,60}(?:Error|Exception|Warning)|Traceback)\b")
_WORD = re.compile(r"[A-Za-z]+")
_MORE_WORDS = {
    "train", "training", "val", "valid", "validation", "eval", "test", "avg", "average", "mean", "lm", "learning", "grad",
    "total", "data", "batch", "forward", "backward", "step", "iter", "global", "micro", "local", "time",
}  # fmt: skip
_SENTENCE = 25


@dataclass(frozen=True, slots=True)
class KeyValue:
    name: str = "key and value"
    framework: str = ""
    order: int = 100

    def find(self, text: str, line: Line) -> Sequence[Found]:
        if not _HINT.search(text) or text[:1] in ("{", '"') or _ERROR.search(text):
            return ()
        pairs, devices = text_pairs(text)
        _bracketed_steps(text, pairs)
        named = [pair for pair in map(_key, pairs) if pair is not None]
        if not named or not is_record(text, named):
            return ()
        if line.rank is None and len({device.value for device in devices}) == 1:
            named.append(devices[0])
        found = _several(text, named)
        return [
            assemble("key and value", part, part[0].start, part[-1].end, _split(text, part), level=_level(part)) for part in found
        ]


def _level(pairs: Sequence[Pair]) -> int:
    """A counter alone is no main record of a step (it may be what is left of a line that was cut)."""
    names = {column_name(pair.key) for pair in pairs}
    return int(names <= {*STEP, *EPOCH, *RANK})


def _bracketed_steps(text: str, pairs: Sequence[Pair]) -> None:
    """``Epoch: [0][ 10/8862]``: a count in brackets of its own right behind the epoch is the step in it.

    With a percentage inside (``[2560/60000 (4%)]``) it may count samples, and stays nameless.
    """
    for epoch, pair in itertools.pairwise(pairs):
        between = text[epoch.end : pair.start]
        if pair.key or not pair.of or column_name(epoch.key) not in EPOCH or between.strip(" ][") or "[" not in between:
            continue
        if re.match(r"\s{0,8}/\s{0,8}\d+\s?\]", text[pair.end : pair.end + 40]):
            pair.key = "step"


def _key(pair: Pair) -> Pair | None:
    """The pair with its key cut to what names the value; None when nothing does."""
    words = pair.key.replace("  ", " ").split(" ") if pair.key else []
    if not words:
        if "/" in pair.unit:
            pair.key = pair.unit.replace(" ", "").replace("/", "_per_").lower()
            pair.unit = ""
            return pair
        return None
    if is_junk(words[-1]):
        return None
    if not pair.explicit:
        words = words[-2:] if len(words) > 1 and words[-2].lower() in _MORE_WORDS else words[-1:]
    pair.key = _counter(words) or " ".join(words[-6:])
    return pair


def _counter(words: Sequence[str]) -> str:
    """ "Train Epoch" is an epoch, "current global step" a step: counters go by their last words."""
    for count in (2, 1):
        tail = column_name(" ".join(words[-count:]))
        if len(words) > count and (tail in STEP[:12] or tail in EPOCH[:3] or tail in LR[:2] or tail in RANK):
            return tail
    return ""


def is_record(text: str, pairs: Sequence[Pair]) -> bool:
    """Enough to be a metric record, and not a sentence about steps or epochs."""
    names = {column_name(pair.key) for pair in pairs}
    has_loss = any("loss" in name and "scale" not in name for name in names)
    has_step = bool(names & set(STEP))
    counters = has_step or bool(names & set(EPOCH))
    counters = counters or bool(names & set(LR))
    metrics = [name for pair in pairs if (name := column_name(pair.key)) not in {*STEP, *EPOCH, *RANK} and name not in LR]
    words = len(_WORD.findall(text))
    if has_loss and (counters or len(names) > 1 or (column_name(pairs[0].key).endswith("loss") and words <= 8)):
        told = NOT_A_RECORD.match(text) and sum(pair.explicit for pair in pairs) < 3
        return not (told or words > _SENTENCE + 3 * len(pairs))
    head = text[: pairs[0].start + 60]
    if NOT_A_RECORD.search(head) or words > 8 + 3 * len(pairs) or names & CONFIG_KEYS:
        return False
    if has_step:
        return bool(metrics) or (pairs[0].start < 40 and _split(text, pairs) is None)
    return counters and sum("." in pair.value or "e" in pair.value for pair in pairs) >= 2


def _several(text: str, pairs: Sequence[Pair]) -> list[list[Pair]]:
    """Two records on one line: the counter that opened the first comes again."""
    first = column_name(pairs[0].key)
    starts = [i for i, pair in enumerate(pairs) if column_name(pair.key) == first]
    if first not in {*STEP, *EPOCH} or len(starts) < 2:
        return [list(pairs)]
    parts = [list(pairs[a:b]) for a, b in zip(starts, [*starts[1:], len(pairs)], strict=True)]
    return parts if all(len(part) > 1 for part in parts) else [list(pairs)]


def _split(text: str, pairs: Sequence[Pair]) -> Split | None:
    if text.startswith(("Acc@", "Prec@", "acc@")):  # the end of a validation in scripts like the ImageNet example
        return "val"
    opening = [word.lower() for word in _WORD.findall(text[: pairs[0].end])[:3]]
    if any(word in VAL_WORDS for word in opening) and not any(word.startswith("train") for word in opening):
        return "val"
    return None


FORMAT = KeyValue()
