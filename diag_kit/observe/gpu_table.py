"""The table that plain ``nvidia-smi`` prints, over its generations. Pure; for what people paste.

Grammar: a line per GPU with its index and name (``|   0  NVIDIA A100 ...  On  | 00000000:07:00.0 Off | 0 |``), then one with
``N/A  41C  P0  65W / 400W |  1024MiB / 40960MiB |  37%  Default``; a table of processes behind it. MIG shows N/A for utilisation.
"""

from __future__ import annotations

import re

from diag_kit.observe.gpu_csv import SmiRows
from diag_kit.observe.raw import printed_time

_FIRST = re.compile(r"^\|\s+(\d{1,3})\s+(\S.*?)\s+(?:On|Off|N/A|TCC|WDDM)?\s*\|\s*[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:")
_MEMORY = re.compile(r"(\d+)MiB\s*/\s*(\d+)MiB")
_POWER = re.compile(r"(\d+(?:\.\d+)?)W\s*/\s*(\d+(?:\.\d+)?)W")
_POWER_ONLY = re.compile(r"(\d+(?:\.\d+)?)W\s*/")
_TEMPERATURE = re.compile(r"\b(\d{1,3})C\b")
_PSTATE = re.compile(r"\b(P\d{1,2})\b")
_UTIL = re.compile(r"\|\s*(\d{1,3})%\s")
_DRIVER = re.compile(r"Driver Version:\s*([\d.]+)")
_PROCESS = re.compile(r"^\|\s+(\d{1,3})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(\d+)\s+(?:[CGM+]+\s+)?(\S.*?)\s+(?:(\d+)MiB|N/A)\s*\|")


def read_table(text: str) -> SmiRows:
    """Rows of ``gpus`` and of processes from the printed table; empty for other text."""
    found = SmiRows()
    driver = _DRIVER.search(text)
    found.driver = driver[1] if driver else None
    at = next((t for line in text.splitlines()[:3] if (t := printed_time(line)) is not None), None)
    row: dict[str, object] | None = None
    in_processes = False
    for line in text.splitlines():
        in_processes = in_processes or line.startswith("| Processes:")
        first = None if in_processes else _FIRST.match(line)
        if first:
            row = {"t": at, "gpu": int(first[1]), "name": first[2].strip()}
            found.rows.append(row)
        elif row is not None and not in_processes and _MEMORY.search(line):
            row.update(_second(line))
            row = None
        elif in_processes and (process := _PROCESS.match(line)):
            used = float(process[4]) if process[4] else None
            found.processes.append({"gpu": int(process[1]), "pid": int(process[2]), "name": process[3], "used_mib": used})
    return found


def _second(line: str) -> dict[str, object]:
    values: dict[str, object] = {}
    if memory := _MEMORY.search(line):
        values["memory_used_mib"], values["memory_total_mib"] = float(memory[1]), float(memory[2])
    if power := _POWER.search(line):
        values["power_w"], values["power_limit_w"] = float(power[1]), float(power[2])
    elif power := _POWER_ONLY.search(line):
        values["power_w"] = float(power[1])
    if temperature := _TEMPERATURE.search(line):
        values["temperature_c"] = float(temperature[1])
    if pstate := _PSTATE.search(line):
        values["pstate"] = pstate[1]
    if util := _UTIL.search(line):
        values["util_pct"] = float(util[1])
    return values
