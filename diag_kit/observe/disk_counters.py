"""Disk and CPU load from two readings of /proc/diskstats and /proc/stat, for hosts without sysstat. Pure.

The fields are those of the kernel's Documentation/admin-guide/iostats.rst; the formulas are those of iostat -x, so that
the columns mean the same: wait = ticks / requests, queue = weighted ticks / time, util = busy ticks / time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from diag_kit.observe.disk_reports import Report, Reports, weighted
from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

_SECTOR_BYTES = 512.0
_WRAP = 2**32  # the millisecond fields are 32 bits wide (iostats.rst)


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading: wall clock, seconds since boot, the counters of each device, the jiffies of all CPUs."""

    wall_s: float | None
    uptime_s: float | None
    disks: Mapping[str, tuple[int, ...]]
    cpu: tuple[int, ...]


def read_sample(text: str, where: str) -> tuple[Sample, list[NotUnderstood]]:
    """One reading: a line of ``date +%s.%N``, /proc/uptime, /proc/diskstats and the first line of /proc/stat."""
    lines = text.splitlines()
    wall = _clock(lines[0]) if lines else None
    up = number(lines[1].split()[0]) if len(lines) > 1 and lines[1].split() else None
    disks: dict[str, tuple[int, ...]] = {}
    cpu: tuple[int, ...] = ()
    bad: list[NotUnderstood] = []
    for line in lines[2:]:
        words = line.split()
        counts = [whole(word) for word in (words[1:] if words[:1] == ["cpu"] else words[3:])]
        known = tuple(value for value in counts if value is not None)
        if words[:1] == ["cpu"] and len(known) >= 4:
            cpu = known
        elif len(words) >= 14 and len(known) == len(counts):
            disks[words[2]] = known
        elif words:
            bad.append(NotUnderstood(where, line[:200], "no line of /proc/diskstats"))
    return Sample(wall, up, disks, cpu), bad


def _clock(line: str) -> float | None:
    return number(re.sub(r"\.(?!\d).*$", "", line.strip()))  # a date without %N prints ".N" or "."


def read_samples(texts: list[str]) -> Reports:
    """One report between each reading and the next."""
    found = Reports()
    samples = []
    for count, text in enumerate(texts, start=1):
        sample, bad = read_sample(text, f"reading {count}")
        samples.append(sample)
        found.not_understood.extend(bad)
    for before, after in itertools.pairwise(samples):
        seconds = _seconds(before, after)
        if seconds is None:
            found.remarks.append("two readings without a usable clock between them were left out")
            continue
        rows = tuple(
            _disk(name, before.disks[name], counts, seconds)
            for name, counts in after.disks.items()
            if name in before.disks and any(counts)
        )
        found.reports.append(Report(_when(after), rows, _cpu(before.cpu, after.cpu)))
    return found


_TOTALS_KEPT = ("device", "read_wait_ms", "write_wait_ms", "wait_ms", "request_kib")


def read_totals(text: str) -> Reports:
    """One pasted /proc/diskstats: means since boot. Without the time since boot there is no rate: those columns are missing."""
    found = Reports()
    sample, found.not_understood = read_sample(f"\n\n{text}", "/proc/diskstats")
    rows = [_disk(name, (0,) * len(counts), counts, 1.0) for name, counts in sample.disks.items() if any(counts)]
    kept = tuple({name: value if name in _TOTALS_KEPT else None for name, value in row.items()} for row in rows)
    if kept:
        found.reports.append(Report(None, kept, None))
        found.banner = True
    return found


def _when(sample: Sample) -> datetime | None:
    if sample.wall_s is None or not 0 < sample.wall_s < 4e9:
        return None
    return datetime.fromtimestamp(sample.wall_s, UTC)


def _seconds(before: Sample, after: Sample) -> float | None:
    """By the wall clock, which is finer; by the uptime (10 ms) where the wall clock is coarse or was set in between."""
    wall = after.wall_s - before.wall_s if before.wall_s is not None and after.wall_s is not None else None
    up = after.uptime_s - before.uptime_s if before.uptime_s is not None and after.uptime_s is not None else None
    if wall is not None and (up is None or abs(wall - up) <= 0.05):
        return wall if wall > 0 else None
    return up if up is not None and up > 0 else None


def _disk(name: str, before: tuple[int, ...], after: tuple[int, ...], seconds: float) -> dict[str, Any]:
    grown = [_delta(a, b, field) for field, (a, b) in enumerate(zip(before[:11], after[:11], strict=True))]
    reads, read_sectors, read_ms = grown[0], grown[2], grown[3]
    writes, write_sectors, write_ms = grown[4], grown[6], grown[7]
    busy_ms, queue_ms = grown[9], grown[10]
    read_wait, write_wait = _ratio(read_ms, reads), _ratio(write_ms, writes)
    read_bytes = None if read_sectors is None else read_sectors * _SECTOR_BYTES / seconds
    write_bytes = None if write_sectors is None else write_sectors * _SECTOR_BYTES / seconds
    moved = None if read_sectors is None or write_sectors is None else (read_sectors + write_sectors) * _SECTOR_BYTES
    done = None if reads is None or writes is None else reads + writes
    return {
        "device": name,
        "read_mb_per_s": None if read_bytes is None else read_bytes / 1e6,
        "write_mb_per_s": None if write_bytes is None else write_bytes / 1e6,
        "read_mib_per_s": None if read_bytes is None else read_bytes / 2**20,
        "read_per_s": None if reads is None else reads / seconds,
        "write_per_s": None if writes is None else writes / seconds,
        "read_wait_ms": read_wait,
        "write_wait_ms": write_wait,
        "wait_ms": weighted(read_wait, reads, write_wait, writes),
        "queue_length": None if queue_ms is None else queue_ms / (seconds * 1000),
        "request_kib": None if moved is None or not done else moved / 1024 / done,
        "util_pct": None if busy_ms is None else min(100.0, busy_ms / (seconds * 10)),
    }


def _delta(before: int, after: int, field: int) -> int | None:
    """What a counter grew by. A millisecond field that fell has wrapped; any other means a new device."""
    if after >= before:
        return after - before
    wrapped = after - before + _WRAP
    return wrapped if field in (3, 7, 9, 10) and 0 <= wrapped < 10**7 else None


def _ratio(total: int | None, count: int | None) -> float | None:
    return None if total is None or not count else total / count


def _cpu(before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, Any] | None:
    """Shares of all CPU time: system includes interrupts, as in iostat; guest time is part of user already."""
    if len(before) < 4 or len(after) < 4:
        return None
    grown = [max(0, b - a) for a, b in zip(before[:8], after[:8], strict=False)]
    grown += [0] * (8 - len(grown))
    user, nice, system, idle, iowait, irq, softirq, steal = grown
    total = sum(grown)
    if not total:
        return None
    shares = {"user": user, "nice": nice, "system": system + irq + softirq, "iowait": iowait, "steal": steal}
    shares["idle"] = idle
    return {f"{name}_pct": 100 * value / total for name, value in shares.items()}
