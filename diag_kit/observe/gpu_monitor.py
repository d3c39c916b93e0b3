"""``nvidia-smi dmon`` and ``pmon``: columns under a header of short names, ``-`` for what is unknown. Pure."""

from __future__ import annotations

from diag_kit.observe.gpu_values import Row, Seen, process_row
from diag_kit.observe.raw import printed_time, whole
from diag_kit.records import NotUnderstood

_MEASURES = {
    "pwr": "power_w",
    "gtemp": "temperature_c",
    "temp": "temperature_c",
    "mtemp": "memory_temperature_c",
    "sm": "util_pct",
    "mem": "memory_util_pct",
    "pclk": "sm_clock_mhz",
    "fb": "memory_used_mib",
}


def read_monitor(text: str, where: str = "nvidia-smi dmon") -> Seen:
    """One row per GPU and sample; ``sm`` is the same "some kernel ran" share as utilization.gpu (nvidia-smi man page)."""
    seen = Seen()
    header: list[str] = []
    for count, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        if words[0].startswith("#"):
            names = [word.lower() for word in line.lstrip("# ").split()]
            header = names if "gpu" in names else header  # the second header line holds units
        elif header and len(words) >= len(header):
            last = len(header) - 1
            _add(seen, dict(zip(header, [*words[:last], " ".join(words[last:])], strict=True)))
        else:
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not under a dmon header"))
    return seen


def _add(seen: Seen, cells: dict[str, str]) -> None:
    gpu = whole(cells["gpu"])
    if "pid" in cells:
        name = cells.get("command", cells.get("name", ""))
        found = process_row(gpu, cells["pid"], name, cells.get("fb", ""), type=cells.get("type"))
        seen.processes.extend([found] if found and found["pid"] not in {row["pid"] for row in seen.processes} else [])
        return
    date = cells.get("date", "")
    stamp = f"{date[:4]}/{date[4:6]}/{date[6:8]} {cells.get('time', '')}" if len(date) == 8 else ""
    row = Row(gpu, printed_time(stamp))
    for name, column in _MEASURES.items():
        if name in cells:
            row.measure(column, cells[name])
    seen.gpus.append(row.done())
