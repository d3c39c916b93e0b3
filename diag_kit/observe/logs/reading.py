"""Logs understood: metric rows, progress, start-up facts, and what the rows themselves say about how they were printed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from diag_kit.observe.logs.bars import Bar, find_bars
from diag_kit.observe.logs.blocks import join_blocks
from diag_kit.observe.logs.file_ranks import ranks_of_files
from diag_kit.observe.logs.formats import gated_formats
from diag_kit.observe.logs.found import Cell, Found
from diag_kit.observe.logs.guess import guess
from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.normalise import logical_lines
from diag_kit.observe.logs.numbers import to_float
from diag_kit.observe.logs.pieces import Piece
from diag_kit.observe.logs.prefixes import RANK
from diag_kit.observe.logs.startup import StartUp
from diag_kit.observe.logs.table import Rows
from diag_kit.observe.logs.template import Templates
from diag_kit.records import Fact, NotUnderstood

_LOOKS_LIKE_METRICS = re.compile(r"\bloss\b\W{0,4}\d", re.IGNORECASE)
MAX_NOT_UNDERSTOOD = 20
GUESSED = "?"
"""The framework of a template of guessed lines."""
USUAL = 50
"""From so many lines of a shape on they are read quickly, and no longer looked through for facts of the start."""
UNIX_TIMES = {"unix_s", "wall_time", "timestamp", "time", "ts", "time_unix", "unix_time", "created"}
UNIX_FROM, UNIX_TO = 1e9, 4e9
"""2001 to 2096: no duration of a training is that long, so a number there is a moment."""


@dataclass(slots=True)
class BarState:
    """A progress bar's state, where it stood."""

    piece: int
    line: Line
    bar: Bar


@dataclass(slots=True)
class Reading:
    """Everything that was made of some pieces of log."""

    pieces: Sequence[Piece]
    rows: Rows = field(default_factory=Rows)
    bars: list[BarState] = field(default_factory=list)
    startup: StartUp = field(default_factory=StartUp)
    forms: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """(framework, form, level) -> records."""
    bar_frameworks: Counter[str] = field(default_factory=Counter)
    """The frameworks whose bars were seen."""
    rank_kinds: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[int, str]] = field(default_factory=Counter)
    """(level, what the step counts) -> records."""
    totals: dict[tuple[str, int], str] = field(default_factory=dict)
    """("step" with or without "epoch", total printed behind it) -> where."""
    rich_records: int = 0
    known_rows: int = 0
    learned: list[Fact] = field(default_factory=list)
    """What the table told about its own columns."""
    lines: int = 0
    missed: list[NotUnderstood] = field(default_factory=list)
    missed_count: int = 0


def understand(pieces: Sequence[Piece], *, metrics: bool = True, facts: bool = True) -> Reading:
    """Read all pieces. Without ``metrics`` records are only recognised, so as not to take facts from them."""
    reading = Reading(pieces)
    file_ranks = ranks_of_files([piece.file for piece in pieces])
    for index, piece in enumerate(pieces):
        templates = Templates()
        reading.startup.begin_file()
        lines = _placed(logical_lines(_whole_lines(piece), 1, templates.fits), piece, file_ranks[index])
        for line in join_blocks(lines):
            reading.lines += max(1, len(line.parts))
            _read_line(reading, index, line, templates, facts)
    return reading


def _placed(lines: Iterable[Line], piece: Piece, file_rank: int | None) -> Iterator[Line]:
    """Lines with the rank that the file's name gives and with their numbers in the file."""
    for line in lines:
        if file_rank is not None and line.rank_kind in ("", "device"):
            line.rank, line.rank_kind = file_rank, "file"
        _number(line, piece)
        yield line


def _whole_lines(piece: Piece) -> bytes:
    """Without the half line at the start of a tail, and without the one that is still being written at the end.

    A line that is drawn over by carriage returns loses only its last state.
    """
    data = piece.data
    if piece.cut:
        newline = data.find(b"\n")
        data = data[newline + 1 :] if newline >= 0 else b""
    if piece.growing and data and not data.endswith(b"\n"):
        data = data[: max(data.rfind(b"\n"), data.rfind(b"\r")) + 1]
    return data


def _number(line: Line, piece: Piece) -> None:
    """Line numbers of the file instead of the piece."""
    if piece.numbers is not None:
        last = len(piece.numbers) - 1
        line.first = piece.numbers[min(line.first - 1, last)] if last >= 0 else line.first
        line.last = piece.numbers[min(line.last - 1, last)] if last >= 0 else line.last
    else:
        offset = (piece.first_line or 1) - 1 + (1 if piece.cut else 0)
        line.first += offset
        line.last += offset


