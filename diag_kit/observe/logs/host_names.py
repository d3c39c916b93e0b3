"""``worker-1: text``: pdsh and DeepSpeed's multi-node launcher put the host's name in front of every line.

Taken as such only where nearly all lines have one, and the names differ in nothing but their numbers (or are addresses), so
that no key of a record is mistaken for a host. Shape: chaos/pdsh, deepspeedai/DeepSpeed deepspeed/launcher/multinode_runner.py.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from diag_kit.observe.logs.line import Line

_HOST = re.compile(r"(?P<host>[A-Za-z][A-Za-z0-9.-]{0,60}|\d{1,3}(?:\.\d{1,3}){3}): (?=\s{0,40}[^\s\d.+-])")
_LOOK_BYTES = 64 * 2**10
_LOOK_LINES = 200
_ONE_HOST_LINES = 20
"""So many lines with one and the same name are needed where no second host shows."""


def host_names(data: bytes) -> frozenset[str]:
    """The hosts that this log names in front of its lines; empty where it does not."""
    head = [line.decode("utf-8", "replace") for line in data[:_LOOK_BYTES].split(b"\n")[:_LOOK_LINES] if line.strip()]
    names = Counter(match["host"] for line in head if (match := _HOST.match(line)))
    shapes = {re.sub(r"\d+", "#", name) for name in names}
    alike = len(shapes) == 1 and "#" in next(iter(shapes), "")
    enough = sum(names.values()) >= 0.8 * len(head) and (len(names) > 1 or sum(names.values()) >= _ONE_HOST_LINES)
    return frozenset(names) if alike and enough and max(names.values()) > 1 else frozenset()


def strip_hosts(lines: Iterable[Line], shape: frozenset[str]) -> Iterator[Line]:
    """Take the names off and note them on the lines; hosts that join later count if they look like those of the head."""
    blanked = {re.sub(r"\d+", "#", name) for name in shape}
    for line in lines:
        match = _HOST.match(line.text)
        if match and re.sub(r"\d+", "#", match["host"]) in blanked:
            line.host = match["host"]
            line.text = line.text[match.end() :]
        yield line
