"""What runs on the host: processor share over a short window, memory, state, and what a sleeping process waits for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.process_tables import Table, one_row_a_process, read_table
from diag_kit.observe.raw import frame, number, part, parts, whole
from diag_kit.observe.system.found import numbered
from diag_kit.observe.system.vocabulary import CPU, CPU_PER_CORE, MEMORY
from diag_kit.observe.tool_errors import tool_errors
from diag_kit.observe.top_text import Screen, is_top, read_top
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
    "mem_pct": "float64",
    "vsz_pct": "float64",
    "elapsed_s": "Int64",
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


@dataclass(slots=True)
class _Pasted:
    rows: list[dict[str, Any]] = field(default_factory=list)
    odd: list[NotUnderstood] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    tables: dict[str, Any] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def _pasted(text: str) -> _Pasted:
    """ps or top, of procps or busybox."""
    found = _Pasted()
    if is_top(text):
        screens, table, found.odd = read_top(text)
        _add_screens(found, screens, table)
        source = "top"
    else:
        table = read_table([(at, line) for at, line in numbered(text)])
        found.rows = one_row_a_process(table.rows)
        source = "ps"
        if len(table.rows) > len(found.rows):
            found.facts.append(Fact("threads_counted", len(table.rows), "rows of ps, one for each thread"))
    found.odd = [*found.odd, *table.unknown, *table.odd]
    if table.left_out:
        found.facts.append(Fact("processes_left_out", table.left_out, f'lines "... N more" in the pasted {source}'))
    if found.rows:
        since = "share since the process began (ps)" if source == "ps" else "share over top's interval"
        known = any(row["cpu_pct"] is not None for row in found.rows)
        found.facts.append(Fact("cpu_pct_is", since if known else None, source))
    if not found.rows and (said := tool_errors(text)):
        found.problems.extend(said)
    return found


def _add_screens(found: _Pasted, screens: list[Screen], table: Table) -> None:
    """The rows of the last whole screen; the CPU lines of all screens but the first, which counts since boot."""
    by_screen: dict[int, list[dict[str, Any]]] = {}
    for row in table.rows:
        by_screen.setdefault(row["header"], []).append(row)
    most = max((len(rows) for rows in by_screen.values()), default=0)
    whole_screens = [rows for rows in by_screen.values() if 2 * len(rows) >= most]
    rows = whole_screens[-1] if whole_screens else []
    if any(screen.threads for screen in screens):
        found.facts.append(Fact("threads_listed", len(rows), "top -H: one row a thread"))
        found.tables["threads"] = frame(rows, PROCESSES)
    else:
        found.rows = rows
    kept = screens[1:] if len(screens) > 1 else screens
    cpus = [screen.cpu for screen in kept if screen.cpu]
    cores = [core for screen in kept for core in screen.cores]
    if cpus:
        found.tables["cpu"] = frame(cpus, CPU)
    if cores:
        found.tables["cpu_per_core"] = frame(cores, CPU_PER_CORE)
    if screens and screens[-1].memory:
        found.tables["memory"] = frame([screens[-1].memory], dict.fromkeys(MEMORY, "Int64"))
        found.facts.append(Fact("memory_total_bytes", screens[-1].memory.get("total_bytes"), "top", "bytes"))
    if screens and screens[-1].load:
        names = ("load_1min", "load_5min", "load_15min")
        found.facts += [Fact(name, value, "top") for name, value in zip(names, screens[-1].load, strict=False)]
    if screens and screens[-1].zombies is not None:
        found.facts.append(Fact("zombie_processes", screens[-1].zombies, "top"))


@probe
@dataclass(frozen=True)
class Processes:
    """All processes: processor share over ``seconds`` (100 = one core; not ps's average since the start), memory,
    state, wchan.

    Two readings of /proc/PID/stat, no other tool needed; command lines (first 300 characters) come from ps where it
    exists. Equivalent: ``top -b -d 1 -n 2``. Reads pasted ps and top of procps and busybox too: there cpu_pct is what was
    printed, and the fact cpu_pct_is says over which time (ps: since each process began).

    Tables: ``processes`` (pid ppid user state cpu_pct rss_mib threads wchan command mem_pct vsz_pct elapsed_s), busiest first,
    one row a process also where threads were listed; from top also ``cpu``, ``cpu_per_core``, ``memory`` as the probes of those
    names give them, and ``threads`` for top -H. Facts: processes_in_disk_sleep, processes_left_out ("... 29 more"),
    threads_counted, threads_listed, zombie_processes, load_1min, load_5min, load_15min, memory_total_bytes, cpu_pct_is. A
    column that was not printed is missing.
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
        facts: list[Fact] = []
        tables: dict[str, Any] = {}
        if part(pieces, "second") is not None:
            rows = _sampled(pieces)
            if part(pieces, "end") is None:
                problems.append("the list of processes was cut off")
        else:
            pasted = _pasted(text)
            rows, strange, problems = pasted.rows, pasted.odd[:50], pasted.problems
            facts, tables = pasted.facts, pasted.tables
        rows.sort(key=lambda row: -(row["cpu_pct"] or 0.0))
        if not rows and not problems and not tables:
            problems.append("no process could be listed")
        stuck = sum(str(row["state"] or "").startswith("D") for row in rows)
        if any(row["state"] for row in rows):
            facts.append(Fact("processes_in_disk_sleep", stuck, "process states"))
        tables["processes"] = frame(rows, PROCESSES)
        said = tuple(fact for fact in facts if fact.value is not None)
        summary = _summary(rows, stuck) if rows or "threads" not in tables else f"{len(tables['threads'])} threads"
        return Parsed(summary, said, tables, tuple(strange), tuple(problems))


def _summary(rows: list[dict[str, Any]], stuck: int) -> str:
    busy = [row for row in rows if (row["cpu_pct"] or 0.0) >= 5.0]
    known = [row["cpu_pct"] for row in rows if row["cpu_pct"] is not None]
    text = f"{len(rows)} processes" + (f", {sum(known) / 100:.1f} cores busy" if known else "")
    if busy:
        text += f", busiest {str(busy[0]['command'])[:60]} ({busy[0]['cpu_pct']:.0f} %)"
    return text + (f", {stuck} wait in uninterruptible sleep" if stuck >= _STUCK else "")
