"""The kernel's log: GPU errors (Xid), PCIe errors, processes killed for memory, hung tasks, disks that reset, heat."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.kernel_lines import EVENT_COLUMNS, KernelLines, read_kernel
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, show, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

SCRIPT = r"""
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
for how in --time-format=iso -T ''; do
    found=$(bounded 10 dmesg $how 2>/dev/null | tail -n "$1") && [ -n "$found" ] && break
done
if [ -n "$found" ]; then
    echo '==diag_kit:dmesg=='
    printf '%s\n' "$found"
    exit 0
fi
echo '==diag_kit:refused=='
bounded 10 dmesg 2>&1 >/dev/null | head -n 3
command -v journalctl >/dev/null 2>&1 || { echo 'journalctl is not there'; exit 0; }
echo '==diag_kit:journal=='
bounded 15 journalctl -k -b --no-pager -o short-iso -n "$1" 2>&1
exit 0
"""
_COUNTED = {
    "oom_kill": "oom_kills",
    "hung_task": "hung_tasks",
    "lockup": "cpu_lockups",
    "nvme": "nvme_events",
    "ata": "ata_events",
    "disk_error": "disk_errors",
    "cpu_throttled": "cpu_throttle_events",
    "machine_check": "machine_check_lines",
    "memory_error": "memory_error_lines",
    "nfs": "nfs_stall_lines",
    "link_down": "network_link_down_lines",
    "iommu_fault": "iommu_faults",
    "pcie_limited": "pcie_limited_devices",
    "gpu_lost": "gpu_lost_lines",
    "nvswitch_sxid": "nvswitch_sxids",
}


@probe
@dataclass(frozen=True)
class KernelLog:
    """The last lines of the kernel's log, read-only; says when this user may not read it.

    Equivalent: ``dmesg --time-format=iso | tail -n 5000``, else ``journalctl -k -b --no-pager -o short-iso -n 5000``.

    Table ``kernel_events``: line t uptime_s kind device xid pid process cgroup anon_rss_mib blocked_s severity meaning points_to
    text. Kinds: xid (meaning and points_to from NVIDIA's public list, see ``kernel_xid``), gpu_lost, nvswitch_sxid, oom_kill
    (the cgroup from the line oom_cause before it), oom_cause, oom_invoked, hung_task, lockup, rcu_stall, pcie_error,
    pcie_error_report, pcie_limited, nvme, ata, disk_error, file_system, nfs, cpu_throttled, memory_error, machine_check,
    iommu_fault, link_down, segfault. A time without zone is taken as UTC; uptime_s counts from boot.

    Facts: kernel_lines, xids ("94, 63": in order of first appearance), xid_count, xid_devices, oom_kills, hung_tasks,
    cpu_lockups, pcie_errors_corrected, pcie_errors_uncorrected, nvme_events, ata_events, disk_errors, cpu_throttle_events,
    machine_check_lines, memory_error_lines, nfs_stall_lines, network_link_down_lines, iommu_faults, pcie_limited_devices,
    gpu_lost_lines, nvswitch_sxids. A count of 0 is stated only for xids, oom_kills and hung_tasks of a log that was read.
    An old event may be of another job: compare its time.
    """

    lines: int = 5000

    name: ClassVar[str] = "kernel_log"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "dmesg --time-format=iso | tail -n 5000 || journalctl -k -b --no-pager -o short-iso -n 5000"
    reads: ClassVar[tuple[str, ...]] = ("dmesg",)

    @property
    def budget_s(self) -> float:
        return 60.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(SCRIPT, str(max(1, self.lines)), timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        rows: list[dict[str, Any]] = []
        problems: list[str] = []
        not_understood: list[NotUnderstood] = []
        lines = 0
        for result in results:
            text, problem = _log_of(result)
            seen = read_kernel(text, result.command[:80] if result.command.startswith("cat ") else "kernel log")
            rows.extend(seen.events)
            lines += seen.lines
            not_understood.extend(seen.not_understood)
            problems.extend([*problem, *_cut(seen), *filter(None, [why_cut_short(result)])])
        facts = _facts(rows, lines)
        return Parsed(
            summary=_summary(rows, lines, problems),
            facts=facts,
            tables={"kernel_events": frame(rows, EVENT_COLUMNS)},
            not_understood=tuple(not_understood),
            problems=tuple(dict.fromkeys(problems)),
        )


def _log_of(result: CommandResult) -> tuple[str, list[str]]:
    """The log in an answer of the script or in a pasted text, and why there is none."""
    pieces = parts(result.text)
    if part(pieces, "dmesg") is None and part(pieces, "refused") is None:
        return result.text, []
    log = part(pieces, "dmesg")
    if log is not None:
        return log, []
    journal = part(pieces, "journal") or ""
    said = [line for line in journal.splitlines() if " kernel: " in line]
    if said:
        return "\n".join(said), []
    why = show(part(pieces, "refused") or "") or "it says nothing"
    sentence = (
        f"the kernel log of {result.host} may not be read as this user (dmesg: {why}; journalctl shows no line of the kernel)"
    )
    return "", [f"{sentence}: ask for group adm or systemd-journal, or paste the output of sudo dmesg -T"]


def _cut(seen: KernelLines) -> list[str]:
    return [f"{seen.events_beyond} more events of the kernel log are counted nowhere"] if seen.events_beyond else []


def _facts(rows: Sequence[Mapping[str, Any]], lines: int) -> tuple[Fact, ...]:
    if not lines:
        return ()
    source = f"kernel log, {lines} lines"
    kinds = Counter(str(row["kind"]) for row in rows)
    xids = [row for row in rows if row["kind"] == "xid"]
    facts = [Fact("kernel_lines", lines, "kernel log", "lines"), Fact("xid_count", len(xids), source, "events")]
    if xids:
        codes = dict.fromkeys(str(row["xid"]) for row in xids)
        meanings = "; ".join(
            f"{row['xid']}: {row['meaning']}" for row in {row["xid"]: row for row in xids}.values() if row["meaning"]
        )
        facts.append(Fact("xids", ", ".join(codes), f"{source}; {meanings}" if meanings else source))
        facts.append(Fact("xid_devices", ", ".join(dict.fromkeys(str(row["device"]) for row in xids)), source))
    for kind, name in _COUNTED.items():
        if kinds[kind] or kind in ("oom_kill", "hung_task"):
            facts.append(Fact(name, kinds[kind], source + _who(rows, kind), "events"))
    for severity in ("corrected", "uncorrected"):
        counts = [
            sum(row["kind"] == kind and str(row.get("severity")).startswith(severity) for row in rows)
            for kind in ("pcie_error", "pcie_error_report")
        ]
        if max(counts):  # the same error is printed in both forms
            facts.append(Fact(f"pcie_errors_{severity}", max(counts), source + _who(rows, "pcie_error"), "events"))
    return tuple(facts)


def _who(rows: Sequence[Mapping[str, Any]], kind: str) -> str:
    names = dict.fromkeys(str(row.get("process") or row.get("device") or "") for row in rows if row["kind"] == kind)
    told = [name for name in names if name]
    return f": {', '.join(told[:8])}" if told else ""


def _summary(rows: Sequence[Mapping[str, Any]], lines: int, problems: Sequence[str]) -> str:
    if not lines:
        return problems[0] if problems else "no line of a kernel log"
    kinds = Counter(f"Xid {row['xid']}" if row["kind"] == "xid" else str(row["kind"]).replace("_", " ") for row in rows)
    said = ", ".join(f"{count} x {kind}" for kind, count in kinds.most_common(6))
    return f"{lines} lines of the kernel: {said or 'no GPU error, no kill for memory, no hung task'}"
