"""Interfaces, sockets and protocol counters as people paste them: /proc/net/dev, /proc/net/snmp, netstat -s, ss. Pure."""

from __future__ import annotations

import re
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.observe.system.found import Found, numbered
from diag_kit.records import CommandResult


def interface_counts(line: str) -> tuple[str, dict[str, int]] | None:
    """One line of /proc/net/dev: 8 counters received, 8 sent (kernel net/core/net-procfs.c); the name may touch the first."""
    name, colon, rest = line.partition(":")
    counts = [whole(word) for word in rest.split()]
    known = [count for count in counts if count is not None]
    if not colon or not name.strip() or len(known) != len(counts) or len(known) < 12:
        return None
    return name.strip(), {
        "received_bytes": known[0],
        "received_packets": known[1],
        "sent_bytes": known[8],
        "sent_packets": known[9],
        "errors": known[2] + known[10],
        "drops": known[3] + known[11],
    }


def read_net_dev(result: CommandResult, found: Found) -> None:
    """Totals since each interface came up: table ``interfaces``."""
    for at, line in numbered(result.text):
        row = interface_counts(line)
        if row is not None:
            found.rows["interfaces"].append({"interface": row[0], **row[1]})
        elif line.strip() and "|" not in line:
            found.strange(f"/proc/net/dev line {at}", line, "no line of /proc/net/dev")
    troubled = [row["interface"] for row in found.rows["interfaces"] if row["errors"]]
    found.said.append(
        f"{len(found.rows['interfaces'])} interfaces" + (f", errors on {', '.join(troubled[:3])}" if troubled else "")
    )


def protocol_counts(text: str, found: Found | None = None) -> dict[str, int]:
    """/proc/net/snmp and netstat: a line of names, then one of values, by protocol: {"Tcp RetransSegs": 12}."""
    counts: dict[str, int] = {}
    names: list[str] = []
    for at, line in numbered(text):
        words = line.split()
        if not words or not words[0].endswith(":"):
            if words and found is not None:
                found.strange(f"line {at}", line, "no line of /proc/net/snmp")
            continue
        if len(words) > 1 and not re.fullmatch(r"-?\d+", words[1]):
            names = words
        elif len(words) == len(names) and names[0] == words[0]:
            pairs = zip(names[1:], map(whole, words[1:]), strict=True)
            counts |= {f"{words[0][:-1]} {name}": value for name, value in pairs if value is not None}
        elif found is not None:
            found.strange(f"line {at}", line, "its names are missing or do not fit")
    return counts


def read_net_snmp(result: CommandResult, found: Found) -> None:
    counts = protocol_counts(result.text, found)
    found.rows["counters"].extend({"source": "/proc/net/snmp", "name": name, "value": value} for name, value in counts.items())
    _retransmits(found, counts.get("Tcp RetransSegs"), counts.get("Tcp OutSegs"), "/proc/net/snmp")


def read_netstat(result: CommandResult, found: Found) -> None:
    """``netstat -s`` (net-tools): ``NUMBER words`` or ``Words: NUMBER`` under the protocol's heading."""
    protocol = ""
    for at, line in numbered(result.text):
        text = line.strip()
        if heading := re.fullmatch(r"([A-Z]\w+):", text):
            protocol = heading[1]
        elif match := re.fullmatch(r"(\d{1,18}) (\S.*)|(\w[\w ]*): (\d{1,18})", text):
            name, value = (match[2], match[1]) if match[1] else (match[3], match[4])
            found.rows["counters"].append({"source": "netstat -s", "name": f"{protocol} {name}".strip(), "value": int(value)})
        elif text and not re.match(r"^[A-Z][\w ]*:?", text):
            found.strange(f"netstat line {at}", line, "no counter")
    values = {row["name"]: row["value"] for row in found.rows["counters"]}
    sent = values.get("Tcp segments sent out", values.get("Tcp segments send out"))
    again = values.get("Tcp segments retransmitted", values.get("Tcp segments retransmited"))
    _retransmits(found, again, sent, "netstat -s")


