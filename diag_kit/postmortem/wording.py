"""Sentences and cells of the postmortem in words. Numbers are written as on the board, by ``show.format``."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from diag_kit.records import Calculation, Interval, Status
from diag_kit.show.format import calculated, duration, hours_won, number, point_won, quantity, visible

STATUS_WORDS = {
    Status.CONFIRMED: "a deciding test or observation agrees with it and with none of its rivals",
    Status.SUPPORTED: "the evidence points to it; no deciding test has confirmed it yet",
    Status.UNDECIDED: "what was seen fits this and also its rivals",
    Status.REFUTED: "what was seen contradicts it",
    Status.NOT_TESTABLE: "it could not have been seen from here, so it is not cleared",
}


def value_text(made: Calculation) -> str:
    """The value with unit and interval, the level where it is not 95 %."""
    if made.value is None:
        return "cannot be known from what was seen"
    level = f", {made.interval.level * 100:g} %" if made.interval is not None and made.interval.level != 0.95 else ""
    return calculated(made) + level


def scaled(interval: Interval | None, factor: float) -> Interval | None:
    """The interval of a value multiplied by an exact factor."""
    return None if interval is None else Interval(interval.low * factor, interval.high * factor, interval.level)


def time_text(at: datetime) -> str:
    """UTC to the second; a time without zone is taken as UTC, as the records define it."""
    aware = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return f"{aware:%Y-%m-%d %H:%M:%S}"


def counted(count: int, one: str, many: str = "") -> str:
    """``1 command``, ``3 commands``."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def sentence(text: str) -> str:
    """With a capital, unless the first word is a name that must stay as it is (``io.nfs``, ``set_epoch``)."""
    first = text.split(" ", 1)[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def first_sentence(text: str, where: str = "in full under Actions") -> str:
    """The first sentence of a long text, and where the rest stands."""
    first, stop, rest = text.partition(". ")
    return f"{first}. ({where})" if stop and rest else text


def shortened(text: str, most: int = 400) -> str:
    """At most that many characters; what was cut is said."""
    if len(text) <= most:
        return text
    return f"{text[:most]} ... ({len(text)} characters in all)"


def one_line(text: str) -> str:
    """Foreign text made visible and set in one line: line ends and runs of white space become one space."""
    return visible(re.sub(r"[ \t\r\n\f\v\x85]+", " ", text))


def verbatim(text: str) -> str:
    """Foreign text made visible, its line ends kept; a carriage return before one is dropped."""
    return visible(text.replace("\r\n", "\n"), keep_lines=True)


__all__ = [
    "STATUS_WORDS",
    "calculated",
    "counted",
    "duration",
    "first_sentence",
    "hours_won",
    "number",
    "one_line",
    "point_won",
    "quantity",
    "scaled",
    "sentence",
    "shortened",
    "time_text",
    "value_text",
    "verbatim",
]
