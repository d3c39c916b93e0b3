"""What the readers of this folder add to, and the printed sizes and columns that they share. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diag_kit.hosts.sessions import first_program
from diag_kit.observe.raw import frame, number
from diag_kit.records import Fact, NotUnderstood, Parsed, Value

MAX_ODD = 100
"""Lines that are listed as not understood; after that only their number is."""
_POWERS = {"": 0, "B": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_SIZE = re.compile(r"([+-]?\d{1,19}(?:[.,]\d{1,6})?) ?([kKMGTPE]?)(i?)([Bb]?)(?:ytes)?")


@dataclass(slots=True)
class Found:
    """Rows by table, facts, and what was not understood, of one or more texts."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    facts: list[Fact] = field(default_factory=list)
    odd: list[NotUnderstood] = field(default_factory=list)
    left_out: int = 0
    problems: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def fact(self, name: str, value: Value, source: str, unit: str = "") -> None:
        """A fact whose value is known; None is left out."""
        if value is not None:
            self.facts.append(Fact(name, value, source, unit))

    def strange(self, where: str, text: str, why: str) -> None:
        if len(self.odd) < MAX_ODD:
            self.odd.append(NotUnderstood(where, text.strip()[:200], why))
        else:
            self.left_out += 1

    def parsed(self, columns: Mapping[str, Mapping[str, str]], nothing: str) -> Parsed:
        """``columns`` by table name; a table without rows is left out. ``nothing`` is said when nothing was found."""
        tables = {name: frame(self.rows[name], columns[name]) for name in columns if self.rows.get(name)}
        odd = list(self.odd)
        if self.left_out:
            odd.append(NotUnderstood("", f"{self.left_out} more lines", "not listed one by one"))
        if not tables and not self.facts and not self.problems:
            self.problems.append(nothing)
        summary = ", ".join(dict.fromkeys(self.said)) or (self.problems[0] if self.problems else _names(tables, self.facts))
        return Parsed(summary, tuple(self.facts), tables, tuple(odd), tuple(dict.fromkeys(self.problems)))


def _names(tables: Mapping[str, Any], facts: Sequence[Fact]) -> str:
    said = [f"{len(table)} rows of {name}" for name, table in tables.items()]
    return ", ".join([*said, *(f"{fact.name} {fact.value}" for fact in facts[:4])])


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1; a terminal's colours and carriage returns taken out."""
    clean = re.sub(r"\x1b\[[0-9;?]{0,20}[A-Za-z]|\x1b\([B0]|\x0f", "", text)
    return enumerate((line.rstrip("\r") for line in clean.split("\n")), start=1)


def size(text: str, plain: int = 1, base: int = 1024) -> int | None:
    """Bytes of a printed size: ``plain`` bytes where no letter stands ("62Gi", "1.2g", "8119MiB", "0B"). None if unreadable.

    ``kB`` of tools that count in thousands needs ``base`` 1000; an "i" always means 1024.
    """
    found = _SIZE.fullmatch(text.strip()) if len(text) < 40 else None
    value = number(found[1]) if found else None
    if found is None or value is None:
        return None
    power = _POWERS[found[2].upper()]
    if power == 0:
        return round(value * (1 if found[4] else plain))
    return round(value * float(1024 if found[3] else base) ** power)


def times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def cells(words: Iterable[str]) -> list[float | None]:
    return [number(word.rstrip("%")) for word in words]


def option(command: str, program: str, letters: str) -> str | None:
    """The last single-letter option among ``letters`` that a command line gives to ``program``: "m" of ``free -hm``.

    None where the program is not in the command (the output was pasted without it), "" where it has none of these options.
    """
    found = re.search(rf"(?:^|[\s/|;&(]){re.escape(program)}((?:[ \t][^|;&#>\n]*)?)(?=[|;&#>\s)]|$)", command[:2000])
    if not found or first_program(command) in ("cat", "head", "tail", "less", "more"):  # there it is a file's name
        return None
    given = [letter for word in found[1].split() if re.fullmatch(r"-[A-Za-z]+", word) for letter in word[1:] if letter in letters]
    return given[-1] if given else ""


def fixed_columns(header: str, rows: Sequence[str]) -> list[tuple[str, int, int | None]]:
    """(name, start, end) of the columns of a table padded with blanks, where a field may be empty.

    A place that is blank in the header and in every row parts two columns; a part without a heading belongs to the one before.
    """
    width = max((len(line) for line in (header, *rows)), default=0)
    filled = [False] * width
    for line in (header, *rows):
        for match in re.finditer(r"\S+", line):
            filled[match.start() : match.end()] = [True] * (match.end() - match.start())
    columns: list[tuple[str, int, int | None]] = []
    at = 0
    while at < width:
        if not filled[at]:
            at += 1
            continue
        end = at
        while end < width and filled[end]:
            end += 1
        name = header[at:end].strip()
        if name or not columns:
            columns.append((name, at, end))
        else:
            columns[-1] = (columns[-1][0], columns[-1][1], end)
        at = end
    if columns:
        columns[-1] = (columns[-1][0], columns[-1][1], None)
    return columns
