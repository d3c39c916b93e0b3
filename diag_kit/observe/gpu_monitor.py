"""``nvidia-smi dmon`` and ``pmon``: columns under a header of short names, ``-`` for what is unknown. Pure.

The header is read anew whenever it is printed again (every some dozens of rows); columns differ by driver and by ``-s``
(545 has 8 in pmon, 550 adds jpg and ofa; ``-s m`` puts fb and ccpm in place of the loads), so nothing is told by position.
"""

from __future__ import annotations

import re
from datetime import datetime

from diag_kit.observe.gpu_values import Row, Seen, no_value, process_row
from diag_kit.observe.raw import number, printed_time, whole
from diag_kit.records import NotUnderstood

_MEASURES = {
    "pwr": "power_w",
    "gtemp": "temperature_c",
    "temp": "temperature_c",
    "mtemp": "memory_temperature_c",
    "sm": "util_pct",
    "mem": "memory_util_pct",
    "pclk": "sm_clock_mhz",
    "mclk": "memory_clock_mhz",
    "fb": "memory_used_mib",
    "rxpci": "pcie_rx_mb_per_s",
    "txpci": "pcie_tx_mb_per_s",
}
_NVTOP = re.compile(
    r"^\s*Device (\d{1,4}) \[(.{1,80}?)\]\s.{0,20}?PCIe GEN (\d+|N/A)@ ?(\d+|N/A)x\s+RX: (\S+) (\S+)\s+TX: (\S+) (\S+)\s*$"
)
_PER_MB = {
    "B/s": 1e-6,
    "kB/s": 1e-3,
    "KB/s": 1e-3,
    "MB/s": 1.0,
    "GB/s": 1e3,
    "KiB/s": 2**10 / 1e6,
    "MiB/s": 2**20 / 1e6,
    "GiB/s": 2**30 / 1e6,
}


def read_monitor(text: str, where: str = "nvidia-smi dmon") -> Seen:
    """One row per GPU and sample; ``sm`` is the same "some kernel ran" share as utilization.gpu (nvidia-smi man page).

    dmon's ``pviol`` is the share of time (%) held back by power, ``tviol`` whether it was by heat: as fields of the GPU.
    """
    seen = Seen()
    header: list[str] = []
    known: set[tuple[int, int]] = set()
    sample, last = 0, -1
    for count, line in enumerate(text.splitlines(), start=1):
        words = line[:4000].split()
        if not words:
            continue
        if words[0].startswith("#"):
            names = [word.lower() for word in line.lstrip("# \t").split()]
            header = names if "gpu" in names else header  # the second header line holds units
            continue
        cells = _under(header, words)
        gpu = whole(cells.get("gpu", "")) if cells else None
        if cells is None or gpu is None:
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not under a dmon header"))
            continue
        sample, last = sample + (gpu < last), gpu  # the GPUs come in order: a smaller one begins the next sample
        _add(seen, gpu, cells, sample, known)
    seen.processes_listed = "pid" in header
    return seen


def _under(header: list[str], words: list[str]) -> dict[str, str] | None:
    """Words under their names; the last column of pmon is a command and may hold blanks. A row with too few is cut off."""
    if not header or len(words) < len(header) or (len(words) > len(header) and header[-1] not in ("command", "name")):
        return None
    last = len(header) - 1
    return dict(zip(header, [*words[:last], " ".join(words[last:])], strict=True))


def _stamp(cells: dict[str, str]) -> datetime | None:
    date = cells.get("date", "")
    return printed_time(f"{date[:4]}/{date[4:6]}/{date[6:8]} {cells.get('time', '')}") if len(date) == 8 else None


def _add(seen: Seen, gpu: int, cells: dict[str, str], sample: int, known: set[tuple[int, int]]) -> None:
    if "pid" in cells:
        _add_process(seen, gpu, cells, sample, known)
        return
    row = Row(gpu, _stamp(cells))
    for name, printed in cells.items():
        if name in _MEASURES:
            row.measure(_MEASURES[name], printed)
        elif name not in ("gpu", "date", "time") and not no_value(printed):
            seen.fields.append({"gpu": gpu, "field": name, "value": printed})
    seen.gpus.append(row.done())


def _add_process(seen: Seen, gpu: int, cells: dict[str, str], sample: int, known: set[tuple[int, int]]) -> None:
    """A GPU without a process is a row of dashes: it is one GPU and no process. ``known``: (gpu, pid) seen, pid 0 for none."""
    if (gpu, 0) not in known:
        known.add((gpu, 0))
        seen.gpus.append(Row(gpu).done())
    name = cells.get("command", cells.get("name", ""))
    kind = None if no_value(cells.get("type", "")) else cells.get("type")
    found = process_row(gpu, cells["pid"], name, cells.get("fb", ""), type=kind)
    if not found:
        return
    if (gpu, found["pid"]) not in known:
        known.add((gpu, found["pid"]))
        seen.processes.append(found)
    load = {"util_pct": number(cells.get("sm", "")), "memory_util_pct": number(cells.get("mem", ""))}
    seen.samples.append({**found, **load, "t": _stamp(cells), "sample": sample})


def read_nvtop(text: str, where: str = "nvtop") -> Seen:
    """nvtop's lines on devices: the PCIe link and what goes over it at this moment."""
    seen = Seen()
    for count, line in enumerate(text.splitlines(), start=1):
        found = _NVTOP.match(line[:400])
        if found:
            row = Row(int(found[1]))
            row.text("name", found[2])
            row.measure("pcie_gen", found[3])
            row.measure("pcie_width", found[4])
            for column, value, unit in (("pcie_rx_mb_per_s", found[5], found[6]), ("pcie_tx_mb_per_s", found[7], found[8])):
                amount = number(value)
                if amount is not None and unit in _PER_MB:
                    row.values[column] = amount * _PER_MB[unit]
            seen.gpus.append(row.done())
        elif line.strip():
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a line of nvtop on a device"))
    return seen