def _read_line(reading: Reading, index: int, line: Line, templates: Templates, facts: bool) -> None:
    text = line.text
    known = templates.match(text)
    if known is not None:
        template, texts = known
        if template.framework == GUESSED:
            _guessed(reading, index, line, template.found, texts)
            return
        _take(reading, index, line, template.found, texts, template.framework)
        return
    found = find_records(text, line)
    if not found and line.parts:
        for part in line.parts:
            _read_line(reading, index, part, templates, facts)
        return
    bars = find_bars(text)
    if bars:
        _take_bar(reading, index, line, bars[-1])
    for one, framework in found:
        one = _with_rank(one, text, line) if len(found) == 1 and not bars else one
        if len(found) == 1 and not bars:
            templates.learn(text, one, framework)
        _take(reading, index, line, one, tuple([cell.text for cell in one.cells]), framework)
    if not found and not bars:
        if facts:
            reading.startup.take(line, reading.pieces[index].file, before_metrics=reading.known_rows == 0)
        if reading.rows.bars_only and (candidate := guess(text)):
            seen = _guessed(reading, index, line, candidate, tuple([cell.text for cell in candidate.cells]))
            if seen > USUAL:
                templates.learn(text, candidate, GUESSED)
        if _LOOKS_LIKE_METRICS.search(text):
            _miss(reading, index, line)


def find_records(text: str, line: Line) -> list[tuple[Found, str]]:
    """All records in a message with the framework that prints so; what one format claims, the next does not see."""
    taken: list[tuple[Found, str]] = []
    rest = text
    for gate, known in gated_formats():
        if line.parts and known.order >= 80:
            break  # joined lines are for the formats that know them
        if gate not in text:
            continue
        here = [found for found in known.find(rest, line) if found.cells]
        for found in here:
            taken.append((found, known.framework))
            rest = rest[: found.start] + " " * (found.end - found.start) + rest[found.end :]
        if here and rest.isspace():
            break
        if taken and known.order >= 80:
            break
    taken.sort(key=lambda pair: pair[0].start)
    return taken


def _with_rank(found: Found, text: str, line: Line) -> Found:
    """A rank named in the message outside of what the format claimed."""
    if ("ank" not in text and "ANK" not in text) or any(cell.column == "rank" for cell in found.cells):
        return found
    match = RANK.search(text)
    if match and not found.start < match.start("rank") < found.end:
        cell = Cell("rank", match["rank"], match.start("rank"), match.end("rank"))
        return replace(found, cells=(*found.cells, cell), rank_kind="local" if match["scope"] == "local" else "global")
    return found


def _take(reading: Reading, index: int, line: Line, found: Found, texts: tuple[str, ...], framework: str) -> None:
    if line.rank_kind:
        reading.rank_kinds[line.rank_kind] += 1
    elif found.rank_kind:
        reading.rank_kinds[found.rank_kind] += 1
    if not found.from_bar:
        reading.forms[framework, found.form, found.level] += 1
    elif framework:
        reading.bar_frameworks[framework] += 1
    if found.counts and found.split == "train":
        reading.counts[9 if found.from_bar else found.level, found.counts] += 1
    reading.rich_records += line.rich
    if not line.stamp_kind:
        _stamp(found, texts, line)
    reading.known_rows += 1
    reading.rows.add(found, texts, line, index)
    totals = (found.step_of, found.epoch_of, found.run_steps, found.samples_of)
    if found.split == "train" and totals != (None, None, None, None):
        where = f"{reading.pieces[index].file} line {line.last}"
        beside_epoch = any(cell.column == "epoch" for cell in found.cells)
        if found.samples_of:
            reading.totals.setdefault(("samples", found.samples_of), where)
        if found.step_of:
            reading.totals.setdefault(("step of epoch" if beside_epoch else "step", found.step_of), where)
        if found.run_steps:
            reading.totals.setdefault(("step", found.run_steps), where)
        if found.epoch_of:
            reading.totals.setdefault(("epoch", found.epoch_of), where)


def _guessed(reading: Reading, index: int, line: Line, found: Found, texts: tuple[str, ...]) -> int:
    """Hold a line back that may be a record; how many of its shape there are."""
    if not line.stamp_kind:
        _stamp(found, texts, line)
    return reading.rows.add(found, texts, line, index, guessed=True)


def _stamp(found: Found, texts: tuple[str, ...], line: Line) -> None:
    """The clock of a line without a stamp: a number in it that counts seconds (or ms) since 1970."""
    for cell, text in zip(found.cells, texts, strict=True):
        if cell.column in UNIX_TIMES:
            value = to_float(text) or 0.0
            seconds = value / 1e3 if value > 1e11 else value
            if UNIX_FROM <= seconds <= UNIX_TO:
                line.stamp_us, line.stamp_kind = int(seconds * 1e6), "utc"
                return


def _take_bar(reading: Reading, index: int, line: Line, bar: Bar) -> None:
    state = BarState(index, line, bar)
    last = reading.bars[-1] if reading.bars else None
    same = last and last.piece == index and last.line.rank == line.rank and last.bar.description == bar.description
    if same and last and last.bar.n == bar.n and last.bar.total == bar.total:
        reading.bars[-1] = state
    else:
        reading.bars.append(state)


def _miss(reading: Reading, index: int, line: Line) -> None:
    reading.missed_count += 1
    if len(reading.missed) < MAX_NOT_UNDERSTOOD:
        where = f"{reading.pieces[index].file} line {line.last}"
        reading.missed.append(NotUnderstood(where, line.text[:300], "looks like metrics, but no known form"))
