"""nvidia-smi's comma-separated answers, read by the names in their header. Pure."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass, field

from diag_kit.observe.raw import printed_time, whole
from diag_kit.records import NotUnderstood

GPU_COLUMNS = {
    "t": "datetime64[us, UTC]",
    "gpu": "Int64",
    "name": "string",
    "util_pct": "Float64",
    "memory_util_pct": "Float64",
    "memory_used_mib": "Float64",
    "memory_total_mib": "Float64",
    "power_w": "Float64",
    "power_limit_w": "Float64",
    "sm_clock_mhz": "Float64",
    "sm_clock_max_mhz": "Float64",
    "temperature_c": "Float64",
    "pcie_gen": "Int64",
    "pcie_gen_max": "Int64",
    "pcie_width": "Int64",
    "pcie_width_max": "Int64",
    "pstate": "string",
    "reasons": "string",
    "uuid": "string",
}
_HEADER = {
    "utilization.gpu": "util_pct",
    "utilization.memory": "memory_util_pct",
    "memory.used": "memory_used_mib",
    "memory.total": "memory_total_mib",
    "power.draw": "power_w",
    "power.draw.instant": "power_w",
    "power.draw.average": "power_w",
    "power.limit": "power_limit_w",
    "enforced.power.limit": "power_limit_w",
    "temperature.gpu": "temperature_c",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks.sm": "sm_clock_mhz",
    "clocks.max.sm": "sm_clock_max_mhz",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.gpucurrent": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
    "index": "gpu",
    "name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pstate": "pstate",
    "timestamp": "t",
    "driver_version": "driver",
    "pid": "pid",
    "used_gpu_memory": "used_mib",
    "used_memory": "used_mib",
    "process_name": "process",
    "clocks_event_reasons.active": "reasons",
    "clocks_throttle_reasons.active": "reasons",
}
_TO_UNIT = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0, "mW": 1e-3, "W": 1.0, "kHz": 1e-3, "MHz": 1.0, "GHz": 1e3, "%": 1.0}
_VALUE = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*([A-Za-z%]*)$")
_UNKNOWN = re.compile(r"^\[?(n/?a|not supported|unknown error|err!|insufficient permissions|not found|gpu is lost|-)\]?$", re.I)
_MAX_POWER_W = 10_000.0
"""More than any GPU can draw: some drivers print a sentinel such as 4294967.29 W."""

REASONS = (
    (0x1, "idle"),
    (0x2, "clocks set by an application"),
    (0x4, "software power cap"),
    (0x8, "hardware slowdown"),
    (0x10, "sync boost"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "hardware power brake"),
    (0x100, "display clock setting"),
)
"""Bits of NVML's clock event reasons (nvml.h, nvmlClocksEventReason*)."""


@dataclass(slots=True)
class SmiRows:
    """What was read: rows of ``gpus``, rows of processes, the driver, and what was not understood."""

    rows: list[dict[str, object]] = field(default_factory=list)
    processes: list[dict[str, object]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)
    driver: str | None = None


def reasons_in_words(mask: str) -> str | None:
    """The bits of a clock-event mask such as 0x0000000000000004 in words; "none" for no bit; None if it is no mask."""
    if not re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", mask.strip()):
        return None
    bits = int(mask, 16)
    words = [word for bit, word in REASONS if bits & bit]
    rest = bits & ~sum(bit for bit, _ in REASONS)
    return ", ".join([*words, *([f"unknown bit {rest:#x}"] if rest else [])]) or "none"


def read_csv(text: str) -> SmiRows:
    """Every ``--query-gpu`` or ``--query-compute-apps`` row under its header. A header that has no unit: the unit is the value's."""
    found = SmiRows()
    header: list[tuple[str, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = [word.strip() for word in next(csv.reader([line[:4000]], skipinitialspace=True), [])] if line.strip() else []
        named = _header(words)
        if named:
            header = named
        elif header and len(words) == len(header):
            _add(found, header, words, number, line)
        elif header and line.strip():
            found.not_understood.append(NotUnderstood(f"nvidia-smi line {number}", line[:200], "not a row of its header"))
    return found


def _header(words: list[str]) -> list[tuple[str, str]]:
    """(column, unit) of a header line; empty for any other. Two known names, or one that is alone, make a header."""
    split = [re.match(r"^([a-z_.0-9]+)(?:\s*\[(\S+)\])?$", word) for word in words]
    known = [match for match in split if match and match[1] in _HEADER]
    if not known or len(known) < min(2, len(words)) or any(word[:1].isdigit() for word in words):
        return []
    return [(_HEADER.get(match[1], ""), match[2] or "") if match else ("", "") for match in split]


def _add(found: SmiRows, header: list[tuple[str, str]], words: list[str], number: int, line: str) -> None:
    row: dict[str, object] = {}
    bad: list[str] = []
    for (column, unit), word in zip(header, words, strict=True):
        value, understood = _value(column, unit, word)
        if not understood:
            bad.append(word)
        if column and row.get(column) is None:
            row[column] = value
    if bad:
        found.not_understood.append(NotUnderstood(f"nvidia-smi line {number}", line[:200], f"no value: {', '.join(bad)[:80]}"))
    found.driver = str(row["driver"]) if row.get("driver") else found.driver
    if "pid" in row:
        found.processes.append({"pid": row.get("pid"), "uuid": row.get("uuid"), "used_mib": row.get("used_mib"), "name": row.get("process")})
    elif row.get("gpu") is not None or any(row.get(each) is not None for each in ("util_pct", "power_w", "memory_used_mib")):
        if "gpu" not in row:
            row["gpu"] = None
        found.rows.append(row)


def _value(column: str, unit: str, word: str) -> tuple[object, bool]:
    """(value, whether it was understood). Not known is None and understood."""
    if not column or not word or _UNKNOWN.match(word):
        return None, True
    if column == "t":
        return printed_time(word), printed_time(word) is not None
    if column == "reasons":
        words = reasons_in_words(word)
        return words, words is not None
    if column in ("name", "uuid", "pstate", "driver", "process"):
        return word, True
    if column in ("gpu", "pid", "pcie_gen", "pcie_gen_max", "pcie_width", "pcie_width_max"):
        return whole(word), whole(word) is not None
    match = _VALUE.match(word)
    if not match or len(match[1]) > 18:
        return None, False
    value = float(match[1]) * _TO_UNIT.get(match[2] or unit, 1.0)
    return (None if column.startswith("power") and value > _MAX_POWER_W else value), True
