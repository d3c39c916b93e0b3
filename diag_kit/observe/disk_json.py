"""iostat reports in ``-o JSON``, with the known faults of single sysstat versions undone. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from diag_kit.observe.disk_reports import Report, Reports, cpu_row, device_row
from diag_kit.observe.raw import printed_time
from diag_kit.records import NotUnderstood

_JSON_NAMES = {"util": "%util", "rrqm": "%rrqm", "wrqm": "%wrqm", "drqm": "%drqm"}


def read_json(text: str, where: str = "iostat -o JSON") -> Reports:
    """All complete reports in ``-o JSON`` output, also where it was cut or is malformed (sysstat 11.5 to 12.0.4)."""
    found = Reports()
    statistics = _statistics(text)
    if statistics is None:
        statistics, leftover = _salvage(text)
        found.remarks.append(f"the JSON of iostat is incomplete: {len(statistics)} complete reports were kept")
        if leftover.strip():
            found.not_understood.append(NotUnderstood(where, leftover.strip()[:200], "incomplete JSON"))
    for entry in statistics:
        report = _json_report(entry)
        if report is None:
            found.not_understood.append(NotUnderstood(where, str(entry)[:200], "no iostat report"))
        else:
            found.reports.append(report)
            if report.cpu is None and "avg-cpu" in entry:
                found.remarks.append("a CPU line that does not add up to 100 % was left out (sysstat before 12.0.5)")
    return _undouble(found)


def _statistics(text: str) -> list[Any] | None:
    try:
        tree = json.loads(text)
        hosts = tree["sysstat"]["hosts"]
        return [entry for host in hosts for entry in host["statistics"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _salvage(text: str) -> tuple[list[Any], str]:
    """Every complete object that starts like a report, and the text after the last one."""
    decoder = json.JSONDecoder()
    kept: list[Any] = []
    end = 0
    for match in re.finditer(r'\{\s*"(?:timestamp|avg-cpu|disk)"', text):
        if match.start() < end:
            continue
        try:
            entry, end = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        kept.append(entry)
    return kept, text[end:] if '"disk_device"' in text[end:] or not kept else ""


def _json_report(entry: Any) -> Report | None:
    if not isinstance(entry, dict):
        return None
    disks = entry.get("disk", [])
    cpu = entry.get("avg-cpu")
    if not isinstance(disks, list) or not (disks or isinstance(cpu, dict)):
        return None
    rows = tuple(_json_disk(row) for row in disks if isinstance(row, dict) and "disk_device" in row)
    printed = {name: _json_number(value) for name, value in cpu.items()} if isinstance(cpu, dict) else {}
    return Report(printed_time(str(entry.get("timestamp", ""))), rows, cpu_row(printed))


def _json_disk(row: Mapping[str, Any]) -> dict[str, Any]:
    printed = {_JSON_NAMES.get(name, name): (_json_number(value), None) for name, value in row.items()}
    return device_row(str(row["disk_device"])[:200], printed)


def _json_number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e18
    return float(value) if known else None


def _undouble(found: Reports) -> Reports:
    """sysstat 12.2.0 prints twice the bytes in JSON (fixed in 12.2.1): bytes must equal requests times their size."""
    rows = [row for report in found.reports for row in report.disks]
    ratios = [
        (row["read_mb_per_s"] + row["write_mb_per_s"]) * 1e6 / (per_s * row["request_kib"] * 1024)
        for row in rows
        if row["request_kib"]
        and (per_s := (row["read_per_s"] or 0) + (row["write_per_s"] or 0)) > 1
        and row["read_mb_per_s"] is not None
        and row["write_mb_per_s"] is not None
    ]
    if not ratios or not all(1.9 < ratio < 2.1 for ratio in ratios):
        return found
    for row in rows:
        for name in ("read_mb_per_s", "write_mb_per_s", "read_mib_per_s"):
            row[name] = None if row[name] is None else row[name] / 2
    found.remarks.append("bytes were halved: this sysstat (12.2.0) prints twice the bytes in JSON")
    return found
