"""What the CPUs do over a short window, what holds tasks back from them, and what the ranks may use."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.memory_limits import cgroup_facts, list_size
from diag_kit.observe.opened_files import rank_arguments
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import number, part, parts, whole, why_cut_short
from diag_kit.observe.system.counters_text import read_counters, read_dstat
from diag_kit.observe.system.cpu_text import (
    add_load,
    add_shares,
    read_lscpu,
    read_mpstat,
    read_numactl,
    read_pressure,
    read_proc_stat,
    read_uptime,
)
from diag_kit.observe.system.found import Found
from diag_kit.observe.system.limits_text import read_host_numbers
from diag_kit.observe.system.pasted import Reader, read_pasted
from diag_kit.observe.system.vmstat_text import read_vmstat
from diag_kit.observe.system.vocabulary import (
    AFFINITY,
    COUNTERS,
    CPU,
    CPU_PER_CORE,
    LOAD,
    MEMORY,
    NETWORK,
    NUMA,
    PRESSURE,
    VMSTAT,
)
from diag_kit.records import CommandResult, Cost, Parsed

SCRIPT = r"""
count=$1; interval=$2; shift 2
export LC_ALL=C
first=; for pair in "$@"; do first=${pair##*:}; break; done
group=/sys/fs/cgroup
while IFS= read -r line; do
    names=${line#*:}; path=${names#*:}; names=${names%%:*}
    case $names in
        '') for base in /sys/fs/cgroup /sys/fs/cgroup/unified; do
                [ -r "$base$path/cpu.stat" ] && [ -r "$base$path/cpu.max" ] && group=$base$path
            done;;
        cpu|cpu,*|*,cpu|*,cpu,*) for base in "/sys/fs/cgroup/$names" /sys/fs/cgroup/cpu; do
                [ -r "$base$path/cpu.stat" ] && { group=$base$path; break; }
                [ -r "$base/cpu.stat" ] && { group=$base; break; }
            done;;
    esac
done < "/proc/${first:-self}/cgroup" 2>/dev/null
while :; do
    echo '==diag_kit:sample=='
    date +%s.%N
    cat /proc/uptime
    grep '^cpu' /proc/stat
    for each in cpu io memory; do
        [ -r "/proc/pressure/$each" ] && sed "s/^/pressure $each /" "/proc/pressure/$each" 2>/dev/null
    done
    [ -r "$group/cpu.stat" ] && sed 's/^/group /' "$group/cpu.stat"
    [ "$count" -gt 0 ] || break
    count=$((count - 1))
    sleep "$interval"
done
echo '==diag_kit:load=='
cat /proc/loadavg
echo '==diag_kit:quota=='
for name in cpu.max cpu.cfs_quota_us cpu.cfs_period_us; do
    [ -r "$group/$name" ] && echo "$name $(cat "$group/$name")"
done
echo '==diag_kit:nodes=='
for node in /sys/devices/system/node/node[0-9]*; do
    [ -r "$node/cpulist" ] || continue
    sizes=$(sed -n 's/.*MemTotal: *\([0-9]*\).*/\1/p; s/.*MemFree: *\([0-9]*\).*/\1/p' "$node/meminfo" 2>/dev/null)
    echo "${node##*/node} $(tr -d ' ' < "$node/cpulist")" $sizes
done
echo '==diag_kit:machine=='
[ -r /sys/devices/system/cpu/smt/active ] && echo "smt $(cat /sys/devices/system/cpu/smt/active)"
governor=/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
[ -r "$governor" ] && echo "governor $(cat "$governor")"
sed -n 's/^cpu MHz[^:]*: /mhz /p' /proc/cpuinfo | head -n 512
echo '==diag_kit:affinity=='
for pair in "$@"; do
    allowed=$(sed -n 's/^Cpus_allowed_list:[^0-9]*//p; s/^Mems_allowed_list:[^0-9]*//p' \
        "/proc/${pair##*:}/status" 2>/dev/null | tr '\n' ' ')
    [ -n "$allowed" ] && echo "${pair%%:*} ${pair##*:} $allowed"
