"""How numbers, times and foreign text are written, the same everywhere: screen, board, charts, postmortem.

Three significant digits, whole counts in full, an interval with as many decimals as its value, times in UTC. Text that comes
from a host passes through ``visible`` before it is shown, so that it can neither move the cursor nor reorder a line.
"""

from __future__ import annotations

import math
import unicodedata
from datetime import UTC, datetime

from diag_kit.figures import decimals
from diag_kit.records import Calculation, HoursWon, Hypothesis, Interval, Status, Value

UNKNOWN = "not known"
_COUNTS = {"", "steps", "samples", "ranks", "lines", "files", "rows"}


def number(value: Value, digits: int = 3, places: int | None = None) -> str:
    """A number with ``digits`` significant digits (or fixed ``places``), never in powers of ten; None is "not known"."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return UNKNOWN
    if places is None:
        if value == int(value) and abs(value) >= 100:
            return str(int(value))
        places = min(decimals(value, digits), 9)
    return f"{value:.{places}f}"


def span(low: float, high: float, places: int | None = None) -> str:
    """``25.2-27.7``; with "to" where a minus sign would be misread."""
    if places is None:
        places = min(decimals(max(abs(low), abs(high))), 9)
    ends = [number(float(end), places=places) for end in (low, high)]
    return (" to " if low < 0 else "-").join(ends)


def quantity(value: Value, unit: str = "", interval: Interval | None = None) -> str:
    """``1.40 steps/s (1.33-1.47)``: the value, its unit, and its interval with the same decimals."""
    if value is None or isinstance(value, bool | str):
        return f"{number(value)} {unit}".strip() if value is not None else UNKNOWN
    whole = isinstance(value, int) or (value == int(value) and unit in _COUNTS)
    places = 0 if whole else hour_places(value) if unit == "h" else min(decimals(value), 9)
    text = f"{number(float(value), places=places)} {unit}".strip()
    if interval is None:
        return text
    if whole and unit in _COUNTS and interval.low == interval.high == value:
        return text
    finest = places if not whole or unit in _COUNTS else decimals(max(abs(interval.low), abs(interval.high)))
    while finest < places + 3 and interval.low != interval.high and _same(interval.low, interval.high, finest):
        finest += 1
    return f"{text} ({span(interval.low, interval.high, finest)})"


def _same(low: float, high: float, places: int) -> bool:
    return f"{low:.{places}f}" == f"{high:.{places}f}"


def calculated(made: Calculation) -> str:
    """The value of a calculation with unit and interval, or why there is none."""
    return quantity(made.value, made.unit, made.interval)


def hours(value: float) -> str:
    """Hours to a tenth; below one hour in minutes, below one minute in seconds."""
    scale, unit = time_unit(abs(value))
    places = hour_places(value) if unit == "h" else max(0, min(decimals(value * scale, 2), 2))
    return f"{number(float(value * scale), places=places)} {unit}"


def hour_places(value: float) -> int:
    """A tenth of an hour is as fine as anybody plans, and whole hours above a thousand; small ones keep three digits."""
    if value == 0 or abs(value) >= 1000:
        return 0
    return 1 if abs(value) >= 1 else min(decimals(value), 6)


def hours_won(won: HoursWon | None, point: float | None = None) -> str:
    """``26.4 h (25.2-27.7) of 35.2 h``: the point where one is known, else both bounds; in minutes for a run of minutes."""
    if won is None:
        return UNKNOWN
    of = f" of {hours(won.total_hours)}" if won.total_hours is not None else ""
    scale, unit = time_unit(max(abs(won.low), abs(won.high)))
    low, high = won.low * scale, won.high * scale
    places = 0 if low == int(low) and high == int(high) else hour_places(max(abs(low), abs(high)))
    if number(low, places=places) == number(high, places=places):
        return f"{hours(won.high)}{of}"
    bounds = span(low, high, places)
    if point is not None and won.low <= point <= won.high:
        return f"{number(float(point) * scale, places=places)} {unit} ({bounds}){of}"
    return f"{bounds} {unit}{of}"


def time_unit(most_hours: float) -> tuple[float, str]:
    """Hours, or minutes below one hour, or seconds below one minute: the factor and the unit."""
    if most_hours >= 1 or most_hours == 0:
        return 1.0, "h"
    return (60.0, "min") if most_hours * 60 >= 1 else (3600.0, "s")


def point_won(found: Hypothesis) -> float | None:
    """The best single figure for the hours won, where the rule gives one and does not leave open whether any are won."""
    if found.status is Status.UNDECIDED:
        return None
    for name in ("hours_won", "hours_won_if_split"):
        value = found.numbers.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def wins(found: Hypothesis) -> str:
    """``wins 26.4 h (25.2-27.7) of 35.2 h``, ``wins no hours``, or that it is not known."""
    if found.hours_won is None:
        return "hours won: not known"
    if found.hours_won.high <= 0:
        return "wins no hours"
    return f"wins {hours_won(found.hours_won, point_won(found))}"


def size(count: float) -> str:
    """Bytes in powers of 1000: ``4.60 TB``, ``212 kB``, ``17 B``."""
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(count) >= limit:
            return f"{number(count / limit)} {unit}"
    return f"{int(count)} B"


def rate(bytes_per_s: float) -> str:
    """Bytes per second: ``0.691 GB/s`` is written ``691 MB/s``."""
    return f"{size(bytes_per_s)}/s"


def duration(seconds: float) -> str:
    """``0.8 s``, ``12 s``, ``4 min 30 s``, ``1 h 45 min``."""
    if seconds < 10:
        return f"{number(float(seconds), 2) if seconds else 0} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    whole, minutes = divmod(minutes, 60)
    return f"{whole} h {minutes} min" if minutes else f"{whole} h"


def utc(at: datetime) -> str:
    """``2026-02-14 22:31:40 UTC``."""
    return f"{_in_utc(at):%Y-%m-%d %H:%M:%S} UTC"


def clock(at: datetime) -> str:
    """``22:31:40 UTC``."""
    return f"{_in_utc(at):%H:%M:%S} UTC"


def _in_utc(at: datetime) -> datetime:
    """A time without a zone is taken as UTC, as the records define it; never as the reader's own."""
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def visible(text: object, limit: int = 0, keep_lines: bool = False) -> str:
    """Foreign text made harmless for a terminal and for reading: control, bidirectional and zero-width characters are spelt out.

    ``limit`` > 0 cuts long text and says how much is missing. Line breaks survive only with ``keep_lines``.
    """
    raw = str(text)
    kept = raw[:limit] if limit and len(raw) > limit else raw
    if not kept.isascii() or not kept.isprintable():
        kept = "".join(_spelt(char, keep_lines) for char in kept)
    return kept if len(raw) == len(raw[:limit] if limit else raw) else f"{kept}… ({len(raw) - limit} more characters)"


def _spelt(char: str, keep_lines: bool) -> str:
    if char == "\t" or (char == "\n" and keep_lines):
        return char
    if char == "\n":
        return " "
    if char.isprintable():
        return char
    if unicodedata.category(char) == "Zs":
        return " "
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
