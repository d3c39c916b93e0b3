"""What the metric lines of one log look like, learned with the kit's own parser, so that a host can pick the numbers out.

A shape is a physical line with holes. It is only taken when putting other numbers into the holes makes the parser say just
what the holes say: then shipping the holes is as good as shipping the line. Whatever a shape does not fit is shipped as it is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diag_kit.observe.logs.bars import find_bars
from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.normalise import _RICH_HEAD, logical_lines
from diag_kit.observe.logs.reading import _with_rank, find_records
from diag_kit.observe.logs.stamps import STAMP, read_stamp

STAMP_COLUMN, RANK_COLUMN = "=stamp", "=rank"
ALWAYS = ("rank", "epoch", "step", "micro_step", "lr")
_INT = re.compile(r"\d+\Z")
_DECIMAL = re.compile(r"-?\d+\.\d+\Z")
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?\Z")
_STAMPS = {
    8: "[0-2][0-9]:[0-5][0-9]:[0-5][0-9]",
    19: "20[0-9][0-9]-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-5][0-9]:[0-5][0-9]",
}
KIND_CLASS = {
    "int": "[0-9]+",
    "decimal": "-?[0-9]+[.][0-9]+",
    "plain": "-?[0-9]+([.][0-9]+)?(e[-+]?[0-9]+)?",
}
_OTHER = {"int": "57", "decimal": "63.125", "plain": "7.5e-03"}


@dataclass(frozen=True, slots=True)
class Hole:
    """One number of a line: the columns that it fills, where it stands in the example, and what it may be."""

    columns: tuple[str, ...]
    start: int
    end: int
    kind: str

    @property
    def pattern(self) -> str:
        """A regular expression that Python and every awk read alike: no braces, no classes by name."""
        return KIND_CLASS.get(self.kind, self.kind)


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of metric line. ``rank`` None with no rank hole: lines of this shape carry none."""

    example: str
    holes: tuple[Hole, ...]
    found: Found
    framework: str
    line: Line
    usual: tuple[str, ...] = ()
    """For each hole the usual form ("9.9999"), empty where none is: most lines can then be cut by place."""

    @property
    def literals(self) -> tuple[str, ...]:
        """What stands before, between and behind the holes."""
        edges = [0, *(place for hole in self.holes for place in (hole.start, hole.end)), len(self.example)]
        return tuple(self.example[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True))

    def wanted(self, columns: Sequence[str]) -> tuple[Hole, ...]:
        """The holes that are asked for, with those that every row needs."""
        names = {STAMP_COLUMN, RANK_COLUMN, *ALWAYS, *self.found.lr_columns, *columns}
        return tuple(hole for hole in self.holes if names & set(hole.columns))

    def filled(self, texts: Sequence[str]) -> str:
        """The example with other numbers."""
        between = zip(self.literals, (*texts, ""), strict=True)
        return "".join(part + text for part, text in between)


def pattern_of(shape: Shape, wanted: Sequence[Hole]) -> str:
    """A Python regular expression for the whole line, with a group for each wanted hole."""
    parts = [re.escape(shape.literals[0])]
    for hole, literal in zip(shape.holes, shape.literals[1:], strict=True):
        inner = hole.pattern.replace("(", "(?:")
        parts += [f"({inner})" if hole in wanted else f"(?:{inner})", re.escape(literal)]
    return "".join(parts)


def _read(text: str) -> tuple[Line, Found, str] | None:
    """The one record of a line that holds nothing else, by the full parser; None for anything more involved."""
    if _RICH_HEAD.match(text):
        return None
    lines = list(logical_lines(text.encode() + b"\n"))
    if len(lines) != 1 or not text.endswith(lines[0].text) or lines[0].rich or find_bars(lines[0].text):
        return None
    line = lines[0]
    found = find_records(line.text, line)
    if len(found) != 1 or found[0][0].from_bar or line.stamp_kind == "container":
        return None
    return line, _with_rank(found[0][0], line.text, line), found[0][1]


def shape_of(text: str) -> Shape | None:
    """The shape of one line, proved by reading it again with other numbers."""
    read = _read(text)
    if read is None:
        return None
    line, found, framework = read
    offset = len(text) - len(line.text)
    holes: dict[tuple[int, int], list[str]] = {}
    for cell in found.cells:
        if cell.duration or line.text[cell.start : cell.end] != cell.text:
            return None
        holes.setdefault((cell.start + offset, cell.end + offset), []).append(cell.column)
    made = [_hole(text, span, columns) for span, columns in holes.items()]
    front = _front_holes(text[:offset], line)
    if front is None or None in made:
        return None
    ordered = sorted([*front, *(hole for hole in made if hole)], key=lambda hole: hole.start)
    if any(a.end >= b.start for a, b in itertools.pairwise(ordered)):
        return None
    for candidate in _with_rank_hole(text, offset, line, ordered):
        shape = Shape(text, tuple(candidate), found, framework, line)
        if _is_proved(shape):
            return shape
    return None


