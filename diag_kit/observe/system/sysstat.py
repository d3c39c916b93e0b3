"""mpstat, pidstat and sar: the tables of any sysstat generation as rows by column name, in any of its locales. Pure.

Their common layout (sysstat's ``common.c``, ``mpstat.c``, ``pidstat.c``, ``pr_stats.c``): a banner ``Linux RELEASE (HOST) DATE
...``, then tables whose header line starts with a time, each row with the time at its end; at the end rows marked "Average:"
(translated).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from diag_kit.observe.raw import printed_time
from diag_kit.observe.system.found import Found, numbered

_CLOCK = re.compile(
    r"^(#?[ \t]*)(\d{4}-\d\d-\d\dT\S+|\d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d"
    r"|\d{1,2}[:.h]\d\d[:.m]\d\ds?(?:[ \t]+(?:[AaPp]\.?[Mm]\.?|上午|下午))?"
    r"|\d{9,10}(?=[ \t]))[ \t]+"
)
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}\.?")
_AVERAGE = re.compile(r"^([^\W\d][\w.]{2,20}|平均时间|平均値|平均值) ?[:：][ \t]+")
_NOT_NUMBER = re.compile(r"[A-Za-z%][\w%/.()+-]*|#|Time")


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its time (None: not printed), whether it is the average at the end, and its words by column name."""

    line: int
    t: datetime | None
    average: bool
    values: Mapping[str, str]


@dataclass(slots=True)
class _Reader:
    where: str
    found: Found
    last: tuple[str, ...] = ()  # columns that take the rest of the line ("Command")
    date: str = ""
    header: tuple[str, ...] = ()
    average_header: tuple[str, ...] = ()

    def row(self, number: int, line: str) -> Row | None:
        if not line.strip():
            return None
        if line.startswith("Linux "):
            self._banner(line)
            return None
        rest, stamp, average = _parted(line)
        words = rest.split()
        if words and all(_NOT_NUMBER.fullmatch(word) for word in words):
            names = tuple(word for word in words if word not in ("#", "Time"))
            if len(names) >= 2:
                self.header = names
                return None
        if self.header and self.header[-1] in self.last:
            words = rest.split(None, len(self.header) - 1)
        if len(words) == len(self.header) and self.header:
            return Row(number, self._time(stamp), average, dict(zip(self.header, words, strict=True)))
        if "RESTART" not in line and not re.match(r"^[\^]?C$|^\S*[$#%>]( |$)", line.strip()):
            self.found.strange(f"{self.where} line {number}", line, "does not fit the header above it")
        return None

    def _banner(self, line: str) -> None:
        found = _DATE.search(line.partition(")")[2])
        self.date = found[0] if found else ""

    def _time(self, stamp: str) -> datetime | None:
        if not stamp:
            return None
        if stamp.isdigit():
            return datetime.fromtimestamp(int(stamp), UTC)
        return printed_time(stamp) or printed_time(f"{self.date} {stamp}")


def _parted(line: str) -> tuple[str, str, bool]:
    """(the line without its time, the time, whether it is an average)."""
    if found := _CLOCK.match(line):
        return line[found.end() :], re.sub(r"[ \t]+", " ", found[2].strip()), False
    if found := _AVERAGE.match(line):
        return line[found.end() :], "", True
    return line.lstrip("# \t"), "", False


def read_rows(text: str, where: str, found: Found, last: tuple[str, ...] = ()) -> Iterator[Row]:
    """All rows of all tables, in order. ``last``: headings whose column takes the rest of its line."""
    reader = _Reader(where, found, last)
    for number, line in numbered(text):
        row = reader.row(number, line)
        if row is not None:
            yield row


def read_json(text: str, name: str, found: Found, where: str) -> Iterator[tuple[datetime | None, list[dict[str, Any]]]]:
    """(time, rows) of each report with the list ``name`` ("cpu-load") in ``-o JSON`` output; what was cut off is left out."""
    decoder = json.JSONDecoder()
    date_found = re.search(r'"date"[ \t]*:[ \t]*"([^"\n]{6,12})"', text)
    stamps = [(match.end(), match[1]) for match in re.finditer(r'"timestamp"[ \t]*:[ \t]*"([^"\n]{4,40})"', text)]
    for match in re.finditer(rf'"{re.escape(name)}"[ \t]*:[ \t\r\n]*(?=\[)', text):
        earlier = [stamp for at, stamp in stamps if at <= match.start()][-1:] if len(stamps) < 5000 else []
        t = None
        if earlier:
            t = printed_time(earlier[0]) or printed_time(f"{date_found[1] if date_found else ''} {earlier[0]}")
        try:
            rows, _ = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            kept = _objects(text[match.end() : match.end() + 200_000], decoder)
            found.strange(where, text[match.end() :][-80:], "the JSON ends or breaks in this report")
            rows = kept
        if isinstance(rows, list):
            yield t, [row for row in rows if isinstance(row, dict)]


def _objects(text: str, decoder: json.JSONDecoder) -> list[Any]:
    """The flat objects that are whole, up to the first that is not."""
    kept: list[Any] = []
    for match in re.finditer(r"\{[^{}]*\}", text):
        try:
            kept.append(decoder.raw_decode(match[0])[0])
        except (ValueError, RecursionError):
            break
    return kept
