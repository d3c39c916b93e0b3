"""``nvidia-smi -q`` as indented text and as XML (``-q -x``): one row per GPU, its processes. Pure.

Both are flattened to (path, value) pairs with the same spelling, so that one list of names serves both and all drivers.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree

from diag_kit.observe.gpu_values import Row, Seen, join_reasons, process_row
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
_PROCESS_ID = ("processes/process_id", "process_info/pid")
_OTHER_POWER = re.compile(r"(memory|module)_power_readings/")


def read_details(text: str, where: str = "nvidia-smi -q") -> Seen:
    """The GPUs in order: the text gives no index, and the order is that of the index (PCI bus order)."""
    seen = Seen()
    head, gpus = _from_xml(text, seen, where) if "<nvidia_smi_log" in text else _from_text(text)
    facts = dict(reversed(head))
    seen.driver = facts.get("driver_version")
    seen.cuda = facts.get("cuda_version") or facts.get("cuda_umd_version")
    t = printed_time(facts.get("timestamp", ""))
    for index, (bus, pairs) in enumerate(gpus):
        row = Row(index, t)
        row.text("bus_id", bus)
        _fill(row, pairs)
        seen.gpus.append(row.done())
        seen.processes.extend(_processes(index, pairs))
    if not gpus and not seen.not_understood:
        seen.not_understood.append(NotUnderstood(where, text.strip()[:200], "no section of a GPU"))
    return seen


def _name(printed: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", printed.strip().lower()).strip("_")


def _from_text(text: str) -> tuple[Pairs, list[tuple[str, Pairs]]]:
    head: Pairs = []
    gpus: list[tuple[str, Pairs]] = []
    above: list[tuple[int, str]] = []
    for line in text.expandtabs(4).splitlines():
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
            elif element.tag in ("timestamp", "driver_version", "cuda_version") and element.text:
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


def _processes(gpu: int, pairs: Pairs) -> Iterator[dict[str, object]]:
    """A process begins at its id; what follows until the next one is its own."""
    starts = [at for at, (path, _) in enumerate(pairs) if path.endswith(_PROCESS_ID)]
    for start, end in itertools.pairwise([*starts, len(pairs)]):
        own = {path.rpartition("/")[2]: value for path, value in pairs[start:end]}
        name = own.get("process_name", own.get("name", ""))
        memory = own.get("used_memory", own.get("used_gpu_memory", ""))
        found = process_row(gpu, pairs[start][1], name, memory, type=own.get("type"), gi=whole(own.get("gpu_instance_id", "")))
        if found:
            yield found
