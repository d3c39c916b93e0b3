"""Bytes over each network interface, RDMA ports included, and segments sent again, over a short window."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import number, part, parts, whole, why_cut_short
from diag_kit.observe.system.found import Found
from diag_kit.observe.system.network_text import (
    interface_counts,
    protocol_counts,
    read_net_dev,
    read_net_snmp,
    read_netstat,
    read_ss,
)
from diag_kit.observe.system.pasted import Reader, read_pasted
from diag_kit.observe.system.vocabulary import COUNTERS, INTERFACES, NETWORK, SOCKETS
from diag_kit.records import CommandResult, Cost, Parsed

SCRIPT = r"""
seconds=$1; pid=$2
export LC_ALL=C
[ -r "/proc/$pid/net/dev" ] || pid=self
reading() {
    cat /proc/uptime; date +%s.%N
    sed 's/^/dev /' "/proc/$pid/net/dev"
    for port in /sys/class/infiniband/*/ports/*/counters; do
        [ -r "$port/port_rcv_data" ] || continue
        name=${port#/sys/class/infiniband/}; name=${name%/counters}
        echo "ib ${name%%/*}:${name##*/} $(cat "$port/port_rcv_data") $(cat "$port/port_xmit_data")"
    done
    grep -sE '^(Tcp|TcpExt): ' "/proc/$pid/net/snmp" "/proc/$pid/net/netstat" | sed 's/^[^:]*net.[a-z]*:/snmp /'
}
echo '==diag_kit:first=='
reading
sleep "$seconds"
echo '==diag_kit:second=='
reading
echo '==diag_kit:speeds=='
for each in /sys/class/net/*; do
    speed=; read -r speed < "$each/speed"
    [ -n "$speed" ] && echo "${each##*/} $speed"
done 2>/dev/null
for port in /sys/class/infiniband/*/ports/*; do
    [ -r "$port/rate" ] && { name=${port#/sys/class/infiniband/};
        echo "${name%%/*}:${name##*/} $(cut -d' ' -f1 < "$port/rate")Gb"; }
