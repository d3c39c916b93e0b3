"""What NCCL prints with NCCL_DEBUG=INFO (or WARN): version, ranks, networks, how each pair of ranks is joined, warnings. Pure.

Forms are those of NCCL's own print statements from 2.4 to 2.27 (https://github.com/NVIDIA/nccl: ``debug.cc``, ``init.cc``,
``transport/*.cc``; older logs in issues 85, 340, 398 there). RCCL prints the same. Any launcher's prefix may stand before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import whole
from diag_kit.records import NotUnderstood

RANK_COLUMNS = {
    "line": "Int64",
    "host": "str",
    "pid": "Int64",
    "device": "Int64",
    "comm": "str",
    "rank": "Int64",
    "nranks": "Int64",
    "nnodes": "Int64",
    "bus_id": "str",
    "state": "str",
}
CHANNEL_COLUMNS = {
    "line": "Int64",
    "host": "str",
    "channel": "Int64",
    "rank_a": "Int64",
    "rank_b": "Int64",
    "direction": "str",
    "transport": "str",
    "path": "str",
}
WARNING_COLUMNS = {"line": "Int64", "host": "str", "pid": "Int64", "device": "Int64", "place": "str", "text": "str"}
SETTING_COLUMNS = {"line": "Int64", "host": "str", "name": "str", "value": "str"}
MAX_LINE = 4000
MAX_NOT_UNDERSTOOD = 200

_HEAD = re.compile(
    r"(?P<host>[^\s:\[\]<>|]{1,255}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[(?P<device>-?\d{1,4})\] "
    r"(?:\[[^\]]{8,40}\] )?(?P<place>[\w./-]{1,120}:\d{1,6} )?NCCL (?P<level>INFO|WARN|TRACE|ABORT) ?(?P<said>.*)$"
)
_VERSION = re.compile(r"\b(?:NCCL|RCCL) version:? ?(\d[\w.]{0,20}(?:\+\w{1,10}[\d.]{0,10})?)")
_INIT = re.compile(r"\bcomm (?P<comm>0x[0-9a-fA-F]{1,16}|0x) ?.{0,20}?\brank (?P<rank>\d{1,7}) n[rR]anks (?P<nranks>\d{1,7})\b")
_FIELD = re.compile(r"\b(nNodes|busId) (\S{1,20})")
_CHANNEL = re.compile(
    r"^(?:Channel|Ring) (?P<channel>\d{1,4})(?:/\d{1,4})? : (?P<a>\d{1,7})(?:\[\w{1,12}\])? -> (?P<b>\d{1,7})(?:\[\w{1,12}\])?"
    r"(?: \[(?P<direction>send|receive)\])? via (?P<path>\S{1,80}(?: (?:pointer|memory))?)"
)
_ORDER = re.compile(r"^(?:Channel|Ring) (\d{1,4})/(\d{1,4}) :\s+[\d\s]{1,2000}$")
_COLL_CHANNELS = re.compile(r"^(\d{1,4}) coll channels")
_NETWORK = re.compile(r"\bUsing network (\S.{0,40}?)\s*$|\b(?:Initialized NET plugin|Assigned NET plugin) (\S{1,40})")
_INTERFACES = re.compile(r"^NET/(?P<net>\w{1,20}) ?: ?Using (?P<list>.{1,2000})$")
_INTERFACE = re.compile(r"\[\d{1,3}\]([\w.-]{1,32})(?=[:/])")
_BOOTSTRAP = re.compile(r"^Bootstrap ?: ?Using (?:\[\d+\])?([\w.-]{1,32})[:<]")
_SETTING = re.compile(r"^(?P<name>NCCL_\w{1,60}) set (?:by environment )?to (?P<value>.{0,200}?)\.?$")
_NO_IB = re.compile(r"^NET/IB ?: ?No device found")
_PLUGIN = re.compile(r"^NET/(?:Plugin|OFI)\b|^(?:Loaded|Successfully loaded).{0,40}net plugin", re.I)
_DIRECT = re.compile(
    r"GPU Direct RDMA (Enabled|Disabled)|P2P is disabled between connected GPUs|^Connected all|^Trees|threadThresholds", re.I
)


@dataclass(slots=True)
class Nccl:
    ranks: list[dict[str, Any]] = field(default_factory=list)
    channels: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    settings: list[dict[str, Any]] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    with_devices: list[str] = field(default_factory=list)
    """Networks that listed devices of theirs."""
    processes: set[tuple[str, str]] = field(default_factory=set)
    interfaces: list[str] = field(default_factory=list)
    bootstrap: list[str] = field(default_factory=list)
    plugin: list[str] = field(default_factory=list)
    coll_channels: int | None = None
    no_ib: bool = False
    p2p_disabled: int = 0
    lines: int = 0
    other: int = 0
    not_understood: list[NotUnderstood] = field(default_factory=list)


def read_nccl(text: str, where: str = "nccl", *, only_nccl: bool = True) -> Nccl:
    """Every line that NCCL wrote; in a training log (``only_nccl`` False) the other lines are none of this parser's business."""
    seen = Nccl()
    for count, line in enumerate(text.splitlines(), start=1):
        from_nccl = ("NCCL" in line or "RCCL" in line) and _line(seen, line[:MAX_LINE].rstrip(), count)
        known = from_nccl or not line.strip()
        seen.lines += known and bool(line.strip())
        if not known and only_nccl and len(seen.not_understood) < MAX_NOT_UNDERSTOOD:
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a line of NCCL"))
    return seen


