"""Metrics kept as CSV (a logger's ``metrics.csv``): each row becomes a message of keys and values, like any other record."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from diag_kit.observe.logs.line import Line
from diag_kit.observe.logs.names import split_of

_HEADER = re.compile(r"[A-Za-z_][^,;\t\n]{0,80}(?:[,;\t][^,;\t\n]{1,80}){1,400}\Z")
_COUNTERS = {"step", "epoch", "iteration", "iter", "global_step", "batch", "trainer/global_step"}
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)\Z", re.IGNORECASE)


def csv_rows(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines as they are, unless the first is a CSV header with a counter in it: then one dict per row, blanks left out.

    A header that comes again in mid-file (a logger that met a new metric) is taken over. Lightning's CSVLogger writes one row per
    log call with the other columns blank: neighbouring rows of one step that fill different columns are one record
    (Lightning-AI/pytorch-lightning src/lightning/fabric/loggers/csv_logs.py).
    """
    source = iter(lines)
    first = list(islice(source, 1))
    header = _header(first[0].text) if first else None
    if header is None:
        yield from chain(first, source)
        return
    names, separator = header
    begun: list[_Row] = []
    for line in source:
        again = _header(line.text)
        if again is not None:
            names, separator = again
            continue
        row = _row(line, names, separator)
        fitting = next((i for i, other in enumerate(begun) if row and other.joins(row)), None)
        if row and fitting is not None:
            begun[fitting] = begun[fitting].joined(row)
            continue
        if begun and not (row and len(begun) < 2 and begun[0].same_step(row)):
            yield from _in_order(begun)
            begun = []
        if row:
            begun.append(row)
        else:
            yield line
    yield from _in_order(begun)


def _in_order(rows: list[_Row]) -> list[Line]:
    return sorted((row.as_line() for row in rows), key=lambda line: line.last)


@dataclass(frozen=True, slots=True)
class _Row:
    """The filled cells of one row (or of several log calls of one step), with the line that it came from."""

    line: Line
    cells: dict[str, str]

    def joins(self, other: _Row) -> bool:
        """A logger writes a row for each call: those of one step that fill other columns of the same split are one."""
        others = set(other.cells) - set(other._counters())
        return self.same_step(other) and not others & set(self.cells) and self._validates() == other._validates()

    def same_step(self, other: _Row) -> bool:
        mine = self._counters()
        return bool(mine) and mine == other._counters()

    def joined(self, other: _Row) -> _Row:
        return _Row(other.line, {**self.cells, **other.cells})

    def as_line(self) -> Line:
        return self.line.piece("{" + ", ".join(f'"{name}": {cell}' for name, cell in self.cells.items()) + "}")

    def _counters(self) -> dict[str, str]:
        return {name: cell for name, cell in self.cells.items() if name.lower() in _COUNTERS}

    def _validates(self) -> bool:
        return split_of([name for name in self.cells if name.lower() not in _COUNTERS]) == "val"


def _cells(text: str, separator: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=separator))]
    except (csv.Error, StopIteration):
        return []


def _header(text: str) -> tuple[list[str], str] | None:
    if not _HEADER.match(text.strip()):
        return None
    separator = next((mark for mark in ",;\t" if mark in text), ",")
    names = _cells(text.strip(), separator)
    counters = {name.lower() for name in names} & _COUNTERS
    return (names, separator) if counters and not any(_NUMBER.match(name) or ":" in name for name in names) else None


def _row(line: Line, names: list[str], separator: str) -> _Row | None:
    cells = _cells(line.text, separator)
    if len(cells) != len(names):
        return None
    return _Row(line, {name: cell for name, cell in zip(names, cells, strict=True) if _NUMBER.match(cell) and '"' not in name})
