"""Lists of processes as people paste them: ps of procps (any ``-o``, aux, -ef, -eLf, trees), of busybox, and the rows of top.
Pure.

Columns go by the header's words (procps ps/output.c, top's Fieldstab, busybox procps/ps.c and top.c). One column may be wider
than a word: the command, wherever it stands. A terminal that broke a long line is undone where the line above reached its edge.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

_COLUMNS = {
    "PID": "pid", "TGID": "pid", "PPID": "ppid", "USER": "user", "UID": "user", "EUSER": "user", "RUSER": "user", "S": "state",
    "STAT": "state", "%CPU": "cpu_pct", "CPU%": "cpu_pct", "C": "cpu_pct", "RSS": "rss_kib", "RSZ": "rss_kib", "RES": "rss_kib",
    "NLWP": "threads", "THCNT": "threads", "nTH": "threads", "LWP": "tid", "SPID": "tid", "TID": "tid", "WCHAN": "wchan",
    "COMMAND": "command", "CMD": "command", "ARGS": "command", "COMM": "command", "PSR": "cpu", "P": "cpu",
    "%MEM": "mem_pct", "MEM%": "mem_pct", "%VSZ": "vsz_pct",
    "ELAPSED": "elapsed", "ETIME": "elapsed", "ETIMES": "elapsed",
}  # fmt: skip
_TEXT = ("COMMAND", "CMD", "ARGS", "COMM")
_OTHER_NAMES = (
    "F PRI NI PR VIRT VSZ SZ SHR ADDR TTY TT STIME START STARTED TIME TIME+ ELAPSED ETIME ETIMES %MEM MEM% "
    "%VSZ CPU CLS RTPRIO PGID SID "
    "PGRP SESS TPGID FLAGS MAJFLT MINFLT nMaj nMin nDRT SWAP CODE DATA USED SUSER GROUP EGROUP UNIT CGROUP NS PENDING BLOCKED "
    "IGNORED CAUGHT LABEL SUPGRPS SUPGIDS ENVIRON OOMs OOMa nsPID NU PSS TRS DRS VSIZE TIMES CP CPUTIME D SHR+ TPGID"
)
_OTHERS = frozenset(_OTHER_NAMES.split())
HEADER = re.compile(r"^[ \t]*(?:\S+[ \t]+){0,30}?(?:PID|SPID|TGID|LWP)\b")
_UNITS = {"k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3, "p": 1024.0**4}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TREE = re.compile(r"^((?:[ |]*)(?:\\_|└─|├─|`-|\|-)[ ]?)")
_MORE = re.compile(r"(?:\.\.\.|…)[ \t]*\(?[+~]?(\d{1,7}) more\b|\((\d{1,7}) (?:more|other) (?:rows|lines|processes|children)\b")
EDGE = 79
"""A terminal is at least that wide: only lines that long can have been broken."""


@dataclass(slots=True)
class Table:
    """Rows below the headers of a text, in order, and what no header explains. ``left_out``: rows that the text says it leaves
    out."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    odd: list[NotUnderstood] = field(default_factory=list)
    left_out: int = 0
    headers: int = 0
    unknown: list[NotUnderstood] = field(default_factory=list)


def is_header(line: str) -> bool:
    """A line of headings: it names the process's number and the command or another column, and holds no number."""
    words = line.split()
    if not 2 <= len(words) <= 60 or not HEADER.match(line[:600]):
        return False
    known = sum(word in _COLUMNS or word in _OTHERS for word in words)
    return known >= 2 and known >= 0.6 * len(words) and not any(word.isdigit() for word in words)