def _line(seen: Nccl, line: str, count: int) -> bool:
    version = _VERSION.search(line)
    if version:
        _once(seen.versions, version[1])
    head = _HEAD.search(line)
    if head is None:
        return version is not None
    told = {"line": count, "host": head["host"], "pid": whole(head["pid"] or ""), "device": whole(head["device"] or "")}
    said = head["said"].strip()
    if len(seen.processes) < 100_000:
        seen.processes.add((head["host"], head["pid"]))
    if head["level"] == "WARN":
        place = (head["place"] or "").strip() or None
        seen.warnings.append({**told, "place": place, "text": said[:500]})
    elif not _info(seen, told, said) and version is None:
        seen.other += 1
    return True


def _info(seen: Nccl, told: dict[str, Any], said: str) -> bool:
    if channel := _CHANNEL.match(said):
        channels = {"channel": int(channel["channel"]), "rank_a": int(channel["a"]), "rank_b": int(channel["b"])}
        path = channel["path"]
        transport = "/".join(path.split("/")[:2]) if path.startswith("NET/") else path.split("/")[0]
        row = {"line": told["line"], "host": told["host"], "direction": channel["direction"], "transport": transport}
        seen.channels.append({**row, **channels, "path": path})
    elif init := _INIT.search(said):
        more = dict(_FIELD.findall(said))
        state = next((word for word in ("COMPLETE", "START", "Abort", "Destroy") if word.lower() in said.lower()), None)
        numbers: dict[str, Any] = {
            "rank": int(init["rank"]),
            "nranks": int(init["nranks"]),
            "nnodes": whole(more.get("nNodes", "")),
        }
        seen.ranks.append({**told, "comm": init["comm"], **numbers, "bus_id": more.get("busId"), "state": state})
    elif setting := _SETTING.match(said):
        seen.settings.append({"line": told["line"], "host": told["host"], "name": setting["name"], "value": setting["value"]})
    else:
        return _network(seen, said)
    return True


def _network(seen: Nccl, said: str) -> bool:
    if bootstrap := _BOOTSTRAP.match(said):
        _once(seen.bootstrap, bootstrap[1])
    elif using := _INTERFACES.match(said):
        _once(seen.with_devices, using["net"])
        for name in _INTERFACE.findall(using["list"]):
            _once(seen.interfaces, name)
    elif network := _NETWORK.search(said):
        _once(seen.networks, (network[1] or network[2]).strip())
    elif coll := _COLL_CHANNELS.match(said):
        seen.coll_channels = int(coll[1])
    elif _NO_IB.match(said):
        seen.no_ib = True
    elif _PLUGIN.match(said):
        _once(seen.plugin, said[:160])
    elif "P2P is disabled between connected GPUs" in said:
        seen.p2p_disabled += 1
    else:
        return bool(_ORDER.match(said) or _DIRECT.search(said))
    return True


def _once(names: list[str], name: str) -> None:
    if name not in names and len(names) < 200:
        names.append(name)
