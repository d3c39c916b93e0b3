"""Kernel counters of the whole host as people paste them: /proc/vmstat, numastat; and dstat. Pure."""

from __future__ import annotations

import re
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.observe.system.found import Found, numbered, size, times
from diag_kit.records import CommandResult

_TELLING = {
    "pgmajfault": "major_faults_since_boot",
    "pswpin": "pages_swapped_in_since_boot",
    "pswpout": "pages_swapped_out_since_boot",
    "oom_kill": "oom_kills_since_boot",
    "numa_miss": "numa_misses_since_boot",
}


def read_counters(result: CommandResult, found: Found) -> None:
    """``NAME NUMBER...`` a line: /proc/vmstat (proc(5)); numastat has a column for each node, which are added up."""
    for at, line in numbered(result.text):
        words = line.split()
        counts = [whole(word) for word in words[1:]]
        if len(words) >= 2 and re.fullmatch(r"[a-z]\w*", words[0]) and all(count is not None for count in counts):
            total = sum(count for count in counts if count is not None)
            source = "/proc/vmstat" if len(words) == 2 else "numastat"
            found.rows["counters"].append({"source": source, "name": words[0], "value": total})
            if words[0] in _TELLING:
                found.fact(_TELLING[words[0]], total, source)
        elif words and not all(re.fullmatch(r"node\d+", word) for word in words):
            found.strange(f"line {at}", line, "no counter")


_NAMES = {"usr": "user_pct", "sys": "system_pct", "idl": "idle_pct", "wai": "iowait_pct", "stl": "steal_pct"}


def read_dstat(result: CommandResult, found: Found) -> None:
    """dstat and dool: groups parted by "|" or ":"; its first row is the average since boot, as it says itself. B, k, M are
    powers of 1024."""
    names: list[tuple[int, str]] = []
    rows: list[dict[str, str]] = []
    for at, line in numbered(result.text):
        groups = [group.split() for group in re.split(r"[|:](?!\d\d)", line)]
        words = [(n, word) for n, group in enumerate(groups) for word in group]
        if not words or line.lstrip().startswith("-"):
            continue
        if not any(ch.isdigit() for _, word in words for ch in word):
            names = words
        elif names and len(words) == len(names):
            rows.append({f"{n} {name}": word for (n, name), (_, word) in zip(names, words, strict=True)})
        elif line.strip():
            found.strange(f"dstat line {at}", line, "does not fit the header above it")
    for row in rows[1:]:
        plain = {name.partition(" ")[2]: value for name, value in row.items()}
        found.rows["cpu"].append({name: number(plain.get(key, "")) for key, name in _NAMES.items()})
        amounts: dict[str, Any] = {key: size(plain[key]) for key in ("recv", "send") if key in plain}
        if amounts:
            received, sent = (times(amounts.get(key), 1e-6) for key in ("recv", "send"))
            found.rows["network"].append({"interface": "total", "received_mb_per_s": received, "sent_mb_per_s": sent})
    if rows and len(rows) == 1:
        found.problems.append("the only row of dstat is the average since boot: it says nothing about now")