def _retransmits(found: Found, again: int | None, sent: int | None, source: str) -> None:
    if again is not None and sent:
        found.fact("tcp_retransmit_pct_since_boot", round(100 * again / sent, 4), source, "%")
        found.said.append(f"{100 * again / sent:.2g} % of TCP segments were sent again since boot")


_SS_NAMES = "ESTAB LISTEN SYN-SENT SYN-RECV FIN-WAIT-1 FIN-WAIT-2 TIME-WAIT UNCONN CLOSE-WAIT LAST-ACK CLOSING CLOSED"
_SS_STATES = _SS_NAMES.split()
_SS_TOTAL = re.compile(
    r"^TCP:[ \t]+(\d{1,9}) \(estab (\d{1,9}), closed (\d{1,9}), orphaned (\d{1,9})(?:, synrecv \d+)?, timewait (\d{1,9})"
)


def read_ss(result: CommandResult, found: Found) -> None:
    """``ss -s`` and ``ss -t[i]`` (iproute2 misc/ss.c): a socket, and under it the line of its TCP figures."""
    row: dict[str, Any] | None = None
    for at, line in numbered(result.text):
        words = line.split()
        if not words:
            continue
        if total := _SS_TOTAL.match(line):
            for name, value in zip(
                ("tcp_sockets", "tcp_established", "tcp_closed", "tcp_orphaned", "tcp_time_wait"), total.groups(), strict=True
            ):
                found.fact(name, int(value), "ss -s")
            found.said.append(f"{total[2]} TCP connections")
        elif (socket := _socket(words)) is not None:
            row = socket
            found.rows["sockets"].append(row)
        elif row is not None and line[:1] in " \t" and re.search(r"\b(?:rtt:|cwnd:|wscale:|cubic|bbr|reno)", line):
            row |= _tcp_info(line)
        elif not re.match(r"^(?:Total|Transport|RAW|UDP|TCP|INET|FRAG)\b|^(?:Netid|State)\s", line):
            found.strange(f"ss line {at}", line, "no socket")
    if re.search(r"^(?:Netid|State)\s", result.text, re.M):
        found.fact("sockets_listed", len(found.rows["sockets"]), "ss")


def _socket(words: list[str]) -> dict[str, Any] | None:
    protocol = None
    if words[0] not in _SS_STATES and len(words) > 1 and words[1] in _SS_STATES:
        protocol, words = words[0], words[1:]
    if words[0] not in _SS_STATES or len(words) < 5:
        return None
    queues = [whole(word) for word in words[1:3]]
    if None in queues:
        return None
    row = {"state": words[0], "protocol": protocol, "local": words[3], "peer": words[4]}
    return row | {"receive_queue_bytes": queues[0], "send_queue_bytes": queues[1]}


def _tcp_info(line: str) -> dict[str, Any]:
    """``retrans:NOW/TOTAL``, ``rtt:MEAN/VARIATION`` in ms, ``send 9.2Gbps``."""
    found: dict[str, Any] = {}
    for name, pattern in (("congestion_window", r"\bcwnd:(\d{1,9})"), ("bytes_sent", r"\bbytes_sent:(\d{1,18})"),
                          ("bytes_received", r"\bbytes_received:(\d{1,18})"),
                          ("retransmits", r"\bretrans:\d{1,9}/(\d{1,9})")):  # fmt: skip
        if match := re.search(pattern, line):
            found[name] = whole(match[1])
    if match := re.search(r"\brtt:([\d.]{1,12})/", line):
        found["rtt_ms"] = number(match[1])
    if match := re.search(r"\bsend ([\d.]{1,14})([KMG]?)bps", line):
        value = number(match[1])
        found["send_mbit_per_s"] = None if value is None else value * {"": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3}[match[2]]
    return found
