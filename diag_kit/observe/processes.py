"""What runs on the host: processor share over a short window, memory, state, and what a sleeping process waits for."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, number, part, parts, whole
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

PROCESSES = {
    "pid": "Int64",
    "ppid": "Int64",
    "user": "string",
    "state": "string",
    "cpu_pct": "float64",
    "rss_mib": "float64",
    "threads": "Int64",
    "wchan": "string",
    "command": "string",
}

_SCRIPT = r"""
stamp() { read -r up rest < /proc/uptime; echo "$up"; }
echo '==diag_kit:about=='
echo "hz $(getconf CLK_TCK 2>/dev/null || echo 100)"
echo "page $(getconf PAGESIZE 2>/dev/null || echo 4096)"
echo '==diag_kit:first=='
stamp; cat /proc/[0-9]*/stat 2>/dev/null
sleep "$1"
echo '==diag_kit:second=='
stamp; cat /proc/[0-9]*/stat 2>/dev/null
echo '==diag_kit:wchan=='
for each in /proc/[0-9]*; do
  where=; read -r where < "$each/wchan"
  [ -n "$where" ] && [ "$where" != 0 ] && echo "${each#/proc/} $where"
done 2>/dev/null
echo '==diag_kit:users=='
stat -c '%n %U' /proc/[0-9]* 2>/dev/null | sed 's#^/proc/##'
echo '==diag_kit:commands=='
ps -eo pid=,args= 2>/dev/null | cut -c1-300 || ps -o pid,args | cut -c1-300
echo '==diag_kit:end=='
"""

_TOP_COLUMNS = {"PID": "pid", "PPID": "ppid", "USER": "user", "UID": "user", "S": "state", "STAT": "state"}
_TOP_COLUMNS |= {"%CPU": "cpu_pct", "C": "cpu_pct", "RSS": "rss_kib", "RES": "rss_kib", "NLWP": "threads", "THCNT": "threads"}
_TOP_COLUMNS |= {"WCHAN": "wchan", "COMMAND": "command", "CMD": "command", "ARGS": "command"}
_HEADER = re.compile(r"^\s*(?:\S+\s+)*PID\s+.*\b(?:COMMAND|CMD|ARGS)\s*$")
_UNITS = {"k": 1.0, "m": 1024.0, "g": 1024.0**2, "t": 1024.0**3}
_STUCK = 2
"""Processes in uninterruptible sleep that are worth a sentence: one is often a moment's disk read."""


def _stats(text: str) -> tuple[float | None, dict[int, list[str]], dict[int, str]]:
    """Uptime, and for each pid the fields of /proc/PID/stat after the name, by proc(5)."""
    lines = text.split("\n")
    fields: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for line in lines[1:]:
        head, _, rest = line.rpartition(")")
        pid_text, _, name = head.partition("(")
        pid = whole(pid_text)
        if pid is not None and len(rest.split()) > 21:
            fields[pid], names[pid] = rest.split(), name
    return number(lines[0]) if lines else None, fields, names


def _pairs(text: str | None) -> dict[int, str]:
    found = {}
    for line in (text or "").split("\n"):
        first, _, rest = line.strip().partition(" ")
        pid = whole(first)
        if pid is not None and rest:
            found[pid] = rest.strip()
    return found


def _sampled(pieces: list[tuple[str, str]]) -> list[dict[str, Any]]:
    about = dict(line.split(" ", 1) for line in (part(pieces, "about") or "").split("\n") if " " in line)
    hz, page = whole(about.get("hz", "")) or 100, whole(about.get("page", "")) or 4096
    before_s, before, _ = _stats(part(pieces, "first") or "")
    after_s, after, names = _stats(part(pieces, "second") or "")
    window_s = after_s - before_s if before_s is not None and after_s is not None else 0.0
    wchan, users, commands = (_pairs(part(pieces, name)) for name in ("wchan", "users", "commands"))
    rows = []
    for pid, fields in after.items():
        ticks = [whole(text) or 0 for text in fields[11:13]]
        earlier = [whole(text) or 0 for text in before[pid][11:13]] if pid in before else None
        cpu = 100 * (sum(ticks) - sum(earlier)) / hz / window_s if earlier is not None and window_s > 0 else None
        rss = whole(fields[21])
        rows.append(
            {
                "pid": pid,
                "ppid": whole(fields[1]),
                "user": users.get(pid),
                "state": fields[0],
                "cpu_pct": None if cpu is None else round(max(cpu, 0.0), 1),
                "rss_mib": None if rss is None else round(rss * page / 2**20, 1),
                "threads": whole(fields[17]),
                "wchan": wchan.get(pid),
                "command": commands.get(pid, f"[{names[pid]}]"),
            }
        )
    return rows


