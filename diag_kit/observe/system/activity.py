"""What each rank and each of its loader processes does over a short window: CPU, waiting for a CPU, bytes, faults, switches."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.opened_files import rank_arguments
from diag_kit.observe.probe import probe
from diag_kit.observe.processes import PROCESSES
from diag_kit.observe.raw import number, part, parts, whole, why_cut_short
from diag_kit.observe.system.activity_text import read_pidstat
from diag_kit.observe.system.found import Found
from diag_kit.observe.system.pasted import Reader, read_pasted
from diag_kit.observe.system.process_files import (
    read_cgroup_path,
    read_environment,
    read_io,
    read_open_files,
    read_pid_stat,
    read_schedstat,
    read_stack,
    read_status,
)
from diag_kit.observe.system.vocabulary import ACTIVITY, COUNTERS, ENVIRONMENT, OPEN_FILES, PROCESS_DETAILS
from diag_kit.records import CommandResult, Cost, Parsed

SCRIPT = r"""
seconds=$1; shift
export LC_ALL=C
roots=' '; for pair in "$@"; do roots="$roots${pair##*:} "; done
echo '==diag_kit:about=='
echo "hz $(getconf CLK_TCK 2>/dev/null || echo 100)"
for pair in "$@"; do echo "rank ${pair%%:*} ${pair##*:}"; done
tree=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$roots" '
    { pid = $1; line = $0; sub(/^.*\) /, "", line); split(line, f, " "); parent[pid] = f[2]; order[n++] = pid }
    END { for (i = 0; i < n && shown < 1500; i++) { q = order[i]; d = 0
        while ((q in parent) && d < 6) { if (index(roots, " " q " ")) { print order[i], q; shown++; break }
         q = parent[q]; d++ } } }')
echo "$tree" | sed 's/^/of /'
set --
for pid in $(echo "$tree" | cut -d' ' -f1); do
    set -- "$@" "/proc/$pid/stat" "/proc/$pid/io" "/proc/$pid/schedstat" "/proc/$pid/status"