done
echo '==diag_kit:end=='
"""
READERS: Mapping[str, Reader] = {
    "mpstat": read_mpstat,
    "sar": read_mpstat,
    "vmstat": read_vmstat,
    "proc_stat": read_proc_stat,
    "uptime": read_uptime,
    "lscpu": read_lscpu,
    "numactl": read_numactl,
    "pressure": read_pressure,
    "host_numbers": read_host_numbers,
    "proc_vmstat": read_counters,
    "numastat": read_counters,
    "dstat": read_dstat,
}
TABLES = {
    "cpu": CPU,
    "cpu_per_core": CPU_PER_CORE,
    "cpu_since_boot": CPU,
    "cpu_per_core_since_boot": CPU_PER_CORE,
    "load": LOAD,
    "pressure": PRESSURE,
    "numa": NUMA,
    "affinity": AFFINITY,
    "vmstat": VMSTAT,
    "network": NETWORK,
    "memory": dict.fromkeys(MEMORY, "Int64"),
    "counters": COUNTERS,
}
_SATURATED_PCT = 95.0
"""A core that is busy that share of the window has nothing left to give."""


@probe
@dataclass(frozen=True)
class Cpu:
    """The share of each CPU over ``seconds``, pressure, load, the CPU quota and how often it throttled, NUMA nodes, affinity of
    the ranks.

    Equivalent: ``mpstat -P ALL 1 5; cat /proc/loadavg /proc/pressure/* CGROUP/cpu.max CGROUP/cpu.stat; numactl -H; taskset -cp
    PID``; none of these is needed: it reads /proc and /sys. The cgroup is that of the first rank, else of the login. Reads pasted
    mpstat, sar, vmstat, dstat, /proc/stat, uptime, lscpu, numactl -H, numastat, /proc/vmstat and /proc/pressure too.

    Tables (columns with units in ``vocabulary``): ``cpu`` (all CPUs, a row an interval), ``cpu_per_core``, ``load``,
    ``pressure``, ``numa``, ``affinity`` (rank pid cpus cpu_count numa_nodes); pasted also ``vmstat``, ``counters``,
    ``network``, ``memory`` and ``cpu_since_boot``. Facts over the window: cpu_busy_pct, cores_busy, busiest_core_pct,
    cores_saturated (busy 95 % of the window or more), iowait_pct, steal_pct, cpu_pressure_pct and io_pressure_pct,
    memory_pressure_pct (share of the window in which some task waited), cpu_throttled_window_fraction (periods in which the
    quota stopped the group), cpu_throttled_window_pct (time that its tasks were stopped, of the window). Others: cpu_count,
    cpu_quota_cores, load_1min, load_5min, load_15min, numa_nodes, smt_active, cpu_governor, cpu_mhz (mean), cpu_window_s,
    cpus_allowed_by_ranks.
    """

    seconds: float = 5.0
    interval_s: float = 1.0

    name: ClassVar[str] = "cpu"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "mpstat -P ALL 1 5; cat /proc/loadavg /proc/pressure/* /sys/fs/cgroup/cpu.stat; numactl -H"
    reads: ClassVar[tuple[str, ...]] = tuple(READERS)

    @property
    def budget_s(self) -> float:
        return max(1.0, self.seconds) + 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        try:
            ranks = rank_arguments(known)
        except NothingToObserve:
            ranks = []
        interval = max(1, int(self.interval_s))
        count = max(1, int(self.seconds) // interval)
        return (host.run(SCRIPT, str(count), str(interval), *ranks, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found = Found()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "sample") is None:
                read_pasted(result, READERS, found)
            else:
                _add_own(found, pieces)
                if cut := why_cut_short(result):
                    found.problems.append(cut)
        return found.parsed(TABLES, "nothing about the CPUs could be read")


@dataclass(frozen=True, slots=True)
class _Sample:
    t: datetime | None
    up_s: float | None
    cpus: Mapping[str, tuple[int, ...]]
    pressure: Mapping[tuple[str, str], tuple[str, str, str, str]]
    group: Mapping[str, int]


def _sample(text: str) -> _Sample:
    lines = text.splitlines()
    wall = number(re.sub(r"\.(?!\d).*$", "", lines[0].strip())) if lines else None
    t = datetime.fromtimestamp(wall, UTC) if wall is not None and 0 < wall < 4e9 else None
    up = number(lines[1].split()[0]) if len(lines) > 1 and lines[1].split() else None
    cpus: dict[str, tuple[int, ...]] = {}
    pressure: dict[tuple[str, str], tuple[str, str, str, str]] = {}
    group: dict[str, int] = {}
    for line in lines[2:]:
        words = line.split()
        if words and re.fullmatch(r"cpu\d*", words[0]):
            counts = tuple(value for word in words[1:] if (value := whole(word)) is not None)
            if len(counts) == len(words) - 1 >= 4:
                cpus[words[0]] = counts
        elif len(words) == 7 and words[0] == "pressure":
            shares = [word.partition("=")[2] for word in words[3:]]
            if all(number(share) is not None for share in shares) and whole(shares[3]) is not None:
                pressure[words[1], words[2]] = (shares[0], shares[1], shares[2], shares[3])
        elif len(words) == 3 and words[0] == "group" and (value := whole(words[2])) is not None:
            group[words[1]] = value
    return _Sample(t, up, cpus, pressure, group)


def _add_own(found: Found, pieces: Sequence[tuple[str, str]]) -> None:
    samples = [_sample(text) for name, text in pieces if name == "sample"]
    for before, after in itertools.pairwise(samples):
        add_shares(found, before.cpus, after.cpus, after.t)
    if not found.rows["cpu"]:
        found.problems.append("no two readings of /proc/stat: the CPUs were not seen over a window")
    first, last = samples[0], samples[-1]
    window_s = last.up_s - first.up_s if first.up_s is not None and last.up_s is not None else 0.0
    if len(samples) > 1 and window_s > 0:
        found.fact("cpu_window_s", round(window_s, 2), "/proc/uptime", "s")
        _add_pressure(found, first, last, window_s)
        _add_throttled(found, first.group, last.group, window_s)
    _add_shares_of_window(found, first, last)
    load = re.match(r"^(\d+\.\d\d) (\d+\.\d\d) (\d+\.\d\d) ", part(pieces, "load") or "")
    if load:
        add_load(found, load.groups(), "/proc/loadavg")
    quota = [
        fact for fact in cgroup_facts(part(pieces, "quota") or "", "the training or this login") if fact.name == "cpu_quota_cores"
    ]
    found.facts.extend(quota)
    _add_machine(found, pieces)


def _add_shares_of_window(found: Found, first: _Sample, last: _Sample) -> None:
    whole_window = Found()
    add_shares(whole_window, first.cpus, last.cpus, last.t)
    cores = whole_window.rows["cpu_per_core"]
    busy = [100 - row["idle_pct"] - row["iowait_pct"] for row in cores]
    source = "/proc/stat, mean over the window"
    found.fact("cpu_count", len(cores) or None, "/proc/stat")
    for row in whole_window.rows["cpu"]:
        share = 100 - row["idle_pct"] - row["iowait_pct"]
        found.fact("cpu_busy_pct", round(share, 2), source, "%")
        found.fact("iowait_pct", round(row["iowait_pct"], 2), source, "%")
        found.fact("steal_pct", round(row["steal_pct"], 2), source, "%")
        found.said.append(f"{share:.0f} % of {len(cores)} CPUs busy, {row['iowait_pct']:.1f} % iowait")
    if busy:
        found.fact("cores_busy", round(sum(busy) / 100, 2), source, "cores")
        found.fact("busiest_core_pct", round(max(busy), 1), source, "%")
        found.fact("cores_saturated", sum(share >= _SATURATED_PCT for share in busy), source)


def _add_pressure(found: Found, first: _Sample, last: _Sample, window_s: float) -> None:
    """The share of the window in which tasks waited: growth of ``total`` (microseconds) over the window (psi.rst)."""
    for (resource, kind), shares in last.pressure.items():
        values = dict(zip(("avg10_pct", "avg60_pct", "avg300_pct"), map(number, shares[:3]), strict=True))
        total, earlier = whole(shares[3]), first.pressure.get((resource, kind))
        grown = total - before if total is not None and earlier and (before := whole(earlier[3])) is not None else None
        pct = round(min(100.0, max(0, grown) / 1e4 / window_s), 2) if grown is not None else None
        row: dict[str, Any] = {"t": last.t, "resource": resource, "kind": kind, "total_us": total, "window_pct": pct}
        found.rows["pressure"].append(row | values)
        if kind == "some":
            found.fact(f"{resource}_pressure_pct", pct, f"/proc/pressure/{resource}, some, over the window", "%")


def _add_throttled(found: Found, first: Mapping[str, int], last: Mapping[str, int], window_s: float) -> None:
    grown = {name: last[name] - first[name] for name in last if name in first}
    periods, stopped = grown.get("nr_periods"), grown.get("nr_throttled")
    if periods and stopped is not None and periods > 0:
        share = round(min(1.0, max(0, stopped) / periods), 4)
        found.fact("cpu_throttled_window_fraction", share, "cpu.stat of the cgroup, over the window")
        if share > 0:
            found.said.append(f"the CPU quota stopped the group in {100 * share:.0f} % of its periods")
    micro = grown.get("throttled_usec", grown["throttled_time"] / 1000 if "throttled_time" in grown else None)
    if micro is not None and micro >= 0:
        found.fact("cpu_throttled_window_pct", round(micro / 1e4 / window_s, 2), "cpu.stat: throttled time of all its CPUs", "%")


def _add_machine(found: Found, pieces: Sequence[tuple[str, str]]) -> None:
    for line in (part(pieces, "nodes") or "").splitlines():
        words = line.split()
        if len(words) >= 2 and (node := whole(words[0])) is not None:
            sizes = [None if (kib := whole(word)) is None else kib * 1024 for word in words[2:4]] + [None, None]
            row = {"node": node, "cpus": words[1], "cpu_count": list_size(words[1])}
            found.rows["numa"].append(row | {"memory_bytes": sizes[0], "free_bytes": sizes[1]})
    found.fact("numa_nodes", len(found.rows["numa"]) or None, "/sys/devices/system/node")
    pairs = [line.partition(" ")[::2] for line in (part(pieces, "machine") or "").splitlines()]
    speeds = [mhz for name, value in pairs if name == "mhz" and (mhz := number(value)) is not None]
    known = dict(pairs)
    found.fact("smt_active", {"1": True, "0": False}.get(known.get("smt", "")), "/sys/devices/system/cpu/smt/active")
    found.fact("cpu_governor", known.get("governor") or None, "scaling_governor of cpu0")
    found.fact("cpu_mhz", round(sum(speeds) / len(speeds), 1) if speeds else None, "/proc/cpuinfo, mean", "MHz")
    for line in (part(pieces, "affinity") or "").splitlines():
        words = line.split()
        if len(words) >= 3 and (rank := whole(words[0])) is not None and (pid := whole(words[1])) is not None:
            allowed = {"rank": rank, "pid": pid, "cpus": words[2], "cpu_count": list_size(words[2])}
            found.rows["affinity"].append(allowed | {"numa_nodes": words[3] if len(words) > 3 else None})
    counts = [row["cpu_count"] for row in found.rows["affinity"] if row["cpu_count"]]
    found.fact("cpus_allowed_by_ranks", min(counts) if counts else None, "Cpus_allowed_list of the ranks, the fewest")
