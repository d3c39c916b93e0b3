"""Formats as data: a head that tells the line, then fields; or a dict that has certain keys."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from diag_kit.observe.logs.fields import MARKED, Field, Number, Record, fields
from diag_kit.observe.logs.found import Found, Split
from diag_kit.observe.logs.line import Line, RankKind
from diag_kit.observe.logs.meaning import UNKNOWN, Meaning
from diag_kit.observe.logs.names import VAL_WORDS
from diag_kit.observe.logs.pairs import find_dicts

_COUNTERS = ("rank", "epoch", "step", "micro_step")
_NOT_COLUMNS = {"split", "steps", "epochs", "run_steps", "samples", "summary"}


@dataclass(frozen=True)
class LineFormat:
    """``gate``: substrings that must all be there (the cheap test). ``heads``: the first that is found anywhere; its named
    groups become columns (``epoch``, ``step``, ...), but ``epochs`` and ``steps`` are totals (``run_steps`` of the run, where an
    epoch stands beside it; ``samples`` of the data) and ``split`` tells validation. Behind it the fields up to the next head
    or the end. ``columns``: printed key (lower case) -> column, "" drops it. ``extras``: further places, their groups named as
    columns. ``need``: at least one of these columns must be there, or it is no record; ``bare``: counters alone make one.
    ``from_bar``, or a group ``summary`` in the head: it repeats what others say, and is kept only where a log has no others.
    """

    name: str
    framework: str
    gate: tuple[str, ...]
    heads: tuple[re.Pattern[str], ...]
    columns: Mapping[str, str] = field(default_factory=dict)
    extras: tuple[re.Pattern[str], ...] = ()
    need: frozenset[str] = frozenset()
    meaning: Meaning = UNKNOWN
    form: re.Pattern[str] = MARKED
    order: int = 30
    from_bar: bool = False
    rank_kind: RankKind = ""
    whole_loss: bool = False
    bare: bool = False
    strip: tuple[str, ...] = ()
    """Words that stand in front of every key and are no part of it."""

    def find(self, text: str, line: Line) -> Sequence[Found]:
        for word in self.gate:
            if word not in text:
                return ()
        for pattern in self.heads:
            heads = list(pattern.finditer(text))
            if heads:
                ends = [head.start() for head in heads[1:]] + [len(text)]
                return [found for head, end in zip(heads, ends, strict=True) if (found := self._record(text, head, end))]
        return ()

    def _record(self, text: str, head: re.Match[str], end: int) -> Found | None:
        record = Record()
        put_groups(record, head)
        for extra in self.extras:
            place = extra.search(text, head.end(), end)
            if place:
                put_groups(record, place)
        for one in fields(text, head.end(), end, self.form):
            record.add(self._bare(one), self.columns)
        if self.need and not self.need & record.cells.keys():
            return None
        if not self.bare and not record.cells.keys() - set(_COUNTERS):
            return None
        return record.found(
            self.name,
            head.start(),
            split_of_word(head),
            end=head.end(),
            step_of=total(head, "steps"),
            epoch_of=total(head, "epochs"),
            from_bar=self.from_bar or head.groupdict().get("summary") is not None,
            rank_kind=self.rank_kind if "rank" in record.cells else "",
            run_steps=total(head, "run_steps"),
            counts=self.meaning.counts,
            samples_of=total(head, "samples"),
            whole_loss=self.whole_loss,
        )

    def _bare(self, one: Field) -> Field:
        for word in self.strip:
            if one.key.startswith(word) and len(one.key) > len(word):
                return replace(one, key=one.key[len(word) :])
        return one


def put_groups(record: Record, head: re.Match[str]) -> None:
    """The named groups of a head that are numbers, under their names."""
    for name, value in head.groupdict().items():
        if value is not None and name not in _NOT_COLUMNS:
            record.put(name, Number(value, head.start(name), head.end(name), duration=":" in value))


def total(head: re.Match[str], group: str) -> int | None:
    """A total that stands behind a counter; None where none is printed."""
    value = head.groupdict().get(group)
    digits = (value or "").replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) < 16 else None


def split_of_word(head: re.Match[str]) -> Split:
    """What the head's group ``split`` says."""
    word = head.groupdict().get("split") or ""
    return "val" if word.lower().strip("_ ") in VAL_WORDS else "train"


@dataclass(frozen=True)
class DictFormat:
    """One JSON object or Python dict per record. ``keys``: all must be there. ``columns``: key -> column, "" drops it."""

    name: str
    framework: str
    gate: tuple[str, ...]
    keys: frozenset[str]
    columns: Mapping[str, str]
    totals: Mapping[str, str] = field(default_factory=dict)
    """Key of a total -> the counter it belongs to ("step": of the whole run; or "epoch")."""
    meaning: Meaning = UNKNOWN
    order: int = 20
    val_keys: frozenset[str] = frozenset()
    """One of these makes it a validation record."""

    def find(self, text: str, line: Line) -> Sequence[Found]:
        for word in self.gate:
            if word not in text:
                return ()
        made: list[Found] = []
        for start, end, pairs in find_dicts(text):
            keys = {pair.key for pair in pairs}
            if not self.keys <= keys:
                continue
            record = Record()
            totals: dict[str, int] = {}
            for pair in pairs:
                if pair.key in self.totals and pair.value.isdecimal() and len(pair.value) < 16:
                    totals[self.totals[pair.key]] = int(pair.value)
                    continue
                number = Number(pair.value, pair.start, pair.end, duration=pair.duration)
                column = self.columns.get(pair.key, pair.key if not pair.duration else f"{pair.key}_s")
                record.put(column, number)
            split: Split = "val" if self.val_keys & keys else "train"
            steps, epochs = totals.get("step"), totals.get("epoch")
            counts = self.meaning.counts
            made.append(record.found(self.name, start, split, end=end, run_steps=steps, epoch_of=epochs, counts=counts))
        return made