done
echo '==diag_kit:end=='
"""
READERS: Mapping[str, Reader] = {"net_dev": read_net_dev, "net_snmp": read_net_snmp, "netstat_s": read_netstat, "ss": read_ss}
TABLES = {"network": NETWORK, "interfaces": INTERFACES, "sockets": SOCKETS, "counters": COUNTERS}
_IB_WORD_BYTES = 4
"""port_rcv_data and port_xmit_data count words of four bytes (kernel Documentation/ABI/stable/sysfs-class-infiniband)."""


@probe
@dataclass(frozen=True)
class Network:
    """MB/s in and out of every interface and RDMA port over ``seconds``, errors and drops, and the share of TCP segments sent
    again.

    Equivalent: ``sar -n DEV,EDEV 5 1; nstat``; it reads /proc/net/dev, /proc/net/snmp and /sys/class/infiniband twice. In the
    training's own network namespace where one is known. NVLink and PCIe traffic are on no interface. Reads pasted /proc/net/dev,
    /proc/net/snmp, netstat -s and ss too.

    Tables: ``network`` (interface received_mb_per_s sent_mb_per_s ... used_pct of the link's speed in the busier direction; 1e6
    bytes); pasted also ``interfaces`` (totals), ``sockets``, ``counters``. Facts: network_window_s, network_received_mb_per_s and
    network_sent_mb_per_s (all but loopback, RDMA ports apart), rdma_received_mb_per_s, rdma_sent_mb_per_s,
    busiest_interface, busiest_interface_used_pct, tcp_retransmit_pct (of the segments sent in the window),
    tcp_retransmit_pct_since_boot, tcp_established.
    """

    seconds: float = 5.0

    name: ClassVar[str] = "network"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "cat /proc/net/dev /proc/net/snmp; sleep 5; cat /proc/net/dev /proc/net/snmp"
    reads: ClassVar[tuple[str, ...]] = tuple(READERS)

    @property
    def budget_s(self) -> float:
        return self.seconds + 10.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        job = known.number("job_pid")
        pid = str(int(job)) if job else "self"
        return (host.run(SCRIPT, f"{self.seconds:g}", pid, timeout_s=self.seconds + 15.0, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        found = Found()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "first") is None:
                read_pasted(result, READERS, found)
            else:
                _add_own(found, pieces)
                if cut := why_cut_short(result):
                    found.problems.append(cut)
        return found.parsed(TABLES, "no network counters could be read")


@dataclass(slots=True)
class _Reading:
    up_s: float | None = None
    t: datetime | None = None
    interfaces: dict[str, dict[str, int]] = field(default_factory=dict)
    tcp: dict[str, int] = field(default_factory=dict)


def _reading(text: str) -> _Reading:
    lines = text.splitlines()
    reading = _Reading()
    if len(lines) > 1 and lines[0].split():
        reading.up_s = number(lines[0].split()[0])
        wall = number(re.sub(r"\.(?!\d).*$", "", lines[1].strip()))
        reading.t = datetime.fromtimestamp(wall, UTC) if wall is not None and 0 < wall < 4e9 else None
    for line in lines[2:]:
        kind, _, rest = line.partition(" ")
        words = rest.split()
        if kind == "dev" and (row := interface_counts(rest)) is not None:
            reading.interfaces[row[0]] = row[1]
        elif kind == "ib" and len(words) == 3:
            counts = [whole(word) for word in words[1:]]
            if counts[0] is not None and counts[1] is not None:
                amounts = {"received_bytes": counts[0] * _IB_WORD_BYTES, "sent_bytes": counts[1] * _IB_WORD_BYTES}
                reading.interfaces[words[0]] = amounts
    reading.tcp = protocol_counts("\n".join(line[5:] for line in lines if line.startswith("snmp ")))
    return reading


def _add_own(found: Found, pieces: Sequence[tuple[str, str]]) -> None:
    first, second = _reading(part(pieces, "first") or ""), _reading(part(pieces, "second") or "")
    seconds = second.up_s - first.up_s if first.up_s is not None and second.up_s is not None else 0.0
    if seconds <= 0:
        found.problems.append("the counters were not read twice")
        return
    speeds: dict[str, float] = {}
    for line in (part(pieces, "speeds") or "").splitlines():
        name, _, value = line.strip().partition(" ")
        speed = number(value.removesuffix("Gb"))
        if speed is not None and speed > 0:  # -1: the link is down, or virtual
            speeds[name] = speed * (1000 if value.endswith("Gb") else 1)
    found.fact("network_window_s", round(seconds, 2), "/proc/uptime", "s")
    for name, counts in second.interfaces.items():
        if name in first.interfaces:
            found.rows["network"].append(_row(name, first.interfaces[name], counts, seconds, speeds.get(name)) | {"t": second.t})
    _facts(found)
    sent = second.tcp.get("Tcp OutSegs", 0) - first.tcp.get("Tcp OutSegs", 0)
    again = second.tcp.get("Tcp RetransSegs", 0) - first.tcp.get("Tcp RetransSegs", 0)
    if "Tcp OutSegs" in first.tcp and sent > 0:
        found.fact("tcp_retransmit_pct", round(100 * max(0, again) / sent, 4), "/proc/net/snmp over the window", "%")


def _row(name: str, before: Mapping[str, int], after: Mapping[str, int], seconds: float, speed: float | None) -> dict[str, Any]:
    rate = {key: max(0, after[key] - before[key]) / seconds for key in after if key in before}
    received, sent = rate["received_bytes"] / 1e6, rate["sent_bytes"] / 1e6
    return {
        "interface": name,
        "received_mb_per_s": received,
        "sent_mb_per_s": sent,
        "received_packets_per_s": rate.get("received_packets"),
        "sent_packets_per_s": rate.get("sent_packets"),
        "errors_per_s": rate.get("errors"),
        "drops_per_s": rate.get("drops"),
        "link_mbit_per_s": speed,
        "used_pct": None if speed is None else round(100 * max(received, sent) * 8 / speed, 2),
    }


def _facts(found: Found) -> None:
    rows = [row for row in found.rows["network"] if row["interface"] != "lo"]
    source = "/proc/net/dev over the window"
    for kind, chosen in (
        ("network", [r for r in rows if ":" not in r["interface"]]),
        ("rdma", [r for r in rows if ":" in r["interface"]]),
    ):
        if chosen:
            for way in ("received", "sent"):
                total = sum(row[f"{way}_mb_per_s"] for row in chosen)
                found.fact(f"{kind}_{way}_mb_per_s", round(total, 4), source, "MB/s")
    if rows:
        most = max(rows, key=lambda row: row["received_mb_per_s"] + row["sent_mb_per_s"])
        if most["received_mb_per_s"] + most["sent_mb_per_s"] <= 0:
            found.said.append(f"no bytes over {len(rows)} interfaces")
            return
        found.fact("busiest_interface", most["interface"], source)
        found.fact("busiest_interface_used_pct", most["used_pct"], source, "%")
        found.said.append(
            f"busiest {most['interface']}: {most['received_mb_per_s']:.3g} MB/s in, {most['sent_mb_per_s']:.3g} MB/s out"
        )
