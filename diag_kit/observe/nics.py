"""Network and InfiniBand ports: up or down, at which rate, and which error counters have grown."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.network_ports import COUNTER_COLUMNS, PORT_COLUMNS, Ports, is_fault_counter, read_class, read_ports
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, Parsed

SCRIPT = r"""
show() { value=; [ -r "$1" ] && read -r value < "$1" 2>/dev/null && printf '%s %s\n' "$2" "$value"; }
look() {
    echo "==diag_kit:$1=="
    for path in /sys/class/net/*; do
        name=${path##*/}
        [ "$name" = lo ] && continue
        for field in operstate speed duplex mtu; do show "$path/$field" "net $name $field"; done
        for file in "$path"/statistics/*; do show "$file" "net $name counter:${file##*/}"; done
    done
    for path in /sys/class/infiniband/*/ports/*; do
        [ -d "$path" ] || continue
        device=${path%/ports/*}; name=${device##*/}/${path##*/}
        for field in state phys_state rate link_layer; do show "$path/$field" "ib $name $field"; done
        for file in "$path"/counters/* "$path"/hw_counters/*; do show "$file" "ib $name counter:${file##*/}"; done
    done
}
look first
sleep "$1"
look last
exit 0
"""


@probe
@dataclass(frozen=True)
class Nics:
    """Every port twice, some seconds apart, from /sys without root: what it carries and which errors grow now.

    Equivalent: ``grep . /sys/class/net/*/{operstate,speed} /sys/class/net/*/statistics/*``; ``ibstat``; ``ethtool -S IFACE``.

    Tables: ``network_ports`` (device port kind state physical_state rate_gbit_per_s link_layer duplex mtu firmware),
    ``network_counters`` (device port counter value: as printed, since the port came up), ``network_rates`` (device port
    receive_mb_per_s send_mb_per_s faults_grown: of the window). InfiniBand's port_*_data count words of 4 bytes.

    Facts: network_ports_up, network_ports_down, network_rate_gbit_per_s (the fastest port that is up), infiniband_ports_active,
    infiniband_rate_gbit_per_s (the slowest that is active), network_fault_counters (that are not 0, with the largest),
    network_faults_grown (in the window). A counter that does not grow tells of the past.
    """

    seconds: float = 3.0

    name: ClassVar[str] = "nics"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "grep . /sys/class/net/*/{operstate,speed} /sys/class/net/*/statistics/*; ibstat; ethtool -S IFACE"
    )
    reads: ClassVar[tuple[str, ...]] = ("ibstat", "ethtool")

    @property
    def budget_s(self) -> float:
        return self.seconds + 30.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(SCRIPT, str(max(1, round(self.seconds))), timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        seen = Ports()
        rates: list[dict[str, Any]] = []
        problems: list[str] = []
        for result in results:
            pieces = parts(result.text)
            first, last = part(pieces, "first"), part(pieces, "last")
            if first is None:
                _extend(seen, read_ports(result.text, result.command[:80]))
            else:
                before, after = read_class(first), read_class(last or "")
                rates.extend(_rates(before, after, max(1, round(self.seconds))))
                _extend(seen, after if after.ports else before)
            problems.extend(filter(None, [why_cut_short(result)]))
        facts = _facts(seen, rates)
        tables = {
            "network_ports": frame(seen.ports, PORT_COLUMNS),
            "network_counters": frame(seen.counters, COUNTER_COLUMNS),
            "network_rates": frame(rates, RATE_COLUMNS),
        }
        return Parsed(
            summary=", ".join(f"{fact.name.replace('_', ' ')} {fact.value}" for fact in facts) or "no network port was seen",
            facts=facts,
            tables={name: table for name, table in tables.items() if len(table)},
            not_understood=tuple(seen.not_understood[:200]),
            problems=tuple(problems),
        )


RATE_COLUMNS = {
    "device": "str",
    "port": "Int64",
    "receive_mb_per_s": "float64",
    "send_mb_per_s": "float64",
    "faults_grown": "Int64",
}
_BYTES = {"rx_bytes": ("receive", 1), "tx_bytes": ("send", 1), "port_rcv_data": ("receive", 4), "port_xmit_data": ("send", 4)}


def _extend(seen: Ports, more: Ports) -> None:
    seen.ports.extend(more.ports)
    seen.counters.extend(more.counters)
    seen.not_understood.extend(more.not_understood)


def _rates(before: Ports, after: Ports, seconds: int) -> list[dict[str, Any]]:
    """Growth of each port's counters; one that went back (a port that was reset) is left out."""
    was = {(row["device"], row["port"], row["counter"]): row["value"] for row in before.counters}
    found: dict[tuple[Any, Any], dict[str, Any]] = {}
    for row in after.counters:
        grown = row["value"] - was.get((row["device"], row["port"], row["counter"]), row["value"] + 1)
        if grown < 0:
            continue
        port = found.setdefault((row["device"], row["port"]), {"device": row["device"], "port": row["port"], "faults_grown": 0})
        if row["counter"] in _BYTES:
            way, size = _BYTES[row["counter"]]
            port[f"{way}_mb_per_s"] = grown * size / 1e6 / seconds
        elif is_fault_counter(row["counter"]):
            port["faults_grown"] += grown
    return list(found.values())


def _facts(seen: Ports, rates: Sequence[Mapping[str, Any]]) -> tuple[Fact, ...]:
    up = [row for row in seen.ports if row.get("state") in ("up", "active")]
    down = [row for row in seen.ports if row.get("state") in ("down", "lowerlayerdown")]
    facts: list[Fact] = []
    if seen.ports:
        names = ", ".join(str(row["device"]) for row in down[:8])
        facts.append(Fact("network_ports_up", len(up), "ports", "ports"))
        facts.append(Fact("network_ports_down", len(down), f"ports{': ' + names if names else ''}", "ports"))
    fast = [float(row["rate_gbit_per_s"]) for row in up if row.get("rate_gbit_per_s") is not None]
    if fast:
        facts.append(Fact("network_rate_gbit_per_s", max(fast), f"the fastest of {len(fast)} ports that are up", "Gbit/s"))
    active = [row for row in up if row["kind"] == "infiniband"]
    if active:
        facts.append(Fact("infiniband_ports_active", len(active), "ports", "ports"))
        told = [float(row["rate_gbit_per_s"]) for row in active if row.get("rate_gbit_per_s") is not None]
        facts += [Fact("infiniband_rate_gbit_per_s", min(told), "the slowest active port", "Gbit/s")] if told else []
    faults = [row for row in seen.counters if is_fault_counter(str(row["counter"])) and (row["value"] or 0) > 0]
    if seen.counters:
        worst = sorted(faults, key=lambda row: -int(row["value"]))[:4]
        said = ", ".join(f"{row['device'] or ''} {row['counter']} {row['value']}".strip() for row in worst)
        facts.append(Fact("network_fault_counters", len(faults), f"counters{': ' + said if said else ''}", "counters"))
    if rates:
        facts.append(Fact("network_faults_grown", sum(int(row["faults_grown"]) for row in rates), "in the window", "events"))
    return tuple(facts)
