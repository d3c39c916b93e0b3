"""What stands in place of a secret or a name: numbered within its kind, of the same syntax, recognisable as what it is."""

from __future__ import annotations

import ipaddress
import re

_PSEUDONYM = re.compile(r"(?<![A-Za-z0-9])(secret-|user|host|serial|person)(\d{1,6})(?![A-Za-z0-9])")
_PSEUDONYM_KIND = {"secret-": "secret", "person": "email", "user": "user", "host": "host", "serial": "serial"}
_PSEUDONYM_NETWORKS = tuple(
    ipaddress.ip_network(network) for network in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4")
)
_PSEUDONYM_NETWORK_6 = ipaddress.IPv6Network("2001:db8::/32")
_ZERO_UUID = re.compile(r"0{8}-(?:0{4}-){3}(\d{12})\Z")
_ZERO_MAC = re.compile(r"02:00:00:00:((?:[0-9a-f]{2}:?)+)\Z", re.I)


class Pseudonyms:
    """Gives one pseudonym to one value, and never a number that the material already uses."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, str], str] = {}
        self._reserved: dict[str, set[int]] = {}
        self._last: dict[str, int] = {}

    def of(self, kind: str, value: str) -> str:
        key = (kind, same(kind, value))
        if key not in self._given:
            family = _family(kind, value)
            number = self._last.get(family, 0) + 1
            while number in self._reserved.get(family, ()):
                number += 1
            self._last[family] = number
            self._given[key] = _pseudonym(family, number)
        return self._given[key]

    def reserve(self, kind: str, value: str) -> bool:
        """True, and remembered, if the value is a pseudonym already."""
        number = number_of(kind, value)
        if number is not None:
            self._reserved.setdefault(_family(kind, value), set()).add(number)
        return number is not None

    def reserve_in(self, text: str) -> None:
        """Everything in a text that reads like user1: it was redacted before, or somebody really is called so."""
        for match in _PSEUDONYM.finditer(text):
            self._reserved.setdefault(_PSEUDONYM_KIND[match[1]], set()).add(int(match[2]))


def _family(kind: str, value: str) -> str:
    """Pseudonyms are numbered within a family: a kind, with IPv6 apart from IPv4."""
    return "ip6" if kind == "ip" and ":" in value else kind


def same(kind: str, value: str) -> str:
    """What two spellings of one thing have in common: a host's short and long name, an address in either case."""
    if kind == "host":
        return value.lower().partition(".")[0]
    return value.lower() if kind in ("ip", "mac", "gpu_uuid") else value


def _pseudonym(family: str, number: int) -> str:
    """Harmless wherever the original stood: no character that a shell would have to quote, the same syntax."""
    if family == "ip":
        for network in _PSEUDONYM_NETWORKS:
            if number < network.num_addresses - 1:
                return str(network[number])
            number -= network.num_addresses - 2
    if family == "ip6":
        return str(_PSEUDONYM_NETWORK_6[number])
    if family == "mac":
        return f"02:00:00:00:{number >> 8 & 255:02x}:{number & 255:02x}"
    if family == "gpu_uuid":
        return f"00000000-0000-0000-0000-{number:012d}"
    if family == "email":
        return f"person{number}@example.com"
    return f"secret-{number}" if family == "secret" else f"{family}{number}"


def is_pseudonym(text: str) -> bool:
    """Whether the text as a whole is one that stands for text, of whatever kind: not redacted again as another."""
    return _PSEUDONYM.fullmatch(text) is not None


def number_of(kind: str, value: str) -> int | None:
    """The number of a pseudonym, None if it is an original."""
    if kind == "ip":
        return _address_number(value)
    if kind == "gpu_uuid":
        zero = _ZERO_UUID.match(value)
        return int(zero[1]) if zero else None
    if kind == "mac":
        local = _ZERO_MAC.match(value)
        return int(local[1].replace(":", ""), 16) if local else None
    if kind == "email":
        value = value.removesuffix("@example.com")
    match = _PSEUDONYM.fullmatch(value)
    return int(match[2]) if match and _PSEUDONYM_KIND[match[1]] == kind else None


def _address_number(value: str) -> int | None:
    address = ipaddress.ip_address(value)
    if isinstance(address, ipaddress.IPv6Address):
        return int(address) - int(_PSEUDONYM_NETWORK_6[0]) if address in _PSEUDONYM_NETWORK_6 else None
    before = 0
    for network in _PSEUDONYM_NETWORKS:
        if address in network:
            return before + int(address) - int(network[0])
        before += network.num_addresses - 2
    return None
