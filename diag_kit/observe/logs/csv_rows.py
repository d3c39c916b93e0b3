"""Metrics kept as CSV (a logger's ``metrics.csv``): each row becomes a message of keys and values, like any other record."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from diag_kit.observe.logs.line import Line

_HEADER = re.compile(r"[A-Za-z_][^,;\n]{0,80}(?:[,;\t][^,;\n]{1,80}){1,400}\Z")
_COUNTERS = {"step", "epoch", "iteration", "iter", "global_step", "batch", "trainer/global_step"}
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)\Z", re.IGNORECASE)


def csv_rows(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines as they are, unless the first is a CSV header with a counter in it: then one dict per row, blanks left out.

    A header that comes again in mid-file (a logger that met a new metric) is taken over.
    """
    source = iter(lines)
    first = list(islice(source, 1))
    header = _header(first[0].text) if first else None
    if header is None:
        yield from chain(first, source)
        return
    names, separator = header
    for line in source:
        again = _header(line.text)
        if again is not None:
            names, separator = again
            continue
        yield _row(line, names, separator)


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


def _row(line: Line, names: list[str], separator: str) -> Line:
    cells = _cells(line.text, separator)
    if len(cells) != len(names):
        return line
    pairs = [f"'{name}': {cell}" for name, cell in zip(names, cells, strict=True) if _NUMBER.match(cell) and "'" not in name]
    return line.piece("{" + ", ".join(pairs) + "}")
