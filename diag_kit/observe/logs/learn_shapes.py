"""Which shapes the metric lines of one log have: learned from samples of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diag_kit.observe.logs.blocks import opens_block
from diag_kit.observe.logs.csv_rows import _header as csv_header
from diag_kit.observe.logs.line_shape import KIND_CLASS, Shape, pattern_of, shape_of
from diag_kit.observe.logs.normalise import decode, is_labelled

MAX_SHAPES = 6
MAX_TRIED = 60
_MAX_LINE = 4000


@dataclass(slots=True)
class _Group:
    shape: Shape
    pattern: re.Pattern[str]
    count: int = 0


def learn(sample: bytes, columns: Sequence[str]) -> tuple[Shape, ...]:
    """The shapes that cover most of the sample, most frequent first; none when the log is of a kind whose lines hang
    together (CSV, ``srun --label``, blocks of several lines, a main line with others beside it)."""
    lines = sample.split(b"\n")[:-1]
    if is_labelled(sample) or not lines or csv_header(decode(lines[0]).strip()):
        return ()
    if any(opens_block((_text(raw) or "").lstrip()) for raw in lines):
        return ()
    groups: dict[tuple[str, ...], _Group] = {}
    known: list[_Group] = []
    tried: dict[str, bool] = {}
    for raw in lines:
        text = _text(raw)
        if text is None or _count_in(known, text):
            continue
        form = re.sub(r"\d+", "0", text)
        if form in tried or len(tried) >= MAX_TRIED:
            continue
        tried[form] = True
        shape = shape_of(text)
        if shape is None:
            continue
        group = groups.get(shape.literals)
        if group is None:
            group = groups[shape.literals] = _Group(shape, re.compile(""))
            known.append(group)
        group.shape = _merged(group.shape, shape)
        group.pattern = re.compile(pattern_of(group.shape, ()))
        group.count += 1
    best = sorted((g for g in known if g.shape.wanted(columns)), key=lambda g: -g.count)[:MAX_SHAPES]
    if any(g.shape.found.level for g in known):
        return ()  # which lines are the main ones shows in the whole log only
    least = max(2, 0.01 * len(lines))
    texts = [text for raw in lines[:: max(1, len(lines) // 300)] if (text := _text(raw)) is not None]
    return tuple(replace(g.shape, usual=_usual(g.shape, texts)) for g in best if g.count >= least)


def _usual(shape: Shape, texts: Sequence[str]) -> tuple[str, ...]:
    pattern = re.compile(pattern_of(shape, shape.holes))
    forms: list[Counter[str]] = [Counter() for _ in shape.holes]
    for text in texts:
        match = pattern.fullmatch(text)
        for counted, value in zip(forms, match.groups() if match else (), strict=False):
            counted[re.sub(r"\d", "9", value)] += 1
    best = [(counted.most_common(1) or [("", 0)])[0] for counted in forms]
    return tuple(form if times >= 0.95 * sum(c.values()) else "" for (form, times), c in zip(best, forms, strict=True))


def _text(raw: bytes) -> str | None:
    if len(raw) > _MAX_LINE or not raw or raw[:1] in b" \t":
        return None
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _count_in(known: Sequence[_Group], text: str) -> bool:
    for group in known:
        if group.pattern.fullmatch(text):
            group.count += 1
            return True
    return False


def _merged(one: Shape, other: Shape) -> Shape:
    """The same literals, and holes wide enough for both."""
    holes = tuple(
        mine if mine.kind == his.kind or mine.kind not in KIND_CLASS else replace(mine, kind="plain")
        for mine, his in zip(one.holes, other.holes, strict=True)
    )
    return replace(one, holes=holes)
