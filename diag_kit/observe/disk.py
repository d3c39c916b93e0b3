"""The load of the local block devices and of the CPUs over a few seconds."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.hosts.protocol import Host
from diag_kit.observe.disk_counters import read_samples, read_totals
from diag_kit.observe.disk_json import read_json
from diag_kit.observe.disk_reports import (
    CPU_COLUMNS,
    DISK_COLUMNS,
    Report,
    Reports,
    drop_since_boot,
    read_text,
)
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, why_cut_short
from diag_kit.observe.tool_errors import tool_errors
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

if TYPE_CHECKING:
    import pandas as pd

SCRIPT = r"""
count=$1; interval=$2
export LC_ALL=C TZ=UTC0 S_TIME_FORMAT=ISO
echo '==diag_kit:devices=='
for path in /sys/class/block/*; do
    [ -e "$path" ] || continue
    kind=disk
    [ -e "$path/partition" ] && kind=partition
    [ -d "$path/dm" ] && kind=dm
    [ -d "$path/md" ] && kind=md
    spinning=
    [ -r "$path/queue/rotational" ] && read -r spinning < "$path/queue/rotational"
    echo "${path##*/} $kind ${spinning:--}"
done
if command -v iostat >/dev/null 2>&1; then
    echo '==diag_kit:version=='
    iostat -V 2>&1
    echo '==diag_kit:json=='
    iostat -xty -o JSON "$interval" "$count" 2>/dev/null && exit 0
    echo '==diag_kit:text=='
    exec iostat -xt "$interval" "$((count + 1))"
fi
[ -r /proc/diskstats ] || { echo '==diag_kit:nothing=='; exit 0; }
while :; do
    echo '==diag_kit:sample=='
    date +%s.%N
    cat /proc/uptime /proc/diskstats
    grep '^cpu ' /proc/stat
    [ "$count" -gt 0 ] || break
    count=$((count - 1))
    sleep "$interval"
done
"""
_BY_NAME = (
    ("loop", r"loop\d+"),
    ("memory", r"z?ram\d+"),
    ("optical", r"(sr|scd)\d+|fd\d+"),
    ("dm", r"dm-\d+"),
    ("md", r"md\d+(p\d+)?|md_.*"),
    ("network", r"(nbd|rbd|drbd)\d+(p\d+)?"),
    ("partition", r"(sd|vd|xvd|hd)[a-z]+\d+|(nvme\d+(c\d+)?n\d+|mmcblk\d+|pmem\d+)p\d+"),
    ("disk", r"(sd|vd|xvd|hd|dasd)[a-z]+|nvme\d+(c\d+)?n\d+|mmcblk\d+|pmem\d+"),
)


def device_kind(name: str, stated: str = "") -> str:
    """disk, partition, dm, md, loop, memory, optical, network (block device) or other; the kernel's word goes first."""
    by_name = next((kind for kind, pattern in _BY_NAME if re.fullmatch(pattern, name)), "other")
    return stated if stated and (stated != "disk" or by_name == "other") else by_name


@dataclass(slots=True)
class _Gathered:
    """What several answers add up to."""

    window: list[Report] = field(default_factory=list)
    since_boot: list[Report] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    version: str | None = None
    interval_known: bool = False
    not_understood: list[NotUnderstood] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, found: Reports, source: str, without_boot: bool, *, expected: bool) -> None:
        reports, first, sentence = drop_since_boot(found, without_boot)
        self.window.extend(reports)
        self.since_boot.extend([first] if first is not None else [])
        if source not in self.sources:
            self.sources.append(source)
        self.not_understood.extend(found.not_understood)
        self.remarks.extend(found.remarks)
        if sentence and not reports:
            self.problems.append(sentence)
        elif sentence and not expected:
            self.remarks.append(sentence)


