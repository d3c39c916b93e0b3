"""vmstat of procps and busybox: default, ``-w``, ``-a``, ``-t``, ``-S``, and ``-s``. Pure.

procps vmstat.c: the first row is the average since boot (man vmstat); bi and bo are KiB/s whatever ``-S`` says, all memory
columns and si, so are in its unit, which the output does not name.
"""

from __future__ import annotations

import re
from typing import Any

from diag_kit.observe.raw import number, printed_time, whole
from diag_kit.observe.system.found import Found, numbered, option, times
from diag_kit.records import CommandResult

_UNIT_BYTES = {"k": 1000, "K": 1024, "m": 1000**2, "M": 1024**2}
_COLUMNS = {"r": "running", "b": "blocked", "in": "interrupts_per_s", "cs": "context_switches_per_s"}
_MEMORY = {"swpd": "swapped_bytes", "free": "free_bytes", "buff": "buffers_bytes", "cache": "cache_bytes"}
_SWAP = {"si": "swap_in_mb_per_s", "so": "swap_out_mb_per_s"}
_BLOCKS = {"bi": "read_mb_per_s", "bo": "write_mb_per_s"}
_CPU = {"us": "user_pct", "sy": "system_pct", "id": "idle_pct", "wa": "iowait_pct", "st": "steal_pct"}
_KNOWN = {*_COLUMNS, *_MEMORY, *_SWAP, *_BLOCKS, *_CPU, "gu", "inact", "active"}


def read_vmstat(result: CommandResult, found: Found) -> None:
    """Rows ``vmstat`` and ``cpu``; the row since boot is left out, or put into ``cpu_since_boot`` where it is the only one."""
    if re.search(r"^[ \t]*\d+ (?:[KkMm] )?total memory", result.text, re.M):
        _totals(result, found)
        return
    header: list[str] = []
    zone_words = 0
    rows: list[dict[str, str]] = []
    for at, line in numbered(result.text):
        words = line.split()
        if not words or re.match(r"^[ \t]*-*procs\b", line) or words[0].startswith("--"):
            continue
        if words[:2] == ["r", "b"]:
            header = [word for word in words if word in _KNOWN]
            zone_words = len(words) - len(header)
            if zone_words > 2:
                found.strange(f"vmstat line {at}", " ".join(w for w in words if w not in _KNOWN), "columns that are not known")
        elif header and len(words) >= len(header) and all(number(word) is not None for word in words[: len(header)]):
            rows.append({**dict(zip(header, words, strict=False)), "#t": " ".join(words[len(header) :])})
        elif not re.match(r"^(?:\^C|\S*[$#%>](?:\s|$))", line.strip()):
            found.strange(f"vmstat line {at}", line, "does not fit the header above it")
    _add(result, found, rows)


def _add(result: CommandResult, found: Found, rows: list[dict[str, str]]) -> None:
    first_left_out = re.search(r"vmstat[^|;\n]*[ \t](?:-\w*y|--no-first)", result.command)
    boot = [] if first_left_out else rows[:1]
    kept = rows[len(boot) :]
    unit = _unit(result.command, rows)
    if unit is None and rows:
        found.strange("vmstat", result.command, "the unit of its memory columns cannot be told: they are left out")
    for row in kept:
        found.rows["vmstat"].append(_vmstat(row, unit))
        found.rows["cpu"].append(_shares(row))
    found.rows["cpu_since_boot"].extend(_shares(row) for row in boot)
    if kept:
        waiting = [value for row in kept if (value := number(row.get("r", ""))) is not None]
        found.said.append(f"{len(kept)} intervals, {sum(waiting) / max(1, len(waiting)):.1f} tasks want a CPU")
    elif rows:
        found.problems.append("the only row of vmstat is the average since boot: it says nothing about now (run vmstat -w 1 10)")


def _unit(command: str, rows: list[dict[str, str]]) -> int | None:
    given = re.search(r"\bvmstat\b[^|;\n]*?(?:-\w*S[ \t]*|--unit[ =])([kKmM])", command)
    if given:
        return _UNIT_BYTES[given[1]]
    if option(command, "vmstat", "S") is not None:
        return 1024
    sums = [sum(value for name in _MEMORY if (value := whole(row.get(name, ""))) is not None) for row in rows]
    return 1024 if sums and max(sums) >= 2**22 else None  # 4 GiB as KiB; as MiB it were 4 TiB


def _vmstat(row: dict[str, str], unit: int | None) -> dict[str, Any]:
    values: dict[str, Any] = {"t": printed_time(row["#t"])}
    values |= {name: number(row[key]) if key in ("in", "cs") else whole(row[key]) for key, name in _COLUMNS.items() if key in row}
    if unit is not None:
        for key, name in _MEMORY.items():
            amount = whole(row.get(key, ""))
            values[name] = None if amount is None else amount * unit
        values |= {name: times(number(row.get(key, "")), unit / 1e6) for key, name in _SWAP.items()}
    return values | {name: times(number(row.get(key, "")), 1024 / 1e6) for key, name in _BLOCKS.items()}


def _shares(row: dict[str, str]) -> dict[str, Any]:
    shares: dict[str, Any] = {name: number(row.get(key, "")) for key, name in _CPU.items()}
    return shares | {"t": printed_time(row["#t"])}


_TOTAL_LINES = {
    "total memory": "total_bytes",
    "free memory": "free_bytes",
    "swap cache": "cached_bytes",
    "used swap": "swap_used_bytes",
}


def _totals(result: CommandResult, found: Found) -> None:
    """``vmstat -s``: totals since boot; "K" is 1024 bytes."""
    memory: dict[str, Any] = {}
    for at, line in numbered(result.text):
        match = re.fullmatch(r"[ \t]*(\d{1,18}) (?:([KkMm]) )?(\S.*?)[ \t]*", line)
        if not match:
            if line.strip():
                found.strange(f"vmstat -s line {at}", line, "no line of vmstat -s")
        elif match[3] in _TOTAL_LINES:
            memory[_TOTAL_LINES[match[3]]] = int(match[1]) * _UNIT_BYTES[match[2] or "K"]
        elif not match[2]:
            found.rows["counters"].append({"source": "vmstat -s", "name": match[3], "value": int(match[1])})
    if memory:
        found.rows["memory"].append(memory)
        found.fact("memory_total_bytes", memory.get("total_bytes"), "vmstat -s", "bytes")
