"""Network ports as ibstat, ibv_devinfo, ethtool and /sys/class tell them: state, rate, error counters. Pure.

ethtool is read here and not by a library: jc's parser does not read ``-S``, and drops what it does not know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

PORT_COLUMNS = {
    "device": "str",
    "port": "Int64",
    "kind": "str",
    "state": "str",
    "physical_state": "str",
    "rate_gbit_per_s": "float64",
    "link_layer": "str",
    "duplex": "str",
    "mtu": "Int64",
    "firmware": "str",
}
COUNTER_COLUMNS = {"device": "str", "port": "Int64", "counter": "str", "value": "Int64"}
_CA = re.compile(r"^CA '([^']{1,64})'\s*$|^hca_id:\s+(\S{1,64})\s*$|^Infiniband device '([^']{1,64})'.{0,40}$")
_PORT = re.compile(r"^\s*[Pp]ort:?\s+(\d{1,3}):?\s*$")
_SETTINGS = re.compile(r"^Settings for (\S{1,64}):\s*$")
_LINE = re.compile(r"^\s+([^:]{1,80}):\s*(.{0,400})$|^([A-Za-z][\w .-]{1,60}):\s*(.{0,400})$")
_RATE = re.compile(r"^(\d{1,6}(?:\.\d+)?)\s*(?:Gb/sec|Gbps|Mb/s)?\b")
_WIDTH_SPEED = re.compile(r"\((\d+)\)")
_FAULTS = re.compile(
    r"err|drop|discard|miss|timeout|crc|fail|fault|fifo|collision|out_of_(?:sequence|buffer)|retrans|retry|nak|pause|link_down",
    re.I,
)


@dataclass(slots=True)
class Ports:
    ports: list[dict[str, Any]] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)


def is_fault_counter(name: str) -> bool:
    """Whether a counter's name says that something went wrong or was held up; bytes and packets are none."""
    return bool(_FAULTS.search(name))


def read_ports(text: str, where: str = "ibstat") -> Ports:
    """ibstat, ibstatus, ibv_devinfo: a device, its ports, their fields; ethtool and ethtool -S: one device a block."""
    reader = _Reader(where)
    for count, line in enumerate(text.splitlines(), start=1):
        reader.line(line[:1000].rstrip(), count)
    return reader.seen


class _Reader:
    def __init__(self, where: str) -> None:
        self.seen = Ports()
        self.where = where
        self.device: str | None = None
        self.firmware: str | None = None
        self.row: dict[str, Any] = {}
        self.statistics = False

    def line(self, line: str, count: int) -> None:
        if not line:
            return
        device, settings, port = _CA.match(line), _SETTINGS.match(line), _PORT.match(line)
        if device:
            self.device, self.firmware, self.statistics = device[1] or device[2] or device[3], None, False
            self.row = {"device": self.device, "kind": "infiniband"}
            in_head = re.search(r"port (\d+) status", line)
            if in_head:
                self._begin({"port": int(in_head[1])})
        elif settings:
            self.device, self.statistics = settings[1], False
            self._begin({"device": self.device, "kind": "ethernet"})
        elif line.startswith("NIC statistics"):
            self.statistics = True
        elif port and self.device:
            self._begin({"device": self.device, "kind": "infiniband", "port": int(port[1]), "firmware": self.firmware})
        elif self.statistics and (counter := re.match(r"^\s+(\S.{0,120}?):\s+(\d{1,19})$", line)):
            name = {"device": self.device, "counter": counter[1].strip(), "value": whole(counter[2])}
            self.seen.counters.append(name)
        elif not self._field(line):
            self.seen.not_understood.append(NotUnderstood(f"{self.where} line {count}", line[:200], "not under a device"))

    def _begin(self, told: dict[str, Any]) -> None:
        self.row = {**self.row, **told} if "port" in told and len(told) == 1 else told
        self.seen.ports.append(self.row)

    def _field(self, line: str) -> bool:
        """A field of the device or port above; what has no column is understood and not kept apart (the raw text is)."""
        found = _LINE.match(line)
        if self.device is None:
            return False
        if not found:
            return line.startswith((" ", "\t"))  # a list that goes on (link modes)
        name, value = ((found[1] or found[3] or "").strip().lower(), (found[2] or found[4] or "").strip())
        if name in ("state", "link detected"):
            self.row["state"] = _state(value)
        elif name in ("physical state", "phys state", "phys_state"):
            self.row["physical_state"] = value.split(":")[-1].strip().split(" (")[0]
        elif name in ("rate", "speed"):
            self.row["rate_gbit_per_s"] = _rate(name, value)
        elif name in ("active_speed", "active_width"):
            self._lanes(name, value)
        elif name in ("link layer", "link_layer"):
            self.row["link_layer"] = value or None
        elif name == "duplex":
            self.row["duplex"] = None if value.startswith("Unknown") else value
        elif name == "active_mtu":
            self.row["mtu"] = whole(value.split(" ")[0])
        elif name in ("firmware version", "fw_ver"):
            self.firmware = value
        return True

    def _lanes(self, name: str, value: str) -> None:
        """ibv_devinfo -v: "4X (2)" lanes times "25.0 Gbps (32)" a lane."""
        amount = number(re.sub(r"\s*(?:X|Gbps)?\s*\(.*$", "", value).strip())
        self.row[f"_{name}"] = amount
        lanes, speed = self.row.get("_active_width"), self.row.get("_active_speed")
        if lanes and speed:
            self.row["rate_gbit_per_s"] = lanes * speed