@probe
@dataclass(frozen=True)
class Iostat:
    """Bytes, requests, wait and busy time of every block device, and the shares of the CPUs, once each interval.

    Equivalent: ``iostat -xty -o JSON 1 10``; without sysstat the same columns are computed from /proc/diskstats and
    /proc/stat. It sees local block devices only: a network mount or the page cache serves bytes that no device shows.

    Tables: ``disk`` (t device kind read_mb_per_s write_mb_per_s read_per_s write_per_s wait_ms read_wait_ms
    write_wait_ms queue_length request_kib util_pct read_mib_per_s), MB = 1e6 bytes; to add devices up take only kind
    "disk": a partition or dm device shows the same bytes again. ``cpu`` (t user_pct system_pct iowait_pct idle_pct
    steal_pct nice_pct). ``disk_since_boot`` and ``cpu_since_boot``: the average since boot where a pasted output holds
    it, never in the window. util_pct is the share of time with at least one request under way: on SSDs and arrays 100
    does not mean saturated (man iostat).

    Facts: sysstat_version, disk_window_s, disk_source; means over the window: disk_read_mb_per_s (kind "disk" only),
    iowait_pct.
    """

    seconds: float = 10.0
    interval_s: float = 1.0

    name: ClassVar[str] = "iostat"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "S_TIME_FORMAT=ISO LC_ALL=C iostat -xty -o JSON 1 10"
    reads: ClassVar[tuple[str, ...]] = ("iostat", "diskstats")

    @property
    def budget_s(self) -> float:
        return float(max(1, self.seconds) + 10)

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        interval = max(1, int(self.interval_s))
        count = max(1, int(self.seconds) // interval)
        return (host.run(SCRIPT, str(count), str(interval), timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        gathered = _Gathered()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "devices") is None:
                _add_pasted(gathered, result.text, result.command)
            else:
                self._add_own(gathered, result, pieces)
            cut = why_cut_short(result)
            if cut:
                gathered.problems.append(cut)
        return _parsed(gathered, self.interval_s)

    def _add_own(self, gathered: _Gathered, result: CommandResult, pieces: Sequence[tuple[str, str]]) -> None:
        gathered.interval_known = True
        gathered.kinds |= _stated_kinds(part(pieces, "devices") or "")
        gathered.version = _version(part(pieces, "version") or "") or gathered.version
        json, text = part(pieces, "json"), part(pieces, "text")
        samples = [piece for name, piece in pieces if name == "sample"]
        if json is not None and json.strip():
            gathered.add(read_json(json), "iostat -o JSON", True, expected=True)
        elif text is not None:
            gathered.add(read_text(text), "iostat", False, expected=True)
        elif samples:
            gathered.add(read_samples(samples), "/proc/diskstats", True, expected=True)
        elif part(pieces, "nothing") is not None:
            gathered.problems.append(f"{result.host} has neither iostat nor a readable /proc/diskstats: disks unseen")


def _add_pasted(gathered: _Gathered, text: str, where: str) -> None:
    gathered.version = _version(text) or gathered.version
    if not text.strip():
        gathered.problems.append("the output of iostat is empty")
    elif '"disk_device"' in text or text.lstrip().startswith("{"):
        gathered.add(read_json(text, where), "iostat -o JSON", _asked_without_boot(where, text), expected=False)
    elif re.search(r"^[ \t]*\d+[ \t]+\d+ \S+ \d+ \d+ \d+ \d+ ", text, re.M) and "Device" not in text:
        gathered.add(read_totals(text), "/proc/diskstats", False, expected=False)
    else:
        if not re.search(r"^Device|^avg-cpu", text, re.M):
            gathered.problems.extend(tool_errors(text))
        found = read_text(text, where)
        gathered.add(found, "iostat", _asked_without_boot(where, text), expected=False)
        if any(report.t for report in found.reports) and not re.search(r"^\d{4}-\d\d-\d\dT\S+[+-]\d{4}$", text, re.M):
            gathered.remarks.append("its times name no zone and are taken as UTC")


def _asked_without_boot(where: str, text: str) -> bool:
    """A command line with ``-y``, known or pasted with its output, says that the average since boot was left out."""
    return any(re.search(r"\biostat\b[^\n]*\s-[A-Za-z]*y", each[:2000]) for each in (where, text))


def _version(text: str) -> str | None:
    found = re.search(r"sysstat version (\d[\w.]{0,20})", text)
    return found.group(1) if found else None


def _stated_kinds(text: str) -> dict[str, str]:
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: row[1] for row in rows if len(row) == 3}


def _parsed(gathered: _Gathered, interval_s: float) -> Parsed:
    disk, cpu = _tables(gathered.window, gathered.kinds)
    tables: dict[str, pd.DataFrame] = {"disk": disk, "cpu": cpu}
    if gathered.since_boot:
        tables["disk_since_boot"], tables["cpu_since_boot"] = _tables(gathered.since_boot, gathered.kinds)
    window_s = len(gathered.window) * interval_s if gathered.interval_known else _window_s(gathered, interval_s)
    if not gathered.window and not gathered.problems:
        gathered.problems.append("no report of iostat could be read")
    numbers = _numbers(disk, cpu)
    source = ", ".join(gathered.sources) or None
    facts = [
        Fact("sysstat_version", gathered.version, "iostat -V"),
        Fact("disk_window_s", window_s if gathered.window else None, source or "iostat", "s"),
        Fact("disk_source", source, "iostat"),
        Fact("disk_read_mb_per_s", numbers.get("read"), f"{source or 'iostat'}, mean over the window", "MB/s"),
        Fact("iowait_pct", numbers.get("iowait"), f"{source or 'iostat'}, mean over the window", "%"),
    ]
    return Parsed(
        summary=_summary(gathered, disk, numbers, window_s),
        facts=tuple(fact for fact in facts if fact.value is not None),
        tables=tables,
        not_understood=tuple(gathered.not_understood),
        problems=tuple(dict.fromkeys(gathered.problems)),
    )


def _tables(reports: Sequence[Report], kinds: Mapping[str, str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    disks = [
        {**row, "t": report.t, "kind": device_kind(row["device"], kinds.get(row["device"], ""))}
        for report in reports
        for row in report.disks
    ]
    cpus = [{**report.cpu, "t": report.t} for report in reports if report.cpu is not None]
    return frame(disks, DISK_COLUMNS), frame(cpus, CPU_COLUMNS)


def _window_s(gathered: _Gathered, interval_s: float) -> float:
    """Of a pasted output, by its printed times: from the since-boot report on, else n reports span n intervals."""
    boot = [report.t for report in gathered.since_boot if report.t is not None]
    times = [report.t for report in gathered.window if report.t is not None]
    if times and len(boot) == 1:
        return (times[-1] - boot[0]).total_seconds()
    if len(times) > 1:
        return (times[-1] - times[0]).total_seconds() * len(times) / (len(times) - 1)
    return float(len(gathered.window) * interval_s)


def _numbers(disk: pd.DataFrame, cpu: pd.DataFrame) -> dict[str, float]:
    """Means over the window: bytes added over whole disks (all devices where none is known to be one)."""
    whole = disk[disk["kind"] == "disk"] if (disk["kind"] == "disk").any() else disk
    reports = max(1, int(whole.groupby("device").size().max())) if len(whole) else 0
    found = {
        "read": whole["read_mb_per_s"].sum(min_count=1) / reports if reports else None,
        "write": whole["write_mb_per_s"].sum(min_count=1) / reports if reports else None,
        "iowait": cpu["iowait_pct"].mean() if len(cpu) else None,
    }
    return {name: float(value) for name, value in found.items() if value is not None and value == value}


def _summary(gathered: _Gathered, disk: pd.DataFrame, numbers: Mapping[str, float], window_s: float) -> str:
    if not gathered.window:
        return gathered.problems[0] if gathered.problems else "nothing was read"
    pieces = []
    if "read" in numbers:
        pieces.append(f"read {figure(numbers['read'])} MB/s, write {figure(numbers.get('write', 0.0))} MB/s")
    if "iowait" in numbers:
        pieces.append(f"{numbers['iowait']:.2f} % iowait")
    busy = disk.groupby("device")["util_pct"].mean().dropna()
    if len(busy):
        pieces.append(f"busiest {busy.idxmax()} {busy.max():.0f} % of the time")
    text = f"{window_s:.0f} s: " + ", ".join(pieces)
    return "; ".join([text, *dict.fromkeys(gathered.remarks)])
