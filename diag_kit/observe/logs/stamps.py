"""Time stamps as loggers print them, and how a stamp without date or zone gets a date.

A naive stamp is the host's clock: it is labelled UTC and the fact ``clock`` says that the zone is not stated. A time of day
gets its date from a reference (the file's modification time on the host's clock, or the time of collection), with
midnights counted backwards from the last record.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import NamedTuple

from diag_kit.observe.logs.line import StampKind

DAY_US = 86_400_000_000
_AHEAD_US = 3_600_000_000
_MONTHS = {
    name: i for i, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_TIME = r"(?P<{0}h>[01]\d|2[0-3]):(?P<{0}m>[0-5]\d):(?P<{0}s>[0-5]\d|60)(?:[.,](?P<{0}f>\d{{1,9}}))?"
STAMP = re.compile(
    r"(?P<iso>(?P<iY>\d{4})[-/.]?(?P<iM>\d\d)[-/.]?(?P<iD>\d\d)[ T,_-]{1,2}"
    + _TIME.format("i")
    + r"(?P<ip> ?[AP]M)?(?P<iz>\s?(?:Z|UTC|GMT)(?!\w)|\s?[+-]\d\d:?\d\d(?![\d.]))?)"
    + r"|(?P<dmy>(?P<eD>\d\d)\.(?P<eM>\d\d)\.(?P<eY>\d{4})[ ,]{1,2}"
    + _TIME.format("e")
    + r")"
    + r"|(?P<mdy>(?P<uM>\d\d)/(?P<uD>\d\d)/(?P<uY>\d{4}|\d\d)[ ,]{1,2}"
    + _TIME.format("u")
    + r"(?P<up> ?[AP]M)?)|(?P<md>(?P<dM>\d\d)[-/](?P<dD>\d\d) "
    + _TIME.format("d")
    + r")|(?P<glog>[IWEFDV](?P<gM>\d\d)(?P<gD>\d\d) "
    + _TIME.format("g")
    + r")|(?P<named>(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(?P<nM>[A-Z][a-z]{2}) {1,2}(?P<nD>\d{1,2}) "
    + _TIME.format("n")
    + r"(?: (?P<nY>\d{4})(?!\d))?)|(?P<tod>"
    + _TIME.format("t")
    + r"(?P<tp> ?[AP]M)?(?![:\d]))"
)


class Stamp(NamedTuple):
    """Microseconds, what they count from (see ``StampKind``), and where the text goes on."""

    us: int
    kind: StampKind
    end: int


@lru_cache(maxsize=4096)
def _day_us(year: int, month: int, day: int) -> int | None:
    try:
        return (date(year, month, day).toordinal() - 719_163) * DAY_US
    except ValueError:
        return None


def _time_us(hour: str, minute: str, second: str, fraction: str | None) -> int:
    us = (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1_000_000
    return us + int(fraction[:6].ljust(6, "0")) if fraction else us


def _zone_us(zone: str) -> int:
    zone = zone.strip()
    if zone in ("Z", "UTC", "GMT"):
        return 0
    digits = zone[1:].replace(":", "")
    offset = (int(digits[:2]) * 60 + int(digits[2:4])) * 60_000_000
    return -offset if zone[0] == "-" else offset


def read_stamp(text: str, position: int = 0) -> Stamp | None:
    """The stamp that begins exactly at ``position``, or None."""
    match = STAMP.match(text, position)
    return _from_match(match) if match else None


def find_stamp(text: str) -> Stamp | None:
    """The first stamp anywhere in a short text (what stands in one bracket)."""
    match = STAMP.search(text)
    return _from_match(match) if match else None


def _from_match(match: re.Match[str]) -> Stamp | None:
    kind, end = match.lastgroup, match.end()
    if kind == "tod":
        us = _time_us(*match.group("th", "tm", "ts", "tf"))
        return Stamp(_half_day(us, match["tp"]) if match["tp"] else us, "time of day", end)
    if kind == "iso":
        day = _day_us(*map(int, match.group("iY", "iM", "iD")))
        us, zone = _time_us(*match.group("ih", "im", "is", "if")), match["iz"]
        us = _half_day(us, match["ip"]) if match["ip"] else us
        if day is None:
            return None
        return Stamp(day + us - _zone_us(zone), "utc", end) if zone else Stamp(day + us, "naive", end)
    if kind == "mdy":
        month, of_month, year = map(int, match.group("uM", "uD", "uY"))
        day = _day_us(year + 2000 if year < 100 else year, month, of_month)
        us = _time_us(*match.group("uh", "um", "us", "uf"))
        us = _half_day(us, match["up"]) if match["up"] else us
        return None if day is None else Stamp(day + us, "naive", end)
    if kind == "dmy":
        day = _day_us(*map(int, match.group("eY", "eM", "eD")))
        return None if day is None else Stamp(day + _time_us(*match.group("eh", "em", "es", "ef")), "naive", end)
    if kind == "named":
        return _named(match, end)
    key = "d" if kind == "md" else "g"
    us = _time_us(*match.group(f"{key}h", f"{key}m", f"{key}s", f"{key}f"))
    return _without_year(int(match[f"{key}M"]), int(match[f"{key}D"]), us, end)


def _half_day(us: int, half: str) -> int:
    """AM and PM."""
    hour = us // 3_600_000_000
    if half.strip() == "PM" and hour < 12:
        return us + 12 * 3_600_000_000
    return us - 12 * 3_600_000_000 if half.strip() == "AM" and hour == 12 else us


def _named(match: re.Match[str], end: int) -> Stamp | None:
    month = _MONTHS.get(match["nM"].lower())
    if month is None:
        return None
    us = _time_us(*match.group("nh", "nm", "ns", "nf"))
    if match["nY"]:
        day = _day_us(int(match["nY"]), month, int(match["nD"]))
        return None if day is None else Stamp(day + us, "naive", end)
    return _without_year(month, int(match["nD"]), us, end)


def _without_year(month: int, day: int, time_us: int, end: int) -> Stamp | None:
    inside = _day_us(2000, month, day)  # a leap year, so that every date exists
    return None if inside is None else Stamp(inside + time_us, "no year", end)


def microseconds(moment: datetime) -> int:
    """Microseconds since 1970 UTC; a naive datetime counts as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    delta = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def date_times_of_day(stamps_us: Sequence[int | None], reference_us: int) -> tuple[list[int | None], int]:
    """Give dates to times of day in file order: returns them dated, and the number of midnights passed.

    A fall of more than 12 h is a midnight, a rise of more than 12 h one taken back (lines of several ranks out of order).
    The last time lands on the latest day that is not more than an hour after the reference.
    """
    days: list[int] = []
    day, previous = 0, None
    for us in stamps_us:
        if us is not None:
            if previous is not None and us < previous - DAY_US // 2:
                day += 1
            elif previous is not None and us > previous + DAY_US // 2:
                day -= 1
            previous = us
        days.append(day)
    if previous is None:
        return list(stamps_us), 0
    last = previous + day * DAY_US
    shift = (reference_us + _AHEAD_US - last) // DAY_US * DAY_US
    dated = [None if us is None else us + d * DAY_US + shift for us, d in zip(stamps_us, days, strict=True)]
    return dated, max(days) - min(days)


def date_without_year(us: int, reference_us: int) -> int:
    """A month-and-day stamp: the latest year in which it is not more than a day after the reference."""
    inside = datetime.fromtimestamp(us / 1e6, UTC)
    year = datetime.fromtimestamp(reference_us / 1e6, UTC).year
    for candidate in (year, year - 1, year - 2, year - 3, year - 4):
        start = _day_us(candidate, inside.month, inside.day)
        if start is not None and start + us % DAY_US <= reference_us + DAY_US:
            return start + us % DAY_US
    return us