def _state(value: str) -> str | None:
    """ibstat: Active; ibstatus: "4: ACTIVE"; ibv_devinfo: "PORT_ACTIVE (4)"; ethtool: yes."""
    word = value.split(":")[-1].strip().split(" (")[0].removeprefix("PORT_").lower()
    return {"yes": "up", "no": "down"}.get(word, word) or None


def _rate(name: str, value: str) -> float | None:
    """ibstat's Rate is in Gb/s; ethtool's Speed in Mb/s; "Unknown!" and -1 are missing."""
    found = _RATE.match(value)
    amount = number(found[1]) if found else None
    if amount is None:
        return None
    return amount / 1000 if "Mb/s" in value else amount


def read_class(text: str, where: str = "/sys/class/net") -> Ports:
    """What the probe's script prints: ``net NAME FIELD VALUE`` and ``ib DEVICE/PORT FIELD VALUE``."""
    seen = Ports()
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for count, line in enumerate(text.splitlines(), start=1):
        words = line[:400].split(None, 3)
        if len(words) != 4 or words[0] not in ("net", "ib"):
            if line.strip() and not (len(words) == 3 and words[0] in ("net", "ib")):  # a file that is there and says nothing
                seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a field of a port"))
            continue
        kind, name, told, value = words
        device, _, port = name.partition("/")
        row = rows.setdefault((kind, name), {"device": device, "port": whole(port), "kind": _KINDS[kind]})
        if told.startswith("counter:"):
            amount = whole(value)
            if amount is not None:
                seen.counters.append({"device": device, "port": row["port"], "counter": told[8:], "value": amount})
        else:
            _class_field(row, told, value)
    seen.ports.extend(rows.values())
    return seen


_KINDS = {"net": "ethernet", "ib": "infiniband"}


def _class_field(row: dict[str, Any], told: str, value: str) -> None:
    if told == "speed":  # Mbit/s; -1 while down
        speed = number(value)
        row["rate_gbit_per_s"] = speed / 1000 if speed is not None and 0 < speed < 4_000_000 else None
    elif told == "rate":
        row["rate_gbit_per_s"] = _rate("rate", value)
    elif told in ("state", "operstate"):
        row["state"] = _state(value)
    elif told == "phys_state":
        row["physical_state"] = value.split(":")[-1].strip()
    elif told == "mtu":
        row["mtu"] = whole(value)
    elif told in ("link_layer", "duplex", "firmware"):
        row[told] = None if value == "unknown" else value[:60]
