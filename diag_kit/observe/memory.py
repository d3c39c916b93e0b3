"""Memory, page cache, CPUs that may be used, and the mount that the data come from."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.memory_free import read_free
from diag_kit.observe.memory_limits import cgroup_facts, cpu_facts
from diag_kit.observe.memory_mounts import Mount, holder, read_mounts
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, show, whole, why_cut_short
from diag_kit.observe.tool_errors import tool_errors
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

SCRIPT = r"""
pid=$1; path=$2
export LC_ALL=C
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
echo '==diag_kit:meminfo=='
cat /proc/meminfo 2>/dev/null
echo '==diag_kit:mounts=='
cat "/proc/$pid/mounts" 2>/dev/null || { echo '==diag_kit:own_mounts=='; cat /proc/self/mounts 2>/dev/null; }
echo '==diag_kit:cpus=='
grep -c '^processor' /proc/cpuinfo 2>/dev/null
grep '^Cpus_allowed_list' "/proc/$pid/status" 2>/dev/null || grep '^Cpus_allowed_list' /proc/self/status 2>/dev/null
cat /proc/loadavg 2>/dev/null
echo '==diag_kit:cgroup=='
limits() {
    group=$2
    while :; do
        for name in memory.max cpu.max memory.limit_in_bytes cpu.cfs_quota_us cpu.cfs_period_us cpu.stat; do
            [ -r "$1$group/$name" ] && echo "$name" $(cat "$1$group/$name" 2>/dev/null)
        done
        case $group in ''|/) break;; esac
        group=${group%/*}
    done
}
while IFS= read -r line; do
    line=${line#*:}
    names=${line%%:*}
    case $names in
        '') for base in /sys/fs/cgroup /sys/fs/cgroup/unified; do
                [ -r "$base/cgroup.controllers" ] && limits "$base" "${line#*:}"
            done;;
        memory|*cpu*|*,memory*) for base in "/sys/fs/cgroup/$names" /sys/fs/cgroup/cpu; do
                [ -d "$base" ] && { limits "$base" "${line#*:}"; break; }
            done;;
    esac
done < "/proc/$pid/cgroup" 2>/dev/null
echo '==diag_kit:path=='
printf '%s\n' "$path"
[ -n "$path" ] || exit 0
echo '==diag_kit:resolved=='
if [ "$(readlink "/proc/$pid/ns/mnt" 2>/dev/null)" = "$(readlink /proc/self/ns/mnt)" ]; then
    bounded 5 readlink -f -- "$path" 2>/dev/null; [ $? -eq 124 ] && echo hung
else
    printf '%s\n' "$path"
fi
echo '==diag_kit:space=='
bounded 5 df -P -k -- "/proc/$pid/root$path" 2>/dev/null | tail -n 1
"""

MEMORY_COLUMNS = dict.fromkeys(
    ("total_bytes", "available_bytes", "cached_bytes", "dirty_bytes", "swap_used_bytes", "free_bytes", "shared_bytes"), "Int64"
)
MOUNT_COLUMNS = {"path": "str", "source": "str", "fstype": "str", "kind": "str"}


@dataclass(slots=True)
class _Gathered:
    facts: list[Fact] = field(default_factory=list)
    memory: list[dict[str, int | None]] = field(default_factory=list)
    mounts: list[Mount] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@probe
@dataclass(frozen=True)
class Memory:
    """Free memory and page cache, the CPUs and memory that the training may use, the load, and the mount of its data.

    Equivalent: ``cat /proc/meminfo /proc/PID/mounts /proc/PID/cgroup /proc/loadavg; df -P DATA``. Mounts and limits are those
    of the training's own process where one is known (its container), else those of the login. ``path``: the data folder; None
    takes the one that was found.

    Tables: ``memory`` (one row: total_bytes available_bytes cached_bytes dirty_bytes swap_used_bytes free_bytes shared_bytes),
    ``mounts`` (path source fstype kind), kind being local, network, overlay, memory or fuse (unknown); a volume of a cloud
    looks local. Facts: page_cache_bytes (Cached less Shmem: what of it can hold files of a disk), memory_total_bytes,
    memory_limit_bytes, cpu_count, cpus_allowed, cpu_quota_cores, cpu_throttled_fraction, load_1min, data_mount_type,
    data_mount_source, data_mount_kind, data_mount_free_bytes, data_mount_used_pct.
    """

    path: str | None = None

    name: ClassVar[str] = "memory"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "cat /proc/meminfo /proc/PID/mounts /proc/loadavg /sys/fs/cgroup/cpu.max"
    reads: ClassVar[tuple[str, ...]] = ("meminfo", "free")

    @property
    def budget_s(self) -> float:
        return 15.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        job = known.number("job_pid")
        folder = known.fact("data_dir")
        path = self.path or (str(folder.fact.value) if folder else "")
        return (host.run(SCRIPT, str(int(job)) if job else "self", path, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        gathered = _Gathered()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "meminfo") is None:
                _add_pasted(gathered, result)
            else:
                _add_own(gathered, result, pieces)
            if cut := why_cut_short(result):
                gathered.problems.append(cut)
        rows = [{"path": each.path, "source": each.source, "fstype": each.fstype, "kind": each.kind} for each in gathered.mounts]
        return Parsed(
            summary=_summary(gathered),
            facts=tuple(gathered.facts),
            tables={"memory": frame(gathered.memory[-1:], MEMORY_COLUMNS), "mounts": frame(rows, MOUNT_COLUMNS)},
            not_understood=tuple(gathered.not_understood),
            problems=tuple(dict.fromkeys(gathered.problems)),
        )


def _add_own(gathered: _Gathered, result: CommandResult, pieces: list[tuple[str, str]]) -> None:
    own = part(pieces, "own_mounts")
    mounts = read_mounts(part(pieces, "mounts") or own or "", gathered.not_understood)
    gathered.mounts.extend(mounts)
    whose = "this login" if own is not None or "diag_kit self" in result.command else "the training"
    if own is not None:
        gathered.problems.append(f"the training's mounts on {result.host} may not be read: those of this login stand in")
    _add_meminfo(gathered, part(pieces, "meminfo") or "")
    if not gathered.memory:
        gathered.problems.append(f"{result.host} has no readable /proc/meminfo: memory and page cache stay blind")
    gathered.facts.extend(cpu_facts(part(pieces, "cpus") or "", whose))
    gathered.facts.extend(cgroup_facts(part(pieces, "cgroup") or "", whose))
    _add_data_mount(gathered, pieces, mounts)


def _add_data_mount(gathered: _Gathered, pieces: list[tuple[str, str]], mounts: list[Mount]) -> None:
    given = (part(pieces, "path") or "").strip()
    if not given:
        return
    answer = (part(pieces, "resolved") or "").strip()
    space = (part(pieces, "space") or "").split()
    if answer == "hung":
        gathered.problems.append(f"{show(given)} did not answer within 5 s: its mount hangs")
    elif part(pieces, "space") is not None and not space:
        gathered.problems.append(f"{show(given)} is not there, may not be read, or hangs: its mount is told from the path alone")
    mount = holder(answer if answer.startswith("/") else given, mounts)
    if mount is None:
        return
    source = f"mount {mount.path} that holds {given}"
    gathered.facts.append(Fact("data_mount_type", mount.fstype, source))
    gathered.facts.append(Fact("data_mount_source", mount.source, source))
    gathered.facts.append(Fact("data_mount_kind", mount.kind, source))
    numbers = [whole(word) for word in space[-5:-2]]
    if len(numbers) == 3 and (used := numbers[1]) is not None and (free := numbers[2]) is not None and used + free > 0:
        gathered.facts.append(Fact("data_mount_free_bytes", free * 1024, f"df of {given}", "bytes"))
        share = round(100 * used / (used + free), 2)  # of what users may fill, as df itself: some blocks are kept for root
        gathered.facts.append(Fact("data_mount_used_pct", share, f"df of {given}", "%"))


def _add_meminfo(gathered: _Gathered, text: str) -> None:
    kib: dict[str, int] = {}
    for line in text.splitlines():
        if match := re.match(r"^(\w+):\s+(\d{1,15}) kB$", line.strip()):
            kib.setdefault(match[1], int(match[2]))
    if "MemTotal" not in kib:
        return
    swap = kib["SwapTotal"] - kib["SwapFree"] if {"SwapTotal", "SwapFree"} <= kib.keys() else None
    values = (
        *(kib.get(name) for name in ("MemTotal", "MemAvailable", "Cached", "Dirty")),
        swap,
        kib.get("MemFree"),
        kib.get("Shmem"),
    )
    gathered.memory.append({name: None if v is None else v * 1024 for name, v in zip(MEMORY_COLUMNS, values, strict=True)})
    gathered.facts.append(Fact("memory_total_bytes", kib["MemTotal"] * 1024, "/proc/meminfo MemTotal", "bytes"))
    if "Cached" in kib:
        files = max(0, kib["Cached"] - kib.get("Shmem", 0)) * 1024
        source = "/proc/meminfo Cached less Shmem" if "Shmem" in kib else "/proc/meminfo Cached"
        gathered.facts.append(Fact("page_cache_bytes", files, source, "bytes"))


def _add_pasted(gathered: _Gathered, result: CommandResult) -> None:
    _add_meminfo(gathered, result.text)
    if not gathered.memory:
        free = read_free(result.text, result.command)
        gathered.memory.extend(free.rows[-1:])
        gathered.not_understood.extend(free.odd)
        if free.rows:
            gathered.facts.append(Fact("memory_total_bytes", free.rows[-1]["total_bytes"], "free", "bytes"))
    if not gathered.memory:
        gathered.problems.extend(tool_errors(result.text))
        gathered.problems.append(f"no memory figures could be read from {show(result.command)}")


def _summary(gathered: _Gathered) -> str:
    known = {fact.name: fact.value for fact in gathered.facts}
    said = []
    total, cache = known.get("memory_total_bytes"), known.get("page_cache_bytes")
    if isinstance(total, int):
        said.append(
            f"{total / 1e9:.0f} GB memory" + (f", {cache / 1e9:.0f} GB of it page cache" if isinstance(cache, int) else "")
        )
    if known.get("data_mount_type"):
        said.append(f"data on {known['data_mount_type']} ({known['data_mount_kind']})")
    if "cpu_quota_cores" in known:
        said.append(f"CPU quota {known['cpu_quota_cores']} cores")
    elif "cpus_allowed" in known:
        said.append(f"{known['cpus_allowed']} CPUs allowed, load {known.get('load_1min', '?')}")
    return ", ".join(said) or (gathered.problems[0] if gathered.problems else "no memory figures")
