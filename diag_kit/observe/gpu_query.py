"""``nvidia-smi --query-gpu`` and ``--query-compute-apps`` in CSV, by header name, with or without units. Pure."""

from __future__ import annotations

import re

from diag_kit.observe.gpu_health import health_row
from diag_kit.observe.gpu_values import Row, Seen, join_reasons, no_value, process_row, yes_or_no
from diag_kit.observe.raw import printed_time, show, whole
from diag_kit.records import NotUnderstood

_FIELD = re.compile(r"^([a-z][A-Za-z0-9_.]*)(?: \[([^\]]{1,12})\])?$")
_TEXTS = {
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "pci.bus_id": "bus_id",
    "gpu_bus_id": "bus_id",
    "pstate": "pstate",
    "mig.mode.current": "mig",
}
_MEASURES = {
    "utilization.gpu": "util_pct",
    "utilization.memory": "memory_util_pct",
    "memory.used": "memory_used_mib",
    "memory.total": "memory_total_mib",
    "power.draw": "power_w",
    "power.draw.average": "power_w",
    "gpu.power.draw.average": "power_w",
    "power.draw.instant": "power_w",
    "gpu.power.draw.instant": "power_w",
    "enforced.power.limit": "power_limit_w",
    "gpu.power.current_limit": "power_limit_w",
    "power.limit": "power_limit_w",
    "temperature.gpu": "temperature_c",
    "temperature.memory": "memory_temperature_c",
    "clocks.current.sm": "sm_clock_mhz",
    "clocks.sm": "sm_clock_mhz",
    "clocks.max.sm": "sm_clock_max_mhz",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.gpucurrent": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "clocks.current.memory": "memory_clock_mhz",
    "clocks.mem": "memory_clock_mhz",
    "memory.reserved": "memory_reserved_mib",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "clocks_event_reasons_counters.sw_power_cap": "power_cap_us",
    "clocks_event_reasons_counters.sw_thermal_slowdown": "sw_thermal_us",
    "clocks_event_reasons_counters.hw_thermal_slowdown": "hw_thermal_us",
    "clocks_event_reasons_counters.hw_power_brake_slowdown": "power_brake_us",
    "clocks_event_reasons_counters.sync_boost": "sync_boost_us",
}
_REASON_FLAG = re.compile(r"^clocks_(?:event|throttle)_reasons\.([a-z_]{3,40})$")
_FLAG_WORDS = {
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications_clocks",
    "hw_power_brake_slowdown": "hw_power_brake",
    "display_clock_setting": "display_clocks",
}
_ASKED = re.compile(r"--query-(?:gpu|compute-apps|accounted-apps)[= ]['\"]?([A-Za-z0-9_.,]{1,2000})")
_OTHER = ("timestamp", "index", "pid", "process_name", "count", "driver_version", "used_memory", "used_gpu_memory")
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_LOST = re.compile(r"unable to determine the device handle|GPU is lost|has fallen off|requires reset", re.I)


def read_query(text: str, where: str = "nvidia-smi") -> Seen:
    """All rows under their headers; a line of words among them (a GPU that was lost) is a problem, not a row.

    Without a header (``--format=csv,noheader``) the columns are those of the command, where ``where`` or a line above names it.
    """
    seen = Seen()
    header: list[str] = _asked_for(where)
    order: dict[str, int] = {}
    for count, line in enumerate(text.splitlines(), start=1):
        cells = [cell.strip().strip('"') for cell in line[:20_000].lstrip("# ").split(",")]
        if not line.strip():
            continue
        names = [match.group(1).lower() for cell in cells if (match := _FIELD.match(cell))]
        if asked := _asked_for(line):
            header = asked
        elif len(names) == len(cells) and (len(cells) > 1 or "." in names[0] or names[0] in _TEXTS) and not _is_row(names):
            header = names
            seen.headers += 1
            seen.processes_listed |= "pid" in names
        elif header and len(fitted := _fit(cells, header)) == len(header):
            _add(seen, dict(zip(header, fitted, strict=True)), order)
        elif _LOST.search(line):
            seen.problems.append(f"nvidia-smi lost a GPU: {show(line)}")
        elif re.match(r"^\s*No running (?:compute )?processes found", line):
            seen.processes_listed = True
        else:
            why = "not as many values as the header has" if header else "no header line before it: columns unknown"
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], why))
    seen.problems = list(dict.fromkeys(seen.problems))
    return seen


def _asked_for(command: str) -> list[str]:
    """The fields that a command line asks nvidia-smi for."""
    found = _ASKED.search(command[:4000])
    return [name.lower() for name in found[1].split(",") if name] if found else []


def _is_row(names: list[str]) -> bool:
    """Lower-case values only (a process called "python") look like a header: one known field must be among a header's."""
    known = {*_TEXTS, *_MEASURES, *_REASONS, *_OTHER}
    return not known & set(names)


def _fit(cells: list[str], header: list[str]) -> list[str]:
    """A process name may hold commas: what is too many belongs to it."""
    extra = len(cells) - len(header)
    if extra > 0 and "process_name" in header:
        at = header.index("process_name")
        return [*cells[:at], ", ".join(cells[at : at + extra + 1]), *cells[at + extra + 1 :]]
    return cells


def _add(seen: Seen, cells: dict[str, str], order: dict[str, int]) -> None:
    if "pid" in cells:
        uuid = cells.get("gpu_uuid", cells.get("uuid"))
        memory = cells.get("used_gpu_memory", cells.get("used_memory", ""))
        found = process_row(None, cells["pid"], cells.get("process_name", cells.get("name", "")), memory, gpu_uuid=uuid)
        seen.processes.extend([found] if found else [])
        return
    identity = cells.get("uuid", cells.get("gpu_uuid", cells.get("pci.bus_id", "")))
    gpu = whole(cells["index"]) if "index" in cells else None
    if "index" not in cells and identity:
        gpu = order.setdefault(identity, len(order))
    row = Row(gpu, printed_time(cells.get("timestamp", "")))
    for name, printed in cells.items():
        if name in _TEXTS:
            row.text(_TEXTS[name], printed)
        elif name in _REASONS:
            row.clock_reasons(printed)
        elif name not in _MEASURES and name not in _OTHER and not _REASON_FLAG.match(name) and not no_value(printed):
            seen.fields.append({"gpu": gpu, "field": name, "value": printed[:200]})
    _flags(row, cells)
    health = health_row(gpu, row.values.get("bus_id"), cells.items())
    seen.health.extend([health] if health else [])
    for name, column in _MEASURES.items():  # in this order: the first known of several fields for one column
        if name in cells:
            row.measure(column, cells[name])
    driver = cells.get("driver_version", "")
    if driver and not no_value(driver):
        seen.driver = driver[:40]
    seen.gpus.append(row.done())


def _flags(row: Row, cells: dict[str, str]) -> None:
    """Reasons asked for one by one ("Active", "Not Active"); the mask, where it was asked for too, says the same."""
    told = {match[1]: yes_or_no(cells[name]) for name in cells if (match := _REASON_FLAG.match(name))}
    told = {name: value for name, value in told.items() if name not in ("active", "supported") and value is not None}
    if told and row.values.get("reasons") is None:
        row.values["reasons"] = join_reasons([_FLAG_WORDS.get(name, name) for name, value in told.items() if value])
