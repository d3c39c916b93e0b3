"""Raw command output: the parts of a multi-part answer, printed times and numbers, columns made of them. All pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from diag_kit.records import CommandResult

if TYPE_CHECKING:
    import pandas as pd

_MARK = re.compile(r"^==diag_kit:([A-Za-z0-9_]{1,40})==$")
_NUMBER = re.compile(r"^[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?$")
_TIME_FORMATS = (
    "%Y/%m/%d %H:%M:%S.%f",  # nvidia-smi
    "%Y/%m/%d %H:%M:%S",
    "%m/%d/%y %H:%M:%S",  # sysstat, C locale
    "%m/%d/%Y %H:%M:%S",
    "%m/%d/%Y %I:%M:%S %p",  # sysstat, en_US
    "%m/%d/%y %I:%M:%S %p",
    "%d.%m.%Y %H:%M:%S",  # sysstat, de_DE
    "%d/%m/%Y %H:%M:%S",
    "%d/%m/%y %H:%M:%S",
    "%d.%m.%y %H:%M:%S",
    "%d-%m-%Y %H:%M:%S",  # sysstat, nl_NL
    "%Y.%m.%d %H:%M:%S",
    "%a %b %d %H:%M:%S %Y",  # the line above the nvidia-smi table
)


_CJK = re.compile(r"[年月년월時时시分분] ?|[日일秒초]")
"""Marks of sysstat's dates and times in Chinese, Japanese and Korean locales."""


def parts(text: str) -> list[tuple[str, str]]:
    """Split at lines ``==diag_kit:NAME==``; what stands before the first one is named ``""`` (left out when blank)."""
    found: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        mark = _MARK.match(line)
        if mark:
            found.append((mark.group(1), []))
        else:
            found[-1][1].append(line)
    pieces = [(name, "\n".join(lines)) for name, lines in found]
    return pieces if pieces[0][1].strip() else pieces[1:]


def part(pieces: Sequence[tuple[str, str]], name: str) -> str | None:
    """The first part of that name: a hostile line further down cannot replace it."""
    return next((text for found, text in pieces if found == name), None)


def number(text: str) -> float | None:
    """A printed number, with a decimal point or comma; None for anything else ("N/A", "inf", "")."""
    text = text.strip()
    if len(text) > 40 or not _NUMBER.match(text):
        return None
    value = float(text.replace(",", "."))
    return value if abs(value) != float("inf") else None


def whole(text: str) -> int | None:
    """A printed integer that fits 63 bits; None for anything else."""
    text = text.strip()
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text):
        return None
    value = int(text)
    return value if abs(value) < 2**63 else None


def printed_time(text: str) -> datetime | None:
    """A time as sysstat or nvidia-smi prints it, in UTC. Without a zone it is taken as UTC: the scripts ask for it."""
    text = text.strip()
    if not 8 <= len(text) <= 40:
        return None
    text = _CJK.sub(lambda found: "" if found[0][:1] in "日일秒초" else ":" if found[0][:1] in "時时시分분" else "-", text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        by_format = _by_format(text)
        if by_format is None:
            return None
        found = by_format
    try:
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except OverflowError:
        return None


def _by_format(text: str) -> datetime | None:
    for pattern in _TIME_FORMATS:
        try:
            return datetime.strptime(text, pattern)
        except ValueError:
            continue
    return None


def frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Rows as a frame with these columns and dtypes; what a row lacks is missing. ``t`` is ``datetime64[us, UTC]``."""
    import pandas as pd

    rows = list(rows)
    data: dict[str, Any] = {}
    for name, dtype in columns.items():
        values = [row.get(name) for row in rows]
        if name == "t":
            times = pd.to_datetime(pd.Series(values, dtype="object"), utc=True)
            data[name] = times.astype("datetime64[us, UTC]")
        else:
            data[name] = pd.Series(values, dtype=dtype)
    return pd.DataFrame(data)


def why_cut_short(result: CommandResult) -> str | None:
    """A sentence on a command that did not end by itself, or whose output was cut; None when all is there."""
    if result.timed_out:
        return f"the command on {result.host} was stopped after {result.duration_s:.0f} s: what came until then is kept"
    if result.truncated:
        return f"the output from {result.host} was longer than the limit: its end is missing"
    if result.exit_status is None:
        return f"the command on {result.host} was stopped before its end: what came until then is kept"
    return None


def show(text: str, limit: int = 160) -> str:
    """One line of remote text for a sentence: first line, control characters out, cut at ``limit``."""
    line = next((piece for piece in text.splitlines() if piece.strip()), "")
    clean = "".join(mark if mark.isprintable() else "?" for mark in line.strip())
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
