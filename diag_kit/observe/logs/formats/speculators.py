"""speculators 0.3.0 to 0.9.0: the metric dict of its Trainer, as repr or flattened by its console filter.

Train: ``train/*`` (0.7.0 on: ``profile/*``, 0.9.0: ``memory_mb/*``), ``epoch`` (0-based), ``lr`` (a float, or one per
optimizer), 0.5.0 on ``global_step``. Validation: ``val/*`` with ``_epoch`` behind every key, ``epoch``. On the library's own
rich console only rank 0 prints, and records are wrapped; ``basicConfig`` or a file handler prints every rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import assemble
from diag_kit.observe.logs.numbers import NUMBER
from diag_kit.observe.logs.pairs import Pair, find_dicts

_DICT_HINT = re.compile(r"""\{\s?['"](?:train|val)['"]:\s?\{""")
_KEYS = re.compile(r"(?:loss|full_acc|cond_acc)_\d+(?:_epoch)?\Z|error_records\Z")
_FLAT_START = re.compile(r"(?<![\w/])(?:train|val)/[\w/.-]{1,80}=")
_FLAT_PAIR = re.compile(rf"(?P<key>[A-Za-z][\w/.-]{{0,80}})=(?P<value>{NUMBER})(?P<next>,\s{{1,4}}|(?=[^\w.]|\Z)|(?=20\d\d-))")


@dataclass(frozen=True, slots=True)
class Speculators:
    name: str = "speculators"
    framework: str = "speculators"
    order: int = 10

    def find(self, text: str, line: Line) -> Sequence[Found]:
        named = line.logger.startswith("speculators")
        if "'train'" in text or "'val'" in text or '"train"' in text or '"val"' in text:
            return _dicts(text, named) if _DICT_HINT.search(text) else ()
        if "train/" in text or "val/" in text:
            return _flat(text, named)
        return ()


def _is_record(pairs: Sequence[Pair], named: bool) -> bool:
    """An epoch beside train or val metrics; and, unless the logger's name says so, metrics that only this library has."""
    keys = [pair.key for pair in pairs]
    if "epoch" not in keys:
        return False
    heads = {key.split("/", 1)[0] for key in keys}
    if not heads & {"train", "val"}:
        return False
    return named or "lr" in heads or any(_KEYS.search(key.rsplit("/", 1)[-1]) for key in keys)


def _found(form: str, pairs: Sequence[Pair], start: int, end: int) -> Found:
    split = "val" if any(pair.key.startswith("val/") for pair in pairs) else "train"
    return assemble(form, pairs, start, end, split="val" if split == "val" else "train")


def _dicts(text: str, named: bool) -> list[Found]:
    return [_found("dict", pairs, start, end) for start, end, pairs in find_dicts(text) if _is_record(pairs, named)]


def _flat(text: str, named: bool) -> list[Found]:
    found: list[Found] = []
    begin = _FLAT_START.search(text)
    while begin:
        pairs: list[Pair] = []
        position = begin.start()
        while match := _FLAT_PAIR.match(text, position):
            key = match["key"]
            if pairs and key.startswith(("train/", "val/")) and any(pair.key == "epoch" for pair in pairs):
                break
            pairs.append(Pair(key, match["value"], match.start("value"), match.end("value")))
            position = match.end()
            if not match["next"]:
                break
        if _is_record(pairs, named):
            found.append(_found("flattened", pairs, begin.start(), position))
        begin = _FLAT_START.search(text, max(position, begin.end()))
    return found


FORMAT = Speculators()
