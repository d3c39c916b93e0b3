"""What a process may use: CPUs by affinity and by cgroup quota, memory by cgroup limit, cgroups v1 and v2. Pure."""

from __future__ import annotations

import re

from diag_kit.observe.raw import number, whole
from diag_kit.records import Fact

_NO_LIMIT_BYTES = 2**60  # cgroup v1 prints a number near 2**63 for "no limit"


def cpu_facts(text: str, whose: str) -> list[Fact]:
    """From the CPU count of /proc/cpuinfo, ``Cpus_allowed_list`` and /proc/loadavg, one a line."""
    facts: list[Fact] = []
    lines = text.splitlines()
    if lines and (count := whole(lines[0])):
        facts.append(Fact("cpu_count", count, "/proc/cpuinfo"))
    for line in lines:
        if line.startswith("Cpus_allowed_list:") and (allowed := list_size(line.partition(":")[2].strip())):
            facts.append(Fact("cpus_allowed", allowed, f"/proc/PID/status of {whose}"))
        elif match := re.match(r"^(\d{1,7}\.\d\d) \d", line):
            facts.append(Fact("load_1min", float(match[1]), "/proc/loadavg"))
    return facts


def list_size(text: str) -> int | None:
    """CPUs in a list such as 0-3,8: 5."""
    total = 0
    for piece in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", piece)
        if not match:
            return None
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total if total > 0 else None


def cgroup_facts(text: str, whose: str) -> list[Fact]:
    """The tightest limit over the cgroup and those above it, and the share of periods in which the quota stopped it.

    A line is ``FILE VALUE...`` for cpu.max, memory.max, cpu.stat (v2) or cpu.cfs_quota_us, cpu.cfs_period_us,
    memory.limit_in_bytes, cpu.stat (v1), from the innermost cgroup outwards.
    """
    quotas: list[float] = []
    limits: list[int] = []
    throttled: list[float] = []
    quota_us: int | None = None
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        words = rest.split()
        first = whole(words[0]) if words else None
        if name in ("memory.max", "memory.limit_in_bytes") and first and 0 < first < _NO_LIMIT_BYTES:
            limits.append(first)
        elif name == "cpu.max" and len(words) == 2 and first and (period := whole(words[1])):
            quotas.append(first / period)
        elif name == "cpu.cfs_quota_us":
            quota_us = first
        elif name == "cpu.cfs_period_us" and quota_us and quota_us > 0 and first:
            quotas.append(quota_us / first)
            quota_us = None
        elif name == "cpu.stat":
            stats = dict(zip(words[::2], words[1::2], strict=False))
            periods, stopped = number(stats.get("nr_periods", "")), number(stats.get("nr_throttled", ""))
            if periods and stopped is not None:
                throttled.append(stopped / periods)
    facts = []
    if limits:
        facts.append(Fact("memory_limit_bytes", min(limits), f"cgroup of {whose}", "bytes"))
    if quotas and min(quotas) > 0:
        facts.append(Fact("cpu_quota_cores", round(min(quotas), 3), f"cgroup of {whose}", "cores"))
    if throttled:
        share = round(min(1.0, max(throttled)), 4)
        facts.append(Fact("cpu_throttled_fraction", share, f"cpu.stat of the cgroup of {whose}, since it began"))
    return facts