def read_table(lines: Sequence[tuple[int, str]]) -> Table:
    """All rows of ps or top in numbered lines. Each row has ``header`` (which of the headers stood above it, from 1)."""
    table = Table()
    header: list[str] = []
    edge = max((len(line) for _, line in lines), default=0)
    before = 0  # the width of the row above, for a broken line
    tree = False
    for at, line in lines:
        if not line.strip():
            before = 0
            continue
        if is_header(line):
            header, before = line.split(), 0
            table.headers += 1
            unknown = [word for word in header if word not in _COLUMNS and word not in _OTHERS]
            if unknown:
                table.unknown.append(NotUnderstood(f"line {at}", " ".join(unknown)[:200], "columns that are not known"))
            continue
        row = _row(header, line) if header else None
        if row is not None:
            tree = tree or row["depth"] is not None
            table.rows.append(row | {"header": table.headers, "line": at})
            before = len(line)
        elif more := _MORE.search(line[:400]):
            table.left_out += int(more[1] or more[2])
        elif before >= EDGE and before == edge and table.rows and "command" in table.rows[-1]:
            table.rows[-1]["command"] = f"{table.rows[-1]['command']}{line}"  # the terminal broke it: no blank was lost
            before = len(line)
        else:
            table.odd.append(NotUnderstood(f"line {at}", line[:200], "does not fit the header above it"))
            before = 0
    if tree:
        _parents(table.rows)
    return table


def _row(header: list[str], line: str) -> dict[str, Any] | None:
    words = _joined(header, line.split())
    places = [at for at, name in enumerate(header) if name in _TEXT]
    if len(words) < len(header) or not places:
        if len(words) != len(header):
            return None
        values = dict(zip(header, words, strict=True))
        return _typed(values, None)
    at = places[-1]
    right = len(header) - at - 1
    if len(places) > 1 and len(words) > len(header):
        words = _short_name(words, places[0])
    head, tail = words[:at], words[len(words) - right :] if right else []
    command = _rest(line, words, at, right)
    values = dict(zip(header, [*head, "", *tail], strict=True)) if len(head) + 1 + len(tail) == len(header) else {}
    if not values:
        return None
    if len(places) > 1 and header[places[0]] == header[at]:
        values[header[at]] = command
    return _typed(values, command)


def _rest(line: str, words: list[str], left: int, right: int) -> str:
    """The line's text after ``left`` words and before the last ``right`` ones, blanks inside kept, a tree's lines too."""
    if not right and len(words) > left:
        at = 0
        for word in words[:left]:
            place = line.find(word.split(" ")[-1], at)
            if place < 0:
                return " ".join(words[left:])
            at = place + len(word.split(" ")[-1])
        return line[at + 1 if line[at : at + 1].isspace() else at :].rstrip()
    return " ".join(words[left : len(words) - right])


def _joined(header: list[str], words: list[str]) -> list[str]:
    """Undo what splits or glues fields: a start time of several words, busybox's "S <" and a pid that touches the user."""
    if header[:2] == ["PID", "USER"] and words:
        glued = re.fullmatch(r"(\d{5,7}|\d+)([A-Za-z_][\w.+-]*)", words[0])
        if glued:
            words = [glued[1], glued[2], *words[1:]]
    for at, name in enumerate(header):
        if at >= len(words):
            break
        if (
            name in ("STARTED", "START", "STIME", "LSTART")
            and words[at] in _DAYS
            and len(words) > at + 4
            and words[at + 1] in _MONTHS
        ):
            words = [*words[:at], " ".join(words[at : at + 5]), *words[at + 5 :]]
        elif name in ("STARTED", "START", "STIME") and words[at] in _MONTHS and len(words) > at + 1 and words[at + 1].isdigit():
            words = [*words[:at], " ".join(words[at : at + 2]), *words[at + 2 :]]
        elif name == "STAT" and len(words) > at + 1 and words[at + 1] in ("<", "N") and len(words[at]) <= 2:
            words = [*words[:at], words[at] + words[at + 1], *words[at + 2 :]]
    return words


def _short_name(words: list[str], at: int) -> list[str]:
    """``comm`` and ``args`` in one table: a short name with a blank in it ("tmux: server") is told by its colon."""
    if at < len(words) and words[at].endswith(":") and at + 1 < len(words):
        return [*words[:at], f"{words[at]} {words[at + 1]}", *words[at + 2 :]]
    return words


