"""The rows of ``opened_files`` from what the host's loop, its sh fallback, or strace prints. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from diag_kit.records import NotUnderstood

_NOT_DATA = re.compile(
    r"^/(dev|proc|sys|etc|usr|lib|lib64|bin|run|boot)/|/(site|dist)-packages/|lib/python3|"
    r"\.(so|py|pyc|log|lock|sock|out|err)(\.[0-9.]+)?$|/torchelastic_|tfevents| \(deleted\)$"
)
_STRACE = re.compile(
    r'^(?:\[pid\s+(\d+)\]\s+)?(?:(\d+)\s+)?(\d+\.\d+)\s+open(?:at2?)?\((?:[^,"]*,\s*)?"((?:[^"\\]|\\.)*)"[^)]*?([A-Z_|]*)[^=]*(?:=\s*(-?\d+))?'
)
_MAX_ROWS = 400_000


@dataclass(slots=True)
class OpensRead:
    """What accumulates while the lines are read."""

    files: dict[int, str] = field(default_factory=dict)
    ranks: dict[int, int] = field(default_factory=dict)
    opens: list[dict[str, Any]] = field(default_factory=list)
    positions: list[dict[str, Any]] = field(default_factory=list)
    mapped: list[dict[str, Any]] = field(default_factory=list)
    blind: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    window: list[float] = field(default_factory=list)
    cpu_s: float | None = None
    sweeps: int | None = None
    ended: bool = False
    strange: list[NotUnderstood] = field(default_factory=list)
    # of the sh fallback: what stood open in the last sweep, and in this one
    stamp: float | None = None
    holder: int | None = None
    before: set[tuple[int, str, str]] = field(default_factory=set)
    now: set[tuple[int, str, str]] = field(default_factory=set)


def _time(seconds: float | None) -> datetime | None:
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _float(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d{1,9})?", text) else None


def _open(reading: OpensRead, t: float | None, rank: int | None, pid: int | None, path: str | None, via: str) -> bool:
    moment = _time(t)
    if moment is None or path is None:
        return False
    if len(reading.opens) < _MAX_ROWS:
        reading.opens.append({"t": moment, "rank": rank, "pid": pid, "path": path, "via": via})
    return True


def _read_open(reading: OpensRead, words: list[str]) -> bool:
    """``o T PID RANK VIA FILE``"""
    if len(words) != 6:
        return False
    number = _int(words[5])
    path = reading.files.get(number) if number is not None else None
    return _open(reading, _float(words[1]), _int(words[3]), _int(words[2]), path, words[4])


def _read_position(reading: OpensRead, words: list[str]) -> bool:
    """``q T PID FD POS SIZE FILE``"""
    if len(words) != 7:
        return False
    moment, pid = _time(_float(words[1])), _int(words[2])
    path = reading.files.get(_int(words[6]) or 0)
    if moment is None or pid is None or path is None:
        return False
    row = {"t": moment, "rank": reading.ranks.get(pid), "pid": pid, "path": path}
    reading.positions.append(row | {"position_bytes": _int(words[4]), "size_bytes": _int(words[5])})
    return True


def _read_strace(reading: OpensRead, text: str) -> bool:
    """One line of ``strace -f -ttt -e trace=openat``; a failed open or a folder is no row."""
    found = _STRACE.match(text)
    if not found:
        if "ermitted" in text or "ttach" in text:
            reading.blind.append(f"strace: {text[:200]}")
        return True
    pid = _int(found[1] or found[2] or "")
    result = _int(found[6] or "0")
    if (result is not None and result < 0) or "O_DIRECTORY" in text or _NOT_DATA.search(found[4]):
        return True
    path = found[4].encode("latin-1", "replace").decode("unicode_escape", "replace") if "\\" in found[4] else found[4]
    rank = reading.ranks.get(pid) if pid is not None else None
    return _open(reading, _float(found[3]), rank, pid, path, "strace")


def _read_listing(reading: OpensRead, words: list[str]) -> bool:
    """Lines of the sh fallback: ``s T`` a sweep ends, ``d PID``, ``l FD PATH``. A file that stays open is one open."""
    if words[0] == "s":
        for pid, _, path in sorted(reading.now - reading.before):
            _open(reading, reading.stamp, reading.ranks.get(pid), pid, path, "poll")
        reading.before, reading.now = reading.now, set()
        reading.stamp = _float(words[1]) if len(words) > 1 else None
        return True
    if words[0] == "d":
        reading.holder = _int(words[1]) if len(words) > 1 else None
        return True
    if reading.holder is not None and len(words) == 3 and not _NOT_DATA.search(words[2]):
        reading.now.add((reading.holder, words[1], words[2]))
    return True


def _read_line(reading: OpensRead, line: str) -> bool:
    words = line.split(" ")
    kind, rest = words[0], line.partition(" ")[2]
    if kind == "o":
        return _read_open(reading, words)
    if kind == "q":
        return _read_position(reading, words)
    if kind == "x":
        return _read_strace(reading, rest)
    if kind in ("s", "d", "l"):
        return _read_listing(reading, line.split(" ", 2))
    if kind == "f":
        number = _int(words[1]) if len(words) > 2 else None
        if number is not None:
            reading.files[number] = rest.partition(" ")[2]
        return number is not None
    if kind == "m" and len(words) == 4:
        path = reading.files.get(_int(words[3]) or 0)
        reading.mapped.append({"pid": _int(words[1]), "rank": _int(words[2]), "path": path})
    elif kind == "rank" and len(words) == 3:
        pid, rank = _int(words[1]), _int(words[2])
        if pid is not None and rank is not None:
            reading.ranks[pid] = rank
    elif kind in ("window", "window_end"):
        reading.window += [value for word in words[1:2] if (value := _float(word)) is not None]
    elif kind == "prefix":
        reading.prefixes.append(rest)
    elif kind == "blind":
        reading.blind.append(rest)
    elif kind == "cost" and len(words) > 2:
        reading.cpu_s, reading.sweeps = _float(words[1]), _int(words[2])
    elif kind == "times":
        parts = re.findall(r"(\d+)m([\d.]+)s", rest)
        reading.cpu_s = sum(60 * float(minutes) + (_float(seconds) or 0.0) for minutes, seconds in parts)
    elif kind == "end":
        reading.ended = True
    else:
        return False
    return True


def read_opens(text: str) -> OpensRead:
    """Pure: the output of ``remote_opens.SCRIPT`` line by line."""
    reading = OpensRead()
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or line == "==diag_kit:opens==":
            continue
        if not _read_line(reading, line) and len(reading.strange) < 50:
            reading.strange.append(NotUnderstood(f"opened files line {number}", line[:200], "unknown or broken row"))
    if reading.prefixes:
        inside = tuple(reading.prefixes)
        kept = [row for row in reading.opens if row["path"].startswith(inside)]
        reading.opens = kept or reading.opens
    return reading