def _hole(text: str, span: tuple[int, int], columns: Sequence[str]) -> Hole | None:
    value = text[span[0] : span[1]]
    for kind, pattern in (("int", _INT), ("decimal", _DECIMAL), ("plain", _PLAIN)):
        if pattern.match(value):
            return Hole(tuple(columns), *span, kind)
    return None


def _front_holes(prefix: str, line: Line) -> list[Hole] | None:
    """The time stamp in front of the message; None when it is of a kind that is not shipped."""
    if line.stamp_us is None:
        return []
    for match in STAMP.finditer(prefix):
        if match.lastgroup not in ("tod", "iso") or (match.lastgroup == "tod" and match["tp"]):
            continue
        end = match.end() - len(match["iz"] or "")
        width = end - match.start()
        base = 8 if match.lastgroup == "tod" else 19
        if width < base or match["iz"] or text_of(prefix, match.start(), base)[base - 3] != ":":
            continue
        tail = prefix[match.start() + base : end]
        pattern = _STAMPS[base] + (f"[{tail[0]}]" + "[0-9]" * (len(tail) - 1) if tail else "")
        if re.fullmatch(pattern, prefix[match.start() : end]):
            return [Hole((STAMP_COLUMN,), match.start(), end, pattern)]
    return None


def text_of(text: str, start: int, size: int) -> str:
    """A part of a text that is as long as asked, filled up with blanks."""
    return text[start : start + size].ljust(size)


def _with_rank_hole(text: str, offset: int, line: Line, holes: list[Hole]) -> Iterator[list[Hole]]:
    """With the number in the prefix that is the rank, whichever it is: the proof tells."""
    if line.rank is None:
        yield holes
        return
    for match in re.finditer(r"\d+", text[:offset]):
        if int(match[0]) == line.rank and not any(h.start < match.end() and match.start() < h.end for h in holes):
            rank = Hole((RANK_COLUMN,), match.start(), match.end(), "int")
            merged = sorted([*holes, rank], key=lambda hole: hole.start)
            if all(a.end < b.start for a, b in itertools.pairwise(merged)):
                yield merged


def _is_proved(shape: Shape) -> bool:
    """Read the line again with other numbers in all holes: the parser must say just those."""
    return all(_says(shape, texts) for texts in (_numbers(shape, 0), _numbers(shape, 1)))


def _numbers(shape: Shape, turn: int) -> list[str]:
    texts = []
    for index, hole in enumerate(shape.holes):
        if hole.columns == (STAMP_COLUMN,):
            old = shape.example[hole.start : hole.end]
            texts.append(old if turn else _other_stamp(old))
        elif hole.columns == (RANK_COLUMN,):
            texts.append(str(11 + turn))
        else:
            other = _OTHER[hole.kind]
            texts.append(other if turn else f"{index + 2}{other[1:] if hole.kind == 'plain' else other}")
    return texts


def _other_stamp(old: str) -> str:
    place = old.find(":")
    return old[: place - 2] + "03:14:15" + old[place + 6 :]


def _says(shape: Shape, texts: Sequence[str]) -> bool:
    text = shape.filled(texts)
    read = _read(text)
    if read is None:
        return False
    line, found, framework = read
    was = shape.found
    same = (found.form, found.split, found.lr_columns, found.step_of, found.epoch_of, found.rank_kind, framework)
    if same != (was.form, was.split, was.lr_columns, was.step_of, was.epoch_of, was.rank_kind, shape.framework):
        return False
    if (line.rank_kind, line.stamp_kind) != (shape.line.rank_kind, shape.line.stamp_kind):
        return False
    said: dict[str, str] = {cell.column: cell.text for cell in found.cells}
    if tuple(said) != tuple(cell.column for cell in was.cells):
        return False
    for hole, value in zip(shape.holes, texts, strict=True):
        if hole.columns == (RANK_COLUMN,):
            if line.rank != int(value):
                return False
        elif hole.columns != (STAMP_COLUMN,) and any(said[column] != value for column in hole.columns):
            return False
        elif hole.columns == (STAMP_COLUMN,):
            stamp = read_stamp(value)
            if stamp is None or (stamp.us, stamp.kind) != (line.stamp_us, line.stamp_kind):
                return False
    return True