def _typed(values: dict[str, str], command: str | None) -> dict[str, Any] | None:
    named = {_COLUMNS[name]: word for name, word in values.items() if name in _COLUMNS and name not in _TEXT}
    pid = whole(named.get("pid", named.get("tid", "")))
    if pid is None or pid < 0:
        return None
    if "PID" in values and "SPID" not in values and "LWP" not in values and whole(values["PID"]) is None:
        return None
    cpu = number(named["cpu_pct"].rstrip("%")) if "cpu_pct" in named else None
    kib = size_kib(named["rss_kib"]) if "rss_kib" in named else None
    wchan = named.get("wchan")
    depth, clean = _depth(command) if command is not None else (None, None)
    return {
        "pid": pid,
        "tid": whole(named.get("tid", "")) if "tid" in named else None,
        "ppid": whole(named.get("ppid", "")),
        "user": named.get("user"),
        "state": named.get("state"),
        "cpu_pct": cpu,
        "rss_mib": None if kib is None else round(kib / 1024, 1),
        "threads": whole(named.get("threads", "")),
        "wchan": None if wchan in ("-", "0", "?", "*") else wchan,
        "command": clean or None,
        "mem_pct": number(named["mem_pct"].rstrip("%")) if "mem_pct" in named else None,
        "vsz_pct": number(named["vsz_pct"].rstrip("%")) if "vsz_pct" in named else None,
        "elapsed_s": elapsed_s(named["elapsed"]) if "elapsed" in named else None,
        "depth": depth,
    }


def elapsed_s(text: str) -> int | None:
    """ps's [[DD-]HH:]MM:SS, or seconds (etimes)."""
    if text.isdigit():
        return whole(text)
    found = re.fullmatch(r"(?:(?:(\d{1,6})-)?(\d{1,3}):)?(\d{1,3}):(\d\d)", text)
    if not found:
        return None
    days, hours, minutes, seconds = (int(group or 0) for group in found.groups())
    return ((24 * days + hours) * 60 + minutes) * 60 + seconds


def _depth(command: str) -> tuple[int | None, str]:
    """How deep a tree's lines put the command, and the command without them."""
    mark = _TREE.match(command)
    if mark:
        return len(mark[1]), command[mark.end() :].strip()
    return None, command.strip()


def _parents(rows: list[dict[str, Any]]) -> None:
    """Parents from a tree's indentation, where the table has no PPID."""
    above: list[tuple[int, int]] = []
    for row in rows:
        depth = row["depth"] or 0
        while above and above[-1][0] >= depth:
            above.pop()
        if row["ppid"] is None and above and depth:
            row["ppid"] = above[-1][1]
        above.append((depth, row["pid"]))


def size_kib(text: str) -> float | None:
    """A size as top and ps print it: KiB, or with a unit ("2.2g")."""
    found = re.fullmatch(r"(\d{1,18}(?:[.,]\d{1,6})?)([kmgtp]?)i?b?", text.strip().lower()) if len(text) < 30 else None
    value = number(found[1]) if found else None
    return None if found is None or value is None else value * _UNITS.get(found[2], 1.0)


def one_row_a_process(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of threads (ps -L, -T) put together: CPU shares added up, threads counted; other rows as they are."""
    merged: dict[int, dict[str, Any]] = {}
    for row in rows:
        if row["tid"] is None:
            merged[len(merged) + 2**32] = row
            continue
        first = merged.setdefault(row["pid"], row | {"cpu_pct": None, "counted": 0})
        first["counted"] += 1
        if row["cpu_pct"] is not None:
            first["cpu_pct"] = round((first["cpu_pct"] or 0.0) + row["cpu_pct"], 2)
    for row in merged.values():
        if row.get("counted"):
            row["threads"] = row["threads"] or row["counted"]
    return list(merged.values())