done
[ $# -gt 0 ] || { echo '==diag_kit:nobody=='; exit 0; }
want='^[0-9]+ |^(rchar|wchar|read_bytes|write_bytes): |^(VmRSS|Threads|voluntary_ctxt_switches|nonvoluntary_ctxt_switches):'
echo '==diag_kit:first=='
cat /proc/uptime; date +%s.%N; grep -sE "$want" /dev/null "$@"
sleep "$seconds"
echo '==diag_kit:second=='
cat /proc/uptime; date +%s.%N; grep -sE "$want" /dev/null "$@"
echo '==diag_kit:end=='
"""
READERS: Mapping[str, Reader] = {
    "pidstat": read_pidstat,
    "proc_status": read_status,
    "proc_io": read_io,
    "proc_pid_stat": read_pid_stat,
    "proc_cgroup": read_cgroup_path,
    "proc_schedstat": read_schedstat,
    "kernel_stack": read_stack,
    "open_files": read_open_files,
    "environment": read_environment,
}
TABLES = {
    "activity": ACTIVITY,
    "processes": PROCESSES,
    "process_details": PROCESS_DETAILS,
    "open_files": OPEN_FILES,
    "environment": ENVIRONMENT,
    "counters": COUNTERS,
}
_LINE = re.compile(r"^/proc/(\d{1,9})/(stat|io|schedstat|status):(.*)$")


@probe
@dataclass(frozen=True)
class Activity:
    """Each rank and every process below it (loader workers, their helpers) over ``seconds``: who computes, who waits, who reads.

    Equivalent: ``pidstat -u -d -r -w -p PIDS 5 1``; it reads /proc/PID/stat, io, schedstat and status twice, no tool needed.
    Reads pasted pidstat and files of /proc/PID (status, io, stat, cgroup, schedstat, wchan, stack, fd, environ) too; of an
    environment the chosen variables only.

    Tables: ``activity`` (columns in ``vocabulary``; role is rank, worker or helper; 100 % is one core; wait_pct is time ready
    to run without a CPU, from schedstat; read_call_mb_per_s is what read() returned, the page cache included, read_mb_per_s what
    storage gave; 1e6 bytes); pasted also ``process_details`` (pid name value), ``open_files``, ``environment``, ``counters``.
    Facts: activity_window_s, ranks_cpu_pct and workers_cpu_pct (means), worker_processes, busiest_worker_pct, workers_wait_pct
    (mean wait_pct); pasted: process_threads, process_rss_bytes, cpus_allowed and others of the same names as in /proc.
    """

    seconds: float = 5.0

    name: ClassVar[str] = "activity"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "pidstat -u -d -r -w -p PIDS 5 1   # the ranks and their loader processes"
    reads: ClassVar[tuple[str, ...]] = tuple(READERS)

    @property
    def budget_s(self) -> float:
        return self.seconds + 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        ranks = rank_arguments(known)
        return (host.run(SCRIPT, f"{self.seconds:g}", *ranks, timeout_s=self.seconds + 20.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found = Found()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "about") is None:
                read_pasted(result, READERS, found)
            else:
                _add_own(found, pieces)
                if cut := why_cut_short(result):
                    found.problems.append(cut)
        return found.parsed(TABLES, "no process could be read")


@dataclass(frozen=True, slots=True)
class _Reading:
    up_s: float | None
    t: datetime | None
    stats: Mapping[int, tuple[str, list[str]]]
    values: Mapping[int, Mapping[str, int]]


def _reading(text: str) -> _Reading:
    lines = text.splitlines()
    up = number(lines[0].split()[0]) if lines and lines[0].split() else None
    wall = number(re.sub(r"\.(?!\d).*$", "", lines[1].strip())) if len(lines) > 1 else None
    stats: dict[int, tuple[str, list[str]]] = {}
    values: dict[int, dict[str, int]] = {}
    for line in lines[2:]:
        match = _LINE.match(line)
        if not match:
            continue
        pid, kind, rest = int(match[1]), match[2], match[3]
        own = values.setdefault(pid, {})
        if kind == "stat":
            head, _, fields = rest.rpartition(")")
            if len(fields.split()) > 21:
                stats[pid] = (head.partition("(")[2], fields.split())
        elif kind == "schedstat":
            counts = [whole(word) for word in rest.split()]
            if len(counts) == 3 and counts[1] is not None:
                own["wait_ns"] = counts[1]
        else:
            name, _, value = rest.partition(":")
            amount = whole(value.replace("kB", ""))
            if amount is not None:
                own[name] = amount
    t = datetime.fromtimestamp(wall, UTC) if wall is not None and 0 < wall < 4e9 else None
    return _Reading(up, t, stats, values)


def _add_own(found: Found, pieces: Sequence[tuple[str, str]]) -> None:
    hz, ranks, owners = 100, {}, {}
    for line in (part(pieces, "about") or "").splitlines():
        words = line.split()
        numbers = [whole(word) for word in words[1:]]
        if words[:1] == ["hz"] and numbers and numbers[0]:
            hz = numbers[0]
        elif len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
            if words[0] == "rank":
                ranks[numbers[1]] = numbers[0]
            elif words[0] == "of":
                owners[numbers[0]] = numbers[1]
    first, second = _reading(part(pieces, "first") or ""), _reading(part(pieces, "second") or "")
    seconds = second.up_s - first.up_s if first.up_s is not None and second.up_s is not None else 0.0
    if part(pieces, "nobody") is not None or seconds <= 0:
        found.problems.append("the processes of the ranks have ended, or were not read twice")
        return
    found.fact("activity_window_s", round(seconds, 2), "/proc/uptime", "s")
    for pid in second.stats:
        if pid in first.stats and pid in owners:
            found.rows["activity"].append(_row(pid, first, second, hz, seconds, ranks, owners))
    blind = [pid for pid in second.stats if "rchar" not in second.values.get(pid, {})]
    if blind:
        found.problems.append(f"the bytes of {len(blind)} processes may not be read: they belong to another user")
    _add_facts(found)


def _row(
    pid: int, first: _Reading, second: _Reading, hz: int, seconds: float, ranks: Mapping[int, int], owners: Mapping[int, int]
) -> dict[str, Any]:
    name, fields = second.stats[pid]
    before = first.stats[pid][1]
    one, two = first.values.get(pid, {}), second.values.get(pid, {})

    def ticks(at: int) -> float | None:
        a, b = whole(before[at]), whole(fields[at])
        return None if a is None or b is None else round(100 * max(0, b - a) / hz / seconds, 2)

    def per_s(key: str, factor: float = 1.0) -> float | None:
        return max(0, two[key] - one[key]) * factor / seconds if key in one and key in two else None

    user, system, wait = ticks(11), ticks(12), per_s("wait_ns", 1e-7)
    minor, major = (whole(fields[at]) for at in (7, 9))
    minor_before, major_before = (whole(before[at]) for at in (7, 9))
    return {
        "t": second.t,
        "rank": ranks.get(owners[pid]),
        "pid": pid,
        "parent_pid": whole(fields[1]),
        "role": "rank" if pid in ranks else _role(name, second.stats.get(owners[pid], ("", []))[0]),
        "command": name,
        "user_pct": user,
        "system_pct": system,
        "cpu_pct": None if user is None or system is None else round(user + system, 2),
        "wait_pct": None if wait is None else round(wait, 2),
        "cpu": whole(fields[36]) if len(fields) > 36 else None,
        "read_mb_per_s": per_s("read_bytes", 1e-6),
        "write_mb_per_s": per_s("write_bytes", 1e-6),
        "read_call_mb_per_s": per_s("rchar", 1e-6),
        "minor_faults_per_s": None if minor is None or minor_before is None else max(0, minor - minor_before) / seconds,
        "major_faults_per_s": None if major is None or major_before is None else max(0, major - major_before) / seconds,
        "rss_bytes": two["VmRSS"] * 1024 if "VmRSS" in two else None,
        "voluntary_switches_per_s": per_s("voluntary_ctxt_switches"),
        "involuntary_switches_per_s": per_s("nonvoluntary_ctxt_switches"),
        "threads": two.get("Threads"),
    }


def _role(name: str, rank: str) -> str:
    """worker: runs what the rank runs (a fork, or a spawned Python); helper: any other program below it."""
    return "worker" if name == rank or name.startswith(("pt_", "python")) else "helper"


def _add_facts(found: Found) -> None:
    source = "/proc/PID/stat and schedstat over the window"
    for role, name in (("rank", "ranks"), ("worker", "workers")):
        rows = [row for row in found.rows["activity"] if row["role"] == role]
        shares = [row["cpu_pct"] for row in rows if row["cpu_pct"] is not None]
        waits = [row["wait_pct"] for row in rows if row["wait_pct"] is not None]
        if shares:
            found.fact(f"{name}_cpu_pct", round(sum(shares) / len(shares), 2), source, "%")
            found.said.append(f"{len(rows)} {name} at {sum(shares) / len(shares):.0f} % of a core each")
        if waits:
            found.fact(f"{name}_wait_pct", round(sum(waits) / len(waits), 2), source, "%")
        if role == "worker":
            found.fact("worker_processes", len(rows), source)
            found.fact("busiest_worker_pct", max(shares) if shares else None, source, "%")