def _size_kib(text: str) -> float | None:
    """A size as top and ps print it: KiB, or with a unit ("2.2g")."""
    found = re.fullmatch(r"([\d.]+)([kmgt]?)i?b?", text.strip().lower())
    value = number(found[1]) if found else None
    return None if found is None or value is None else value * _UNITS.get(found[2], 1.0)


def _pasted(text: str) -> Iterator[dict[str, Any] | NotUnderstood]:
    """``ps aux``, ``ps -ef``, ``ps -eo ...``, ``top -b``, busybox's forms: by the header's words, the command last."""
    columns: list[str] = []
    for position, line in enumerate(text.split("\n"), start=1):
        if _HEADER.match(line):
            columns = line.split()
            continue
        words = line.split(None, len(columns) - 1) if columns else []
        if not columns or not line.strip():
            columns = columns if line.strip() else []
            continue
        row = _pasted_row(columns, words)
        yield row if row is not None else NotUnderstood(f"line {position}", line[:200], "does not fit the header above it")


def _pasted_row(columns: list[str], words: list[str]) -> dict[str, Any] | None:
    if words and columns[:2] == ["PID", "USER"]:
        # busybox pads the pid to five places: longer ones run into the user
        glued = re.fullmatch(r"(\d+)([a-z_]\S*)", words[0])
        if glued:
            words = [glued[1], glued[2], *" ".join(words[1:]).split(None, len(columns) - 3)]
    if len(words) < len(columns):
        return None
    values = {_TOP_COLUMNS[name]: word for name, word in zip(columns, words, strict=False) if name in _TOP_COLUMNS}
    pid = whole(values.get("pid", ""))
    if pid is None:
        return None
    kib = _size_kib(values["rss_kib"]) if "rss_kib" in values else None
    return {
        "pid": pid,
        "ppid": whole(values.get("ppid", "")),
        "user": values.get("user"),
        "state": values.get("state"),
        "cpu_pct": number(values["cpu_pct"].rstrip("%")) if "cpu_pct" in values else None,
        "rss_mib": None if kib is None else round(kib / 1024, 1),
        "threads": whole(values.get("threads", "")),
        "wchan": values.get("wchan"),
        "command": values.get("command"),
    }


@probe
@dataclass(frozen=True)
class Processes:
    """All processes: processor share over ``seconds`` (100 = one core; not ps's average since the start), memory,
    state, wchan.

    Two readings of /proc/PID/stat, no other tool needed; command lines (first 300 characters) come from ps where it
    exists. Reads pasted ``ps`` and ``top -b`` too. Table ``processes``, busiest first. Equivalent: ``top -b -d 1 -n
    2``.
    """

    seconds: float = 1.0

    name: ClassVar[str] = "processes"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "top -b -d 1 -n 2; ps -eo pid,ppid,user,stat,rss,nlwp,wchan:32,args"
    reads: ClassVar[tuple[str, ...]] = ("ps", "top")

    @property
    def budget_s(self) -> float:
        return self.seconds + 5.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(_SCRIPT, f"{self.seconds:g}", timeout_s=self.seconds + 20.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        text = results[0].text if results else ""
        pieces = parts(text)
        strange: list[NotUnderstood] = []
        problems: list[str] = []
        if part(pieces, "second") is not None:
            rows = _sampled(pieces)
            if part(pieces, "end") is None:
                problems.append("the list of processes was cut off")
        else:
            found = list(_pasted(text))
            rows = [row for row in found if isinstance(row, dict)]
            strange = [row for row in found if isinstance(row, NotUnderstood)][:50]
        rows.sort(key=lambda row: -(row["cpu_pct"] or 0.0))
        if not rows:
            problems.append("no process could be listed")
        stuck = sum(str(row["state"] or "").startswith("D") for row in rows)
        facts = (Fact("processes_in_disk_sleep", stuck, "process states"),) if rows else ()
        return Parsed(_summary(rows, stuck), facts, {"processes": frame(rows, PROCESSES)}, tuple(strange), tuple(problems))


def _summary(rows: list[dict[str, Any]], stuck: int) -> str:
    busy = [row for row in rows if (row["cpu_pct"] or 0.0) >= 5.0]
    known = [row["cpu_pct"] for row in rows if row["cpu_pct"] is not None]
    text = f"{len(rows)} processes" + (f", {sum(known) / 100:.1f} cores busy" if known else "")
    if busy:
        text += f", busiest {str(busy[0]['command'])[:60]} ({busy[0]['cpu_pct']:.0f} %)"
    return text + (f", {stuck} wait in uninterruptible sleep" if stuck >= _STUCK else "")
