"""top of procps (3.2, 3.3, 4) and busybox: the lines above its table, one set for each screen. Pure.

In batch mode the first screen of several counts since boot (CPU line) or since each process began (man top); a single pasted
screen is taken as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.process_tables import Table, is_header, read_table
from diag_kit.observe.raw import number
from diag_kit.observe.system.found import numbered, size
from diag_kit.records import NotUnderstood

_CPU = re.compile(r"^%?Cpu(\(s\)|\d{1,5})? *:(.*)$")
_BUSYBOX_CPU = re.compile(r"^CPU(\d{0,5}):(.*% *(?:usr|idle).*)$")
_SHARE = re.compile(r"(\d{1,3}(?:[.,]\d{1,3})?)%? *(us|sy|ni|id|wa|hi|si|st|usr|sys|nic|idle|io|irq|sirq)\b")
_NAMES = {
    "us": "user_pct", "usr": "user_pct", "sy": "system_pct", "sys": "system_pct", "ni": "nice_pct",
    "nic": "nice_pct", "id": "idle_pct",
    "idle": "idle_pct", "wa": "iowait_pct", "io": "iowait_pct", "hi": "hard", "irq": "hard", "si": "soft",
    "sirq": "soft", "st": "steal_pct",
}  # fmt: skip
_MEMORY = re.compile(r"^(?:([KMGTPE])iB )?(Mem|Swap) *:(.*)$")
_AMOUNT = re.compile(
    r"(\d{1,16}(?:[.,]\d{1,4})?) ?([kKmMgG]?)\+? *(total|free|used|buff/cache|buffers|avail Mem|cached(?: Mem)?|shrd|buff)\b"
)
_LOAD = re.compile(r"[Ll]oad average: *([\d.]+),? +([\d.]+),? +([\d.]+)")
_TASKS = re.compile(r"^(Tasks|Threads): *(\d{1,9}) total")
_ZOMBIES = re.compile(r"(\d{1,9}) zombie")


@dataclass(slots=True)
class Screen:
    """What one refresh of top showed."""

    cpu: dict[str, Any] | None = None
    cores: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, int | None] = field(default_factory=dict)
    load: tuple[float | None, ...] = ()
    threads: bool = False
    zombies: int | None = None
    lines: list[tuple[int, str]] = field(default_factory=list)


def is_top(text: str) -> bool:
    return bool(re.search(r"^top - |^%?Cpu(?:\(s\)|0) *:|^Mem: \d+K used|^CPU: +\d+% usr", text, re.M))


def read_top(text: str) -> tuple[list[Screen], Table, list[NotUnderstood]]:
    """(screens, all rows with ``header`` = number of the screen's table, lines that no reader knows)."""
    screens: list[Screen] = []
    rows: list[tuple[int, str]] = []
    odd: list[NotUnderstood] = []
    for at, line in numbered(text):
        known = _summary_line(screens, line)
        if known:
            continue
        if not screens:
            screens.append(Screen())
        if is_header(line) or rows or not line.strip():
            rows.append((at, line))
        else:
            odd.append(NotUnderstood(f"line {at}", line[:200], "no line of top"))
    table = read_table(rows)
    return screens, table, odd


def _summary_line(screens: list[Screen], line: str) -> bool:
    if line.startswith("top - ") or re.match(r"^Mem: \d+K used", line):
        screens.append(Screen())
    if line.startswith("top - ") or line.startswith("Load average:"):
        load = _LOAD.search(line)
        if load and screens:
            screens[-1].load = tuple(number(text) for text in load.groups())
        return True
    if not re.match(r"^(?:%?Cpu|CPU|Mem|Swap|[KMGTPE]iB |Tasks:|Threads:)", line):
        return False
    if not screens:
        screens.append(Screen())
    screen = screens[-1]
    if tasks := _TASKS.match(line):
        screen.threads = tasks[1] == "Threads"
        zombies = _ZOMBIES.search(line)
        screen.zombies = int(zombies[1]) if zombies else None
        return True
    if (cpu := _CPU.match(line)) or (cpu := _BUSYBOX_CPU.match(line)):
        return _cpu(screen, cpu[1] or "", line)
    if memory := _MEMORY.match(line):
        _memory(screen, memory[2], memory[1] or "", memory[3])
        return True
    return False


def _cpu(screen: Screen, which: str, line: str) -> bool:
    cores = re.split(r"(?<!%)(?=%?Cpu\d+ *:)", line) if which.isdigit() else [line]  # procps 4 may put two CPUs on a line
    for part in (core for core in cores if core.strip()):
        shares = {_NAMES[name]: number(value) for value, name in _SHARE.findall(part)}
        if not shares:
            return False
        interrupts = [value for name in ("hard", "soft") if (value := shares.pop(name, None)) is not None]
        core = re.match(r"^%?C[Pp][Uu](\d{1,5})", part.strip())
        if core:
            screen.cores.append({**shares, "cpu": int(core[1]), "interrupt_pct": sum(interrupts) if interrupts else None})
        else:
            system = shares.get("system_pct")
            screen.cpu = {**shares, "system_pct": None if system is None else round(system + sum(interrupts), 2)}
    return True


def _memory(screen: Screen, what: str, unit: str, text: str) -> None:
    amounts: dict[str, int | None] = {}
    for value, letter, name in _AMOUNT.findall(text):
        amounts[name] = size(f"{value}{letter.upper() or unit}", plain=1024)
    names: Mapping[str, str] = {
        "total": "total_bytes",
        "free": "free_bytes",
        "buff/cache": "cached_bytes",
        "shrd": "shared_bytes",
    }
    if what == "Swap":
        names = {
            "used": "swap_used_bytes",
            "avail Mem": "available_bytes",
            "cached": "cached_bytes",
            "cached Mem": "cached_bytes",
        }
    else:
        names = {**names, "cached": "cached_bytes"}
    screen.memory |= {names[name]: value for name, value in amounts.items() if name in names}
    if what == "Mem" and "total" not in amounts and amounts.get("used") is not None and amounts.get("free") is not None:
        screen.memory["total_bytes"] = (amounts["used"] or 0) + (amounts["free"] or 0)  # busybox prints no total
