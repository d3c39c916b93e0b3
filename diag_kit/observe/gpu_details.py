"""``nvidia-smi -q`` as indented text and as XML (``-q -x``): one row per GPU, its processes. Pure.

Both are flattened to (path, value) pairs with the same spelling, so that one list of names serves both and all drivers.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from diag_kit.observe.gpu_health import health_row
from diag_kit.observe.gpu_values import Row, Seen, join_reasons, number_of, process_row
from diag_kit.observe.raw import printed_time, whole
from diag_kit.records import NotUnderstood

Pairs = list[tuple[str, str]]

_TEXTS = (
    ("product_name", "name"),
    ("gpu_uuid", "uuid"),
    ("uuid", "uuid"),
    ("performance_state", "pstate"),
    ("mig_mode/current", "mig"),
    ("mig_mode/current_mig", "mig"),
)
_MEASURES = (
    ("utilization/gpu", "util_pct"),
    ("utilization/gpu_util", "util_pct"),
    ("utilization/memory", "memory_util_pct"),
    ("utilization/memory_util", "memory_util_pct"),
    ("fb_memory_usage/used", "memory_used_mib"),
    ("fb_memory_usage/total", "memory_total_mib"),
    ("memory_usage/used", "memory_used_mib"),
    ("memory_usage/total", "memory_total_mib"),
    ("power_readings/power_draw", "power_w"),
    ("power_readings/average_power_draw", "power_w"),
    ("power_readings/instantaneous_power_draw", "power_w"),
    ("power_readings/instant_power_draw", "power_w"),
    ("power_readings/enforced_power_limit", "power_limit_w"),
    ("power_readings/current_power_limit", "power_limit_w"),
    ("power_readings/power_limit", "power_limit_w"),
    ("temperature/gpu_current_temp", "temperature_c"),
    ("temperature/gpu_temp", "temperature_c"),
    ("temperature/gpu", "temperature_c"),
    ("temperature/memory_current_temp", "memory_temperature_c"),
    ("temperature/memory_temp", "memory_temperature_c"),
    ("clocks/sm", "sm_clock_mhz"),
    ("clocks/sm_clock", "sm_clock_mhz"),
    ("clocks/memory", "memory_clock_mhz"),
    ("clocks/mem_clock", "memory_clock_mhz"),
    ("fb_memory_usage/reserved", "memory_reserved_mib"),
    ("max_clocks/sm", "sm_clock_max_mhz"),
    ("max_clocks/sm_clock", "sm_clock_max_mhz"),
    ("pcie_generation/current", "pcie_gen"),
    ("pcie_gen/current_link_gen", "pcie_gen"),
    ("pcie_generation/max", "pcie_gen_max"),
    ("pcie_gen/max_link_gen", "pcie_gen_max"),
    ("link_width/current", "pcie_width"),
    ("link_widths/current_link_width", "pcie_width"),
    ("link_width/max", "pcie_width_max"),
    ("link_widths/max_link_width", "pcie_width_max"),
    ("reasons_counters/sw_power_capping", "power_cap_us"),
    ("reasons_counters/clocks_event_reasons_counters_sw_power_cap", "power_cap_us"),
    ("reasons_counters/sw_thermal_slowdown", "sw_thermal_us"),
    ("reasons_counters/clocks_event_reasons_counters_sw_therm_slowdown", "sw_thermal_us"),
    ("reasons_counters/hw_thermal_slowdown", "hw_thermal_us"),
    ("reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown", "hw_thermal_us"),
    ("reasons_counters/hw_power_braking", "power_brake_us"),
    ("reasons_counters/clocks_event_reasons_counters_hw_power_brake", "power_brake_us"),
)
_REASONS = {
    "idle": "idle",
    "gpu_idle": "idle",
    "applications_clocks_setting": "applications_clocks",
    "sw_power_cap": "sw_power_cap",
    "hw_slowdown": "hw_slowdown",
    "sync_boost": "sync_boost",
    "sw_thermal_slowdown": "sw_thermal_slowdown",
    "hw_thermal_slowdown": "hw_thermal_slowdown",
    "hw_power_brake_slowdown": "hw_power_brake",
    "display_clock_setting": "display_clocks",
    "display_clocks_setting": "display_clocks",
}
_LOG_BEGINS = re.compile(r"^=+[ \t]*NVSMI LOG[ \t]*=+|<nvidia_smi_log", re.M)
_HEADING = re.compile(r"^\s*[A-Za-z][\w /().,'-]{0,80}:?\s*$")
_OF_MIG = re.compile(r"^mig_devices?/")
_INSTANCE_OF_PROCESS = re.compile(r"^process(?:es|es/process_info)/(?:gpu|compute)_instance_id$")
_PER_MB = {"KB/s": 1e-3, "MB/s": 1.0, "GB/s": 1e3}  # NVML tells KB/s of 1000 (nvmlDeviceGetPcieThroughput)
_PROCESS_ID = ("processes/process_id", "process_info/pid")
_OTHER_POWER = re.compile(r"(memory|module)_power_readings/")


def read_details(text: str, where: str = "nvidia-smi -q") -> Seen:
    """Every log in the text. Within one the GPUs come in the order of their index (PCI bus order), which is not printed.

    Of ``nvidia-smi -q -i N`` there is one section and "Attached GPUs" says more: its index is not known.
    """
    seen = Seen()
    for log, first in _logs(text):
        seen.processes, seen.instances, seen.health = [], [], []
        head, gpus = _from_xml(log, seen, where) if "<nvidia_smi_log" in log else _from_text(log, seen, where, first)
        _add_log(seen, dict(reversed(head)), gpus)
    if not seen.gpus and not seen.not_understood:
        seen.not_understood.append(NotUnderstood(where, text.strip()[:200], "no section of a GPU"))
    return seen


def _logs(text: str) -> Iterator[tuple[str, int]]:
    """The logs of ``nvidia-smi -q -l`` one by one, each with the number of its first line."""
    starts = [match.start() for match in _LOG_BEGINS.finditer(text)]
    cuts = [0, *starts[1:], len(text)]
    line = 1
    for start, end in itertools.pairwise(cuts):
        yield text[start:end], line
        line += text.count("\n", start, end)


def _add_log(seen: Seen, facts: dict[str, str], gpus: list[tuple[str, Pairs]]) -> None:
    seen.driver = facts.get("driver_version") or seen.driver
    seen.cuda = facts.get("cuda_version") or facts.get("cuda_umd_version") or seen.cuda
    t = printed_time(facts.get("timestamp", ""))
    attached = whole(facts.get("attached_gpus", ""))
    one_of_more = len(gpus) == 1 and attached is not None and attached > 1
    for place, (bus, pairs) in enumerate(gpus):
        index = None if one_of_more else place
        row = Row(index, t)
        row.text("bus_id", bus)
        own = [(path, value) for path, value in pairs if not _OF_MIG.match(path)]
        _fill(row, own)
        seen.gpus.append(row.done())
        health = health_row(index, bus, own)
        seen.health.extend([health] if health else [])
        seen.instances.extend(_instances(index, pairs))
        found = list(_processes(index, own))
        seen.processes.extend(found)
        seen.processes_listed |= bool(found) or any(path == "processes" for path, _ in own)


def _name(printed: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", printed.strip().lower()).strip("_")


def _from_text(text: str, seen: Seen, where: str, first: int) -> tuple[Pairs, list[tuple[str, Pairs]]]:
    head: Pairs = []
    gpus: list[tuple[str, Pairs]] = []
    above: list[tuple[int, str]] = []
    for count, line in enumerate(text.expandtabs(4).splitlines(), start=first):
        section = re.match(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:\S{1,6})\s*$", line)
        if section:
            gpus.append((section.group(1), []))
            above = []
        elif line.strip() and not line.lstrip().startswith("="):
            indent = len(line) - len(line.lstrip())
            key, colon, value = line.partition(" : ")
            above = [entry for entry in above if entry[0] < indent]
            path = "/".join([*(name for _, name in above), _name(key)])
            above.append((indent, _name(key)))
            if not colon and not _HEADING.match(line):
                seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "neither a field nor a heading"))
            if colon:
                (gpus[-1][1] if gpus else head).append((path, value.strip()))
    return head, gpus


def _from_xml(text: str, seen: Seen, where: str) -> tuple[Pairs, list[tuple[str, Pairs]]]:
    """Read element by element, so that a file cut short still gives the GPUs before the cut. Entities are refused."""
    head: Pairs = []
    gpus: list[tuple[str, Pairs]] = []
    if "<!ENTITY" in text:
        seen.not_understood.append(NotUnderstood(where, text.strip()[:200], "XML with entities is refused"))
        return head, gpus
    source = io.BytesIO(text[text.index("<nvidia_smi_log") :].encode("utf-8", "replace"))
    try:
        for _, element in ElementTree.iterparse(source, ["end"]):
            if element.tag == "gpu" and element.get("id"):
                gpus.append((str(element.get("id")), list(_flatten(element, ""))))
            elif (
                element.tag in ("timestamp", "driver_version", "cuda_version", "cuda_umd_version", "attached_gpus")
                and element.text
            ):
                head.append((element.tag, element.text))
    except (ElementTree.ParseError, ValueError) as error:
        seen.not_understood.append(NotUnderstood(where, text.strip()[-200:], f"broken XML: {error}"))
    return head, gpus


def _flatten(element: ElementTree.Element, above: str) -> Iterator[tuple[str, str]]:
    for child in element:
        path = f"{above}/{_name(str(child.tag))}".lstrip("/")
        yield path, (child.text or "").strip()
        yield from _flatten(child, path)


def _fill(row: Row, pairs: Pairs) -> None:
    usable = [(path, value) for path, value in pairs if not _OTHER_POWER.search(path)]
    for name, column in _TEXTS:
        for value in _values(usable, name):
            row.text(column, value)
    for name, column in _MEASURES:  # in this order: the first known of several names for one column
        for value in _values(usable, name):
            row.measure(column, value)
    for way in ("rx", "tx"):
        for path, value in usable:
            amount, _, unit = value.rpartition(" ")
            if re.fullmatch(rf"pci/{way}_(?:throughput|util)", path) and unit in _PER_MB and number_of(amount) is not None:
                row.measure(f"pcie_{way}_mb_per_s", str(round((number_of(amount) or 0.0) * _PER_MB[unit], 6)))
    states = [(path.rpartition("/")[2], value) for path, value in usable if re.search(r"_reasons/", path)]
    if states:
        words = [_REASONS.get(_reason(name), _reason(name)) for name, value in states if value == "Active"]
        row.values["reasons"] = join_reasons(words)


def _reason(name: str) -> str:
    return re.sub(r"^clocks_(event|throttle)_reason_", "", name)


def _values(pairs: Pairs, name: str) -> Iterable[str]:
    """The values at this path; a deeper path counts when its end is the name ("gpu_power_readings/..." too)."""
    first = name.split("/")[0]
    if "/" not in name:
        return [value for path, value in pairs if path == name]
    return [
        value
        for path, value in pairs
        if path.endswith(name)
        and (path == name or path[: -len(name)].endswith(("/", "gpu_", "fb_")) or first in path)
        and not path.startswith(("bar1", "conf_compute", "cc_protected", "default_applications", "applications", "max_customer"))
        and not (name.startswith("clocks/") and path != name)
        and not (name.startswith("memory_usage/") and path != name)
    ]


def _processes(gpu: int | None, pairs: Pairs) -> Iterator[dict[str, object]]:
    """A process begins at its id, or at the MIG instance that some drivers print before it; what follows is its own."""
    starts: list[int] = []
    for at, (path, _) in enumerate(pairs):
        if path.endswith(_PROCESS_ID):
            before = at
            while before > 0 and _INSTANCE_OF_PROCESS.match(pairs[before - 1][0]):
                before -= 1
            starts.append(before)
    for start, end in itertools.pairwise([*starts, len(pairs)]):
        own = {path.rpartition("/")[2]: value for path, value in reversed(pairs[start:end])}
        name = own.get("process_name", own.get("name", ""))
        memory = own.get("used_memory", own.get("used_gpu_memory", ""))
        gi, ci = (whole(own.get(f"{kind}_instance_id", "")) for kind in ("gpu", "compute"))
        found = process_row(gpu, own.get("process_id", own.get("pid", "")), name, memory, type=own.get("type"), gi=gi, ci=ci)
        if found:
            yield found


def _instances(gpu: int | None, pairs: Pairs) -> Iterator[dict[str, object]]:
    """MIG devices: each begins at its index."""
    mine = [(_OF_MIG.sub("", path).removeprefix("mig_device/"), value) for path, value in pairs if _OF_MIG.match(path)]
    starts = [at for at, (path, _) in enumerate(mine) if path == "index"]
    for start, end in itertools.pairwise([*starts, len(mine)]):
        own = dict(reversed(mine[start:end]))
        memory = {f"memory_{what}_mib": number_of(own.get(f"fb_memory_usage/{what}", "")) for what in ("used", "total")}
        processors = "device_attributes/shared/multiprocessor_count"
        yield {
            "gpu": gpu,
            "dev": whole(own["index"]),
            "gi": whole(own.get("gpu_instance_id", "")),
            "ci": whole(own.get("compute_instance_id", "")),
            "sm": whole(own.get(processors, "")),
            **memory,
        }
