"""Lines of keys and numbers that no format knows: held back until their behaviour over the log says that they are records.

A line is a candidate when fields (``key=value``, ``key: value``, a JSON object or a Python dict) make up most of it. Lines
with the same keys make a shape; ``counts_up`` tells whether one of its columns is a counter, and only then its rows are
shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diag_kit.observe.logs.fields import Number, Record, fields
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.names import CONFIG_KEYS, EPOCH, LR, MICRO_STEP, RANK, STEP, VAL_WORDS, column_name, split_of
from diag_kit.observe.logs.pairs import find_dicts

MIN_ROWS = 5
MIN_COVER = 0.6
"""Share of the line that keys and values must make up."""
STRIDE_SHARE = 0.8
BACK_SHARE = 0.05
LONGEST_STRIDE = 1000
"""Records further apart than this are not steps that a loop counts, but samples, tokens or bytes."""
_NO_STEP = re.compile(
    r"token|sample|seq|example|image|frame|byte|time|elapsed|sec|second|hour|minute|eta|mem|_mb|_gb|mib|gib|epoch|\blr\b|seed|rank|port|pid"
    r"|loss|acc|size|len|params|total|max|version|year|day|gpu|cuda|device|node|worker|shard|file|chunk|layer|fold|attempt|retr|row|line|block|stage|phase|id\b|_id",
    re.IGNORECASE,
)
_COUNTED = {"step", "epoch", "lr", "rank"}
_OPENING = re.compile(r"[A-Za-z]{1,20}")
_STEP_WORD = re.compile(
    r"(?:\A|[_/. ])(?:step|steps|iter|iters|iteration|it|itr|update|updates|n|i|idx|batch|num_batches|k|s)\Z", re.IGNORECASE
)


def guess(text: str) -> Found | None:
    """The fields of a line that may be a record; None when it is mostly something else, or a configuration."""
    if ("=" not in text and ":" not in text) or len(text) > 4000:
        return None
    record = Record()
    keys: list[str] = []
    covered = 0
    if text[:1] == "{":
        for start, end, pairs in find_dicts(text)[:1]:
            covered = end - start
            for pair in pairs:
                keys.append(pair.key)
                record.put(_canonical(pair.key), Number(pair.value, pair.start, pair.end, duration=pair.duration))
    else:
        begin = 0
        for one in fields(text, 0, len(text)):
            keys.append(one.key)
            record.add(one, {one.key.lower(): name} if (name := _canonical(one.key)) in _COUNTED else {})
            covered += one.end - max(begin, one.value.start - len(one.key) - 3)
            begin = one.end
    if len(record.cells) < 2 or covered < MIN_COVER * len(text) or record.cells.keys() & CONFIG_KEYS:
        return None
    opening = _OPENING.match(text)
    split = "val" if opening and opening[0].lower() in VAL_WORDS else split_of(keys)
    return record.found("learned from the log", 0, split, end=len(text))


def _canonical(key: str) -> str:
    name = column_name(key)
    for column, names in (("step", STEP), ("epoch", EPOCH), ("lr", LR), ("rank", RANK)):
        if name in names:
            return column
    return name


@dataclass(frozen=True, slots=True)
class Counter:
    """A column that counts: ``stride`` between two records, and by which of name and behaviour it was told."""

    column: str
    stride: int
    named: bool


def counts_up(values: np.ndarray) -> int | None:
    """The stride of a counter: whole numbers, that rise by the same amount in most records; None when it is none.

    Several ranks may print every step, a little out of order, and a run may begin anew.
    """
    if len(values) < MIN_ROWS or not np.isfinite(values).all() or (values != np.floor(values)).any() or (values < 0).any():
        return None
    distinct = np.unique(values)
    if len(distinct) < MIN_ROWS - 1:
        return None
    gaps, times = np.unique(np.diff(distinct), return_counts=True)
    stride = float(gaps[times.argmax()])
    if times.max() < STRIDE_SHARE * times.sum() or stride > LONGEST_STRIDE:
        return None
    behind = values < np.maximum.accumulate(values) - 3 * stride
    falls = int((np.diff(behind.astype(np.int8)) == 1).sum())
    return int(stride) if falls <= max(1, BACK_SHARE * len(values)) and behind.mean() < 0.5 else None


def step_counter(columns: Mapping[str, np.ndarray], known: Sequence[str] = STEP) -> Counter | None:
    """Which column counts the steps: told by what it does, and by its name where several do; None when it stays open.

    Of several with no telling name the one with most distinct values, then with the smallest stride: samples rise with steps, but
    by more.
    """
    found: list[tuple[bool, int, int, str]] = []
    for name, values in columns.items():
        if name.lower() in EPOCH or name.lower() in MICRO_STEP[:3]:
            continue
        named = name.lower() in known or bool(_STEP_WORD.search(name))
        if _NO_STEP.search(name) and not named:
            continue
        stride = counts_up(values)
        if stride is not None:
            found.append((named, len(np.unique(values)), -stride, name))
    if not found:
        return None
    named, distinct, stride, name = max(found)
    if not named and sum(1 for each in found if each[:3] == (named, distinct, stride)) > 1:
        return None
    return Counter(name, -stride, named)


def is_elapsed(values: np.ndarray) -> bool:
    """Whether a column is the time since the start: it never falls but where a run begins anew, and most records are later."""
    known = values[np.isfinite(values)]
    if len(known) < MIN_ROWS or (known < 0).any():
        return False
    steps = np.diff(known)
    return bool((steps < 0).sum() <= max(1, BACK_SHARE * len(steps)) and (steps > 0).mean() > 0.5)
