"""``lspci -vv`` and /sys/bus/pci: link speed and width of each device against its most, NUMA node, ACS, error counts. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

DEVICE_COLUMNS = {
    "address": "str",
    "class": "str",
    "name": "str",
    "is_gpu": "boolean",
    "is_network": "boolean",
    "numa_node": "Int64",
    "driver": "str",
    "speed_gt_per_s": "float64",
    "speed_max_gt_per_s": "float64",
    "width": "Int64",
    "width_max": "Int64",
    "acs_redirect": "boolean",
    "acs_control": "str",
    "aer_corrected": "Int64",
    "aer_uncorrected": "Int64",
    "parent": "str",
    "says": "str",
}
_HEAD = re.compile(
    r"^(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?P<class>[^:\[]{2,80}?)(?: \[(?P<code>[0-9a-f]{4})\])?: "
    r"(?P<name>.{0,300})$"
)
_SPEED = re.compile(r"\bSpeed (\d{1,3}(?:\.\d)?)GT/s")
_WIDTH = re.compile(r"\bWidth x(\d{1,3})\b")
_GPU_WORDS = ("3D controller", "VGA compatible controller", "Display controller", "Processing accelerators")
_NETWORK_WORDS = ("Ethernet controller", "Infiniband controller", "InfiniBand controller", "Network controller")
_KNOWN_PREFIX = re.compile(r"^\s")


@dataclass(slots=True)
class PciDevices:
    rows: list[dict[str, Any]] = field(default_factory=list)
    denied: int = 0
    not_understood: list[NotUnderstood] = field(default_factory=list)


def read_lspci(text: str, where: str = "lspci -vv") -> PciDevices:
    """Devices and, indented below each, its link and its ACS control. ``<access denied>``: run by a user who is not root.

    "(downgraded)" and "(ok)" are lspci's own words from 3.6.3 on (pciutils ``ls-caps.c``): speed or width below LnkCap.
    """
    seen = PciDevices()
    row: dict[str, Any] | None = None
    for count, line in enumerate(text.splitlines(), start=1):
        line = line[:2000].rstrip()
        head = _HEAD.match(line)
        if head:
            row = {"address": head["address"], "class": head["class"], "name": head["name"] or None}
            row["is_gpu"] = _is(head["class"], head["code"], _GPU_WORDS, ("03", "12"))
            row["is_network"] = _is(head["class"], head["code"], _NETWORK_WORDS, ("02",))
            seen.rows.append(row)
        elif row is not None and _KNOWN_PREFIX.match(line):
            seen.denied += "<access denied>" in line
            _detail(row, line.strip())
        elif line.strip():
            why = "not a device of lspci" if row is not None else "no device above it"
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], why))
    for row in seen.rows:
        row["says"] = link_says(row)
    return seen


def _is(printed: str, code: str | None, words: tuple[str, ...], codes: tuple[str, ...]) -> bool:
    return code[:2] in codes if code else printed.strip() in words


def _detail(row: dict[str, Any], line: str) -> None:
    name, _, value = line.partition(":")
    if name in ("LnkCap", "LnkSta"):
        speed, width = _SPEED.search(value), _WIDTH.search(value)
        ending = "_max" if name == "LnkCap" else ""
        row[f"speed{ending}_gt_per_s"] = number(speed[1]) if speed else None
        row[f"width{ending}"] = (whole(width[1]) or None) if width else None
    elif name == "ACSCtl":
        row["acs_control"] = value.strip()[:200]
        row["acs_redirect"] = bool(re.search(r"\b(?:ReqRedir|CmpltRedir)\+", value))
    elif name == "NUMA node":
        row["numa_node"] = whole(value)
    elif name == "Kernel driver in use":
        row["driver"] = value.strip()[:40]


def read_sysfs(text: str, where: str = "/sys/bus/pci/devices") -> PciDevices:
    """What the probe's script prints, one device a line: fields ``name=value`` parted by ``|``."""
    seen = PciDevices()
    for count, line in enumerate(text.splitlines(), start=1):
        told = dict(part.partition("=")[::2] for part in line[:2000].split("|"))
        address, code = told.get("address", ""), told.get("class", "")
        if not re.fullmatch(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", address):
            if line.strip():
                seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a device"))
            continue
        row: dict[str, Any] = {
            "address": address,
            "class": code,
            "name": " ".join(filter(None, (told.get("vendor"), told.get("device")))) or None,
            "is_gpu": code.startswith(("0x03", "0x12")),
            "is_network": code.startswith("0x02"),
            "numa_node": _at_least_0(told.get("numa", "")),
            "driver": told.get("driver") or None,
            "speed_gt_per_s": _speed(told.get("speed", "")),
            "speed_max_gt_per_s": _speed(told.get("speed_max", "")),
            "width": _width(told.get("width", "")),
            "width_max": _width(told.get("width_max", "")),
            "aer_corrected": _at_least_0(told.get("aer_corrected", "")),
            "aer_uncorrected": _sum(told.get("aer_fatal", ""), told.get("aer_nonfatal", "")),
            "parent": told.get("parent") or None,
        }
        row["says"] = link_says(row)
        seen.rows.append(row)
    return seen


def _at_least_0(printed: str) -> int | None:
    value = whole(printed)
    return value if value is not None and value >= 0 else None


def _sum(*printed: str) -> int | None:
    known = [value for text in printed if (value := _at_least_0(text)) is not None]
    return sum(known) if known else None


def _speed(printed: str) -> float | None:
    """ "16.0 GT/s PCIe" -> 16.0; "Unknown" is missing."""
    return number(printed.partition(" GT/s")[0]) if " GT/s" in printed else None


def _width(printed: str) -> int | None:
    """0 and 255 are what a device without a PCIe link (a virtual one) shows."""
    value = whole(printed)
    return value if value not in (None, 0, 255) else None


def link_says(row: dict[str, Any]) -> str | None:
    """The link against its most, with the trap named: an idle device lowers its speed to save power. None where not told."""
    pairs = (
        ("speed", row.get("speed_gt_per_s"), row.get("speed_max_gt_per_s")),
        ("width", row.get("width"), row.get("width_max")),
    )
    told = [(name, now, most) for name, now, most in pairs if now is not None and most is not None]
    if not told:
        return None
    low = [name for name, now, most in told if now < most]
    if not low:
        return "at its maximum"
    said = " and ".join(f"{name} {now:g} of {most:g}" for name, now, most in told if now < most)
    if "width" in low:
        return f"{said}: fewer lanes than the device has (its slot, a bad contact, or an idle GPU)"
    return f"{said}: normal while idle, to be judged under load"
