"""Several outputs one after the other without prompts between them (``uptime; free -h; df -h > host.txt``), cut where each
begins. Pure."""

from __future__ import annotations

import re

_STARTS: tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...] = (
    ("top", re.compile(r"^top - \d|^Mem: \d+K used"), ()),
    ("uptime", re.compile(r"^ {0,2}\d\d:\d\d:\d\d up +\d"), ()),
    ("free", re.compile(r"^ {5,}total +used +free +shared"), ("top",)),
    (
        "ps",
        re.compile(r"^ *(?:(?:USER|UID|F S UID|F)[ \t]+(?:PID|UID)|PID[ \t]+(?:PPID|USER|TTY|%CPU|STAT))\b"),
        ("top", "uptime_w"),
    ),
    ("df", re.compile(r"^Filesystem[ \t].*(?:Use%|Capacity)"), ()),
    ("meminfo", re.compile(r"^MemTotal:[ \t]+\d+ kB"), ()),
    ("vmstat", re.compile(r"^-*procs[ -]-"), ("vmstat",)),
    ("lscpu", re.compile(r"^Architecture:[ \t]"), ()),
    ("numactl", re.compile(r"^available: \d+ nodes? \("), ()),
    ("lsblk", re.compile(r"^NAME[ \t]+MAJ:MIN"), ()),
    ("sysstat", re.compile(r"^Linux \d\S* \("), ()),
    ("nvidia", re.compile(r"^\| NVIDIA-SMI \d"), ()),
)
"""(name, first line, the outputs inside which that line begins nothing). One more: a line at the end."""
_ABOVE = re.compile(r"^\+-{20,}\+$|^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4} *$|^[ \t]*$")
"""Lines that stand above the line by which nvidia-smi is known, and belong to it."""
MAX_BYTES = 2 * 2**20


def begins(data: bytes) -> list[int]:
    """Line indexes (from 0) where another output begins; empty where fewer than two different ones are in the text."""
    if len(data) > MAX_BYTES:
        return []
    lines = data.split(b"\n")
    found: list[int] = []
    names: set[str] = set()
    current = ""
    for at, raw in enumerate(lines):
        text = raw[:300].decode("utf-8", "replace").rstrip("\r")
        name = next((name for name, first, inside in _STARTS if current not in inside and first.match(text)), "")
        if not name or name == current:
            continue
        while (
            name == "nvidia"
            and at > 0
            and at - 1 not in found
            and _ABOVE.match(lines[at - 1][:200].decode("utf-8", "replace").rstrip("\r"))
        ):
            at -= 1
        found.append(at)
        names.add(name)
        current = name
    return found if len(names) > 1 else []
