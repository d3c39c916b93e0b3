"""Lines of the kernel's log as dmesg, journalctl and syslog print them, and the events that slow or kill a run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from diag_kit.observe.kernel_xid import xid_meaning
from diag_kit.observe.raw import number, printed_time, whole
from diag_kit.records import NotUnderstood

EVENT_COLUMNS = {
    "line": "Int64",
    "t": "time",
    "uptime_s": "float64",
    "kind": "str",
    "device": "str",
    "xid": "Int64",
    "pid": "Int64",
    "process": "str",
    "cgroup": "str",
    "anon_rss_mib": "float64",
    "blocked_s": "float64",
    "severity": "str",
    "meaning": "str",
    "points_to": "str",
    "text": "str",
}
MAX_EVENTS = 20_000
MAX_NOT_UNDERSTOOD = 200
_BDF = r"(?:[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?|\b[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\b)"
_UPTIME = r"\[\s*(?P<up>\d{1,12}\.\d{1,9})\]"
_LEVEL = r"^(?:<\d{1,3}>)?(?:\w{2,8}\s*:\w{2,8}\s*:\s)?"
_PREFIXES = (
    re.compile(_LEVEL + _UPTIME + r"(?:\s*\[[^\]]{1,30}\])?:? ?"),
    re.compile(_LEVEL + r"\[(?P<at>[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?"),
    re.compile(
        r"^(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) (?:\S{1,255} kernel: ?)?"
        rf"(?:{_UPTIME} ?)?"
    ),
    re.compile(rf"^[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{{1,6}})? \S{{1,255}} kernel: ?(?:{_UPTIME} ?)?"),
)
_NO_KERNEL = re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,255} (?!kernel)[\w./@-]{1,80}(?:\[\d+\])?: ")
_XID = re.compile(r"Xid \((?:PCI:)?(?P<device>[0-9A-Fa-f:.]{4,20})(?:[ ,][^)]{0,40})?\): (?P<xid>\d{1,4})\b")
_PID = re.compile(r"\bpid=['\"]?(\d{1,10})")
_NAME = re.compile(r"\bname=([^,]{1,64})")
_KILLED = re.compile(r"\bKill(?:ed)? process (?P<pid>\d{1,10})(?:, UID \d+,)? \((?P<process>[^)]{1,64})\)")
_RSS = re.compile(r"\banon-rss:(\d{1,15})kB")
_CONSTRAINT = re.compile(
    r"oom-kill:constraint=(?P<why>\w{1,40}).*?\btask_memcg=(?P<cgroup>[^,]{1,300}),task=(?P<process>[^,]{1,64}),"
    r"pid=(?P<pid>\d{1,10})"
)
_HUNG = re.compile(r"task (?P<process>.{1,64}?):(?P<pid>\d{1,10}) blocked (?:in I/O wait )?for more than (?P<s>\d{1,9}) seconds")
_LOCKUP = re.compile(
    r"(?:soft lockup - |hard LOCKUP).{0,40}?CPU ?#?(?P<cpu>\d+)(?:.{0,20}?stuck for (?P<s>\d+)s)?"
    r"(?:.{0,20}\[(?P<process>[^\]]{1,64}):(?P<pid>\d+)\])?"
)
_AER = re.compile(r"PCIe Bus Error: severity=(?P<severity>[\w ()-]{1,40}),")
_AER_REPORT = re.compile(
    rf"AER: (?:Multiple )?(?P<severity>Correct(?:ed|able)|Uncorrect(?:ed|able)(?: \([\w-]{{1,12}}\))?)"
    rf" error(?: message)? received(?: from|:)\s*(?P<device>{_BDF})?"
)
_LIMITED = re.compile(r"\d Gb/s available PCIe bandwidth, limited by")
_DEVICE = re.compile(_BDF)
_NAMES_ITS_DEVICE = ("gpu_lost", "pcie_error", "pcie_limited", "iommu_fault")
# (kind, pattern): the first that matches counts. "device" is a group of the pattern.
_SIMPLE: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("gpu_lost", r"GPU has fallen off the bus"),
        ("nvswitch_sxid", r"SXid \(PCI:(?P<device>[0-9A-Fa-f:.]{4,20})\): \d+"),
        (
            "nvme",
            r"\b(?P<device>nvme\d+(?:n\d+)?)\b.{0,40}?"
            r"(?:timeout|reset|controller is down|Device not ready|Abort status|Removing)",
        ),
        ("disk_error", r"I/O error, dev (?P<device>[\w-]{1,32})[, ]"),
        ("disk_error", r"Buffer I/O error on (?:dev(?:ice)?) (?P<device>[\w-]{1,32})"),
        (
            "ata",
            r"\b(?P<device>ata\d+(?:\.\d+)?): (?:exception Emask|(?:hard|soft) resetting link"
            r"|failed command|SATA link down|COMRESET failed|limiting SATA link)",
        ),
        (
            "file_system",
            r"(?:EXT4-fs error|EXT4-fs warning|XFS .{0,40}(?:Corruption|I/O error)|Remounting filesystem read-only|BTRFS error)",
        ),
        ("nfs", r"\bnfs4?: server (?P<device>\S{1,255}) (?:not responding|OK|timed out)"),
        ("cpu_throttled", r"(?P<device>CPU\d+): (?:Core|Package) temperature.{0,40}above threshold"),
        ("memory_error", r"EDAC (?P<device>MC\d+): \d+ [CU]E\b"),
        ("machine_check", r"(?:mce: )?\[Hardware Error\]|Machine check events logged|mce: CPU\d+|Machine Check Exception"),
        ("iommu_fault", r"AMD-Vi: .{0,40}?IO_PAGE_FAULT|DMAR: .{0,40}fault"),
        ("rcu_stall", r"rcu: INFO: \w+ (?:self-)?detected (?:expedited )?stalls?"),
        ("link_down", r"\b(?P<device>[a-z][\w.-]{1,20}):? (?:NIC )?[Ll]ink is [Dd]own\b"),
        ("link_down", r"\b(?P<device>[a-z][\w.-]{1,20}): (?:Link down|link status definitely down)"),
        ("segfault", r"^(?P<device>[^\[]{1,40})\[\d+\]: segfault at"),
        ("oom_invoked", r"^(?P<device>.{1,64}) invoked oom-killer:"),
    )
)


@dataclass(slots=True)
class KernelLines:
    events: list[dict[str, Any]] = field(default_factory=list)
    lines: int = 0
    events_beyond: int = 0
    not_understood: list[NotUnderstood] = field(default_factory=list)


def read_kernel(text: str, where: str = "dmesg") -> KernelLines:
    """Every event, with its time where the line tells it: a date without year gives none, uptime is seconds since boot.

    Lines of the kernel that are no event are counted; lines that are not the kernel's are listed.
    """
    seen = KernelLines()
    cgroups: dict[int, str] = {}
    for count, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        line = line[:4000].rstrip()
        t, uptime, said, known = _prefix(line)
        row = _event(said, cgroups)
        if row is not None and _same_kill(seen.events, row):
            seen.events[-1] |= {name: value for name, value in row.items() if value is not None}
        elif row is not None and len(seen.events) >= MAX_EVENTS:
            seen.events_beyond += 1
        elif row is not None:
            seen.events.append({"line": count, "t": t, "uptime_s": uptime, "text": said[:300], **row})
        elif not known and len(seen.not_understood) < MAX_NOT_UNDERSTOOD and not _NO_KERNEL.match(line):
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a line of the kernel's log"))
        seen.lines += known or row is not None
    return seen


def _same_kill(events: list[dict[str, Any]], row: dict[str, Any]) -> bool:
    """Old kernels print "Kill process 7" and then "Killed process 7": one kill."""
    last = events[-1] if events else {}
    return row["kind"] == "oom_kill" and last.get("kind") == "oom_kill" and last.get("pid") == row["pid"]


def _prefix(line: str) -> tuple[datetime | None, float | None, str, bool]:
    for pattern in _PREFIXES:
        found = pattern.match(line)
        if found:
            told = found.groupdict()
            t = printed_time((told.get("at") or "").replace(",", "."))
            return t, number(told.get("up") or ""), line[found.end() :], True
    return None, None, line, False


def _event(said: str, cgroups: dict[int, str]) -> dict[str, Any] | None:
    row = next(_events(said, cgroups), None)
    if row is not None and row["kind"] in _NAMES_ITS_DEVICE and row.get("device") is None:
        device = _DEVICE.search(said)
        row["device"] = device[0] if device else None
    return row


def _events(said: str, cgroups: dict[int, str]) -> Iterator[dict[str, Any]]:
    """The readings of one message, best first."""
    if found := _XID.search(said):
        pid, name = _PID.search(said), _NAME.search(said)
        code = whole(found["xid"])
        meaning, points = xid_meaning(code)
        process = name[1].strip() if name else None
        yield {
            "kind": "xid",
            "device": found["device"],
            "xid": code,
            "pid": whole(pid[1]) if pid else None,
            "process": None if process in ("<unknown>", "'<unknown>'") else process,
            "meaning": meaning,
            "points_to": points,
        }
    if found := _CONSTRAINT.search(said):
        cgroups[int(found["pid"])] = found["cgroup"]
        yield {
            "kind": "oom_cause",
            "pid": int(found["pid"]),
            "process": found["process"],
            "cgroup": found["cgroup"],
            "severity": found["why"],
        }
    if found := _KILLED.search(said):
        rss = _RSS.search(said)
        yield {
            "kind": "oom_kill",
            "pid": int(found["pid"]),
            "process": found["process"],
            "cgroup": cgroups.get(int(found["pid"])),
            "anon_rss_mib": int(rss[1]) / 1024 if rss else None,
            "severity": "cgroup limit" if "Memory cgroup out of memory" in said else None,
        }
    yield from _waits(said)
    yield from _pcie(said)
    for kind, pattern in _SIMPLE:
        if found := pattern.search(said):
            yield {"kind": kind, "device": found.groupdict().get("device")}


def _waits(said: str) -> Iterator[dict[str, Any]]:
    if found := _HUNG.search(said):
        yield {"kind": "hung_task", "pid": int(found["pid"]), "process": found["process"], "blocked_s": float(found["s"])}
    if found := _LOCKUP.search(said):
        more: Mapping[str, Any] = {"pid": whole(found["pid"] or ""), "process": found["process"]}
        yield {"kind": "lockup", "device": f"CPU{found['cpu']}", "blocked_s": number(found["s"] or ""), **more}


def _pcie(said: str) -> Iterator[dict[str, Any]]:
    if found := _AER.search(said):
        yield {"kind": "pcie_error", "severity": _severity(found["severity"])}
    if found := _AER_REPORT.search(said):
        yield {"kind": "pcie_error_report", "device": found["device"], "severity": _severity(found["severity"])}
    if _LIMITED.search(said):
        yield {"kind": "pcie_limited"}


def _severity(printed: str) -> str:
    """Kernels say Corrected or Correctable for the same."""
    word = printed.strip().lower()
    if word.startswith("uncorrect"):
        return "uncorrected, not fatal" if "non" in word else "uncorrected, fatal" if "fatal" in word else "uncorrected"
    return "corrected"
