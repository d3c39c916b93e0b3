"""Memory, page cache, CPUs, and which mount the data come from."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, whole, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

SCRIPT = r"""
pid=$1
echo '==diag_kit:meminfo=='
cat /proc/meminfo 2>/dev/null
echo '==diag_kit:mounts=='
cat "/proc/$pid/mounts" 2>/dev/null || cat /proc/self/mounts 2>/dev/null
echo '==diag_kit:cpus=='
grep -c '^processor' /proc/cpuinfo 2>/dev/null
grep '^Cpus_allowed_list' "/proc/$pid/status" 2>/dev/null || grep '^Cpus_allowed_list' /proc/self/status 2>/dev/null
cat /proc/loadavg 2>/dev/null
echo '==diag_kit:cgroup=='
group=$(sed -n 's/^0:://p' "/proc/$pid/cgroup" 2>/dev/null)
for name in memory.max cpu.max; do
    for folder in "/sys/fs/cgroup$group" "/proc/$pid/root/sys/fs/cgroup" /sys/fs/cgroup; do
        if [ -r "$folder/$name" ]; then echo "$name $(cat "$folder/$name")"; break; fi
    done
done
echo '==diag_kit:path=='  # sent back, so that the parser knows which mount is meant
printf '%s\n' "$2"
"""

MEMORY_COLUMNS = dict.fromkeys(("total_bytes", "available_bytes", "cached_bytes", "dirty_bytes", "swap_used_bytes"), "Int64")
MOUNT_COLUMNS = {"path": "string", "source": "string", "fstype": "string"}
NETWORK = ("nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "glusterfs", "beegfs", "gpfs", "wekafs", "9p", "afs", "virtiofs", "orangefs")
_PSEUDO = ("proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "securityfs", "debugfs", "tracefs", "bpf", "pstore", "configfs", "autofs")
_ESCAPE = re.compile(r"\\([0-7]{3})")


@probe
@dataclass(frozen=True)
class Memory:
    """Free memory and page cache, CPUs that may be used, load, cgroup limits, and the mount that holds the data.

    Equivalent: ``cat /proc/meminfo /proc/PID/mounts /proc/loadavg``. The mounts are those that the training sees (its own mount
    namespace where it runs in a container). ``path``: the data folder; None takes the one that was found.

    Tables: ``memory`` (one row, bytes), ``mounts`` (path source fstype). Facts: page_cache_bytes, memory_total_bytes,
    memory_limit_bytes (cgroup), cpu_count, cpus_allowed, cpu_quota_cores, load_1min, data_mount_type, data_mount_source.
    """

    path: str | None = None

    name: ClassVar[str] = "memory"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "cat /proc/meminfo /proc/PID/mounts /proc/loadavg /sys/fs/cgroup/cpu.max"

    @property
    def budget_s(self) -> float:
        return 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        job = known.number("job_pid")
        folder = known.fact("data_dir")
        path = self.path or (str(folder.fact.value) if folder else "")
        return (host.run(SCRIPT, str(int(job)) if job else "self", path, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        facts: list[Fact] = []
        problems: list[str] = []
        odd: list[NotUnderstood] = []
        memory: list[dict[str, object]] = []
        mounts: list[dict[str, object]] = []
        for result in results:
            pieces = parts(result.text)
            memory += _meminfo(part(pieces, "meminfo") or "", facts)
            mounts += _mounts(part(pieces, "mounts") or "", odd)
            _cpus(part(pieces, "cpus") or "", facts)
            _cgroup(part(pieces, "cgroup") or "", facts)
            _data_mount((part(pieces, "path") or "").strip(), mounts, facts)
            if not memory:
                problems.append(f"{result.host} has no readable /proc/meminfo: memory and page cache stay blind")
            if cut := why_cut_short(result):
                problems.append(cut)
        return Parsed(
            summary=_summary(facts),
            facts=tuple(facts),
            tables={"memory": frame(memory, MEMORY_COLUMNS), "mounts": frame(mounts, MOUNT_COLUMNS)},
            not_understood=tuple(odd),
            problems=tuple(problems),
        )


def _summary(facts: list[Fact]) -> str:
    known = {fact.name: fact.value for fact in facts}
    total, cache = known.get("memory_total_bytes"), known.get("page_cache_bytes")
    said = []
    if isinstance(total, int) and isinstance(cache, int):
        said.append(f"page cache {cache / 1e9:.0f} GB of {total / 1e9:.0f} GB")
    if known.get("data_mount_type"):
        said.append(f"data on {known['data_mount_type']}")
    return ", ".join(said) or "no memory figures"


def _meminfo(text: str, facts: list[Fact]) -> list[dict[str, object]]:
    kib: dict[str, int] = {}
    for line in text.splitlines():
        match = re.match(r"^(\w+):\s+(\d{1,15}) kB$", line)
        if match:
            kib.setdefault(match[1], int(match[2]))
    if "MemTotal" not in kib:
        return []
    swap = kib["SwapTotal"] - kib["SwapFree"] if {"SwapTotal", "SwapFree"} <= kib.keys() else None
    facts.append(Fact("memory_total_bytes", kib["MemTotal"] * 1024, "/proc/meminfo", "bytes"))
    if "Cached" in kib:
        facts.append(Fact("page_cache_bytes", kib["Cached"] * 1024, "/proc/meminfo", "bytes"))
    values = (kib["MemTotal"], kib.get("MemAvailable"), kib.get("Cached"), kib.get("Dirty"), swap)
    return [{name: None if v is None else v * 1024 for name, v in zip(MEMORY_COLUMNS, values, strict=True)}]


def _mounts(text: str, odd: list[NotUnderstood]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(" ")
        if len(words) < 4:
            if line.strip():
                odd.append(NotUnderstood(f"mounts line {number}", line[:200], "fewer than four fields"))
            continue
        if words[2] not in _PSEUDO:
            source, path = (_ESCAPE.sub(lambda found: chr(int(found[1], 8)), word) for word in words[:2])
            rows.append({"path": path, "source": source, "fstype": words[2]})
    return rows


def _cpus(text: str, facts: list[Fact]) -> None:
    lines = text.splitlines()
    if lines and (count := whole(lines[0])):
        facts.append(Fact("cpu_count", count, "/proc/cpuinfo"))
    for line in lines:
        if line.startswith("Cpus_allowed_list:") and (allowed := _list_size(line.partition(":")[2].strip())):
            facts.append(Fact("cpus_allowed", allowed, "/proc/PID/status"))
        load = re.match(r"^(\d{1,7}\.\d\d) \d", line)
        if load:
            facts.append(Fact("load_1min", float(load[1]), "/proc/loadavg"))


def _list_size(text: str) -> int | None:
    """CPUs in a list such as 0-3,8: 5."""
    total = 0
    for piece in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", piece)
        if not match:
            return None
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total if total > 0 else None


def _cgroup(text: str, facts: list[Fact]) -> None:
    for line in text.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "memory.max" and (limit := whole(words[1])):
            facts.append(Fact("memory_limit_bytes", limit, "cgroup memory.max", "bytes"))
        if len(words) == 3 and words[0] == "cpu.max" and (quota := whole(words[1])) and (period := whole(words[2])):
            facts.append(Fact("cpu_quota_cores", round(quota / period, 3), "cgroup cpu.max", "cores"))


def _data_mount(path: str, mounts: list[dict[str, object]], facts: list[Fact]) -> None:
    if not path.startswith("/"):
        return
    holders = [row for row in mounts if PurePosixPath(path).is_relative_to(str(row["path"]))]
    if not holders:
        return
    longest = max(len(str(row["path"])) for row in holders)
    mount = [row for row in holders if len(str(row["path"])) == longest][-1]  # a later mount hides an earlier one
    kind = str(mount["fstype"])
    network = kind in NETWORK or kind.startswith("fuse.")
    facts.append(Fact("data_mount_type", kind, f"mount that holds {path}" + (": over the network" if network else "")))
    facts.append(Fact("data_mount_source", str(mount["source"]), f"mount that holds {path}"))
