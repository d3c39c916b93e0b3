"""What the training may use: open files, locked memory, shared memory, the cgroup's memory, huge pages, and the kernel's
settings."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import part, parts, whole, why_cut_short
from diag_kit.observe.system.found import Found
from diag_kit.observe.system.limits_text import (
    read_affinity,
    read_cgroup,
    read_counted,
    read_limits,
    read_thp,
)
from diag_kit.observe.system.pasted import Reader, read_pasted
from diag_kit.observe.system.vocabulary import AFFINITY, COUNTERS, LIMITS
from diag_kit.records import CommandResult, Cost, Parsed

SCRIPT = r"""
pid=$1
export LC_ALL=C
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
[ -r "/proc/$pid/limits" ] || pid=self
echo '==diag_kit:limits=='
cat "/proc/$pid/limits"
echo '==diag_kit:used=='
[ "$pid" = self ] || echo "open_files_used $(ls "/proc/$pid/fd" 2>/dev/null | wc -l)"
echo '==diag_kit:shm=='
bounded 5 df -P -k "/proc/$pid/root/dev/shm" 2>/dev/null | tail -n 1
echo '==diag_kit:cgroup=='
while IFS= read -r line; do
    names=${line#*:}; path=${names#*:}; names=${names%%:*}
    case $names in
        '') bases='/sys/fs/cgroup /sys/fs/cgroup/unified' ;;
        memory|pids) bases=/sys/fs/cgroup/$names ;;
        *) continue ;;
    esac
    for base in $bases; do
        for group in "$base$path" "$base"; do
            [ -d "$group" ] || continue
            for name in memory.max memory.high memory.current memory.swap.max memory.limit_in_bytes memory.usage_in_bytes \
                memory.failcnt pids.max pids.current; do
                [ -r "$group/$name" ] && echo "$name: $(cat "$group/$name")"
            done
            [ -r "$group/memory.events" ] && cat "$group/memory.events"
            break
        done
    done
done < "/proc/$pid/cgroup" 2>/dev/null
echo '==diag_kit:settings=='
for each in vm/swappiness vm/dirty_ratio vm/dirty_background_ratio vm/overcommit_memory kernel/numa_balancing kernel/pid_max; do
    [ -r "/proc/sys/$each" ] && echo "$each $(cat "/proc/sys/$each")"
done
echo '==diag_kit:thp=='
cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null
echo '==diag_kit:end=='
"""
READERS: Mapping[str, Reader] = {
    "cgroup": read_cgroup,
    "ulimit": read_limits,
    "proc_limits": read_limits,
    "thp": read_thp,
    "affinity": read_affinity,
    "counted": read_counted,
}
TABLES = {"limits": LIMITS, "affinity": AFFINITY, "counters": COUNTERS}


@probe
@dataclass(frozen=True)
class Limits:
    """Limits of the training's process (else of this login), the size of its /dev/shm, its cgroup's memory, huge pages, vm
    settings.

    Equivalent: ``cat /proc/PID/limits; df /dev/shm; cat CGROUP/memory.max CGROUP/memory.events; sysctl vm.swappiness``. Reads
    pasted cgroup files, ulimit -a, /proc/PID/limits, huge-page settings, taskset and counts (``grep -c``, ``wc -l``, ``pgrep
    -c``) too.

    Tables: ``limits`` (pid name soft hard unit unlimited; missing soft with unlimited true is "no limit"), ``affinity``,
    ``counters``.
    Facts: open_files_limit, open_files_used, locked_memory_limit_bytes, processes_limit, shm_size_bytes, shm_used_pct,
    memory_limit_bytes, memory_used_bytes, memory_high_bytes, memory_limit_hits, memory_oom_kills, pids_max, pids_current,
    thp_enabled, swappiness, dirty_ratio_pct, numa_balancing; pasted also cpu_quota_cores, cpu_throttled_fraction,
    cpu_throttled_s, cpus_allowed, threads_counted, processes_counted, threads_of_process, open_files_of_process,
    files_counted, lines_counted. A limit that is not set gives no fact.
    """

    name: ClassVar[str] = "limits"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "cat /proc/PID/limits; df /dev/shm; cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.events"
    reads: ClassVar[tuple[str, ...]] = tuple(READERS)

    @property
    def budget_s(self) -> float:
        return 15.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        job = known.number("job_pid")
        return (host.run(SCRIPT, str(int(job)) if job else "self", timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found = Found()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "limits") is None:
                read_pasted(result, READERS, found)
            else:
                _add_own(found, result, pieces)
                if cut := why_cut_short(result):
                    found.problems.append(cut)
        return found.parsed(TABLES, "no limit could be read")


_SETTINGS = {
    "vm/swappiness": ("swappiness", ""),
    "vm/dirty_ratio": ("dirty_ratio_pct", "%"),
    "vm/dirty_background_ratio": ("dirty_background_ratio_pct", "%"),
    "vm/overcommit_memory": ("overcommit_memory", ""),
    "kernel/numa_balancing": ("numa_balancing", ""),
    "kernel/pid_max": ("pid_max", ""),
}


def _as(result: CommandResult, text: str | None) -> CommandResult:
    """A part of the answer as an answer of its own."""
    started, s = result.started, result.duration_s
    return CommandResult(result.host, "", (text or "").encode(), b"", result.exit_status, started, s)


def _add_own(found: Found, result: CommandResult, pieces: Sequence[tuple[str, str]]) -> None:
    read_limits(_as(result, part(pieces, "limits")), found)
    read_cgroup(_as(result, part(pieces, "cgroup")), found)
    read_thp(_as(result, part(pieces, "thp")), found)
    for line in [*(part(pieces, "used") or "").splitlines(), *(part(pieces, "settings") or "").splitlines()]:
        name, _, value = line.partition(" ")
        known, unit = _SETTINGS.get(name, (name, ""))
        found.fact(known, whole(value), "/proc/sys" if name in _SETTINGS else "/proc/PID/fd", unit)
    words = (part(pieces, "shm") or "").split()
    numbers = [whole(word) for word in words[-5:-1]]
    if len(words) >= 6 and words[-1].endswith("/dev/shm") and numbers[0]:
        found.fact("shm_size_bytes", numbers[0] * 1024, "df /dev/shm", "bytes")
        used = numbers[1]
        found.fact("shm_used_pct", None if used is None else round(100 * used / numbers[0], 2), "df /dev/shm", "%")
    known_facts = {fact.name: fact.value for fact in found.facts}
    for name, said in (
        ("open_files_limit", "open files"),
        ("memory_limit_bytes", "bytes of memory"),
        ("shm_size_bytes", "bytes of /dev/shm"),
    ):
        amount = known_facts.get(name)
        if isinstance(amount, int):
            found.said.append(f"{amount:,} {said}")
