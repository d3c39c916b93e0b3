"""How the GPUs are linked: ``nvidia-smi topo -m`` (and ``-p2p``), with network cards, CPUs and NUMA nodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import whole
from diag_kit.records import NotUnderstood

LINK_COLUMNS = {"gpu_a": "Int64", "gpu_b": "Int64", "link": "str"}
NIC_COLUMNS = {"gpu": "Int64", "nic": "str", "link": "str"}
AFFINITY_COLUMNS = {
    "gpu": "Int64",
    "cpu_affinity": "str",
    "numa_node": "str",
    "gpu_numa_id": "str",
    "nearest_nics": "str",
    "nearest_nic_link": "str",
}
LINK_WORDS: Mapping[str, str] = {
    "NV": "NVLink",
    "PIX": "one PCIe bridge",
    "PXB": "several PCIe bridges",
    "PHB": "a PCIe host bridge (the CPU)",
    "NODE": "PCIe host bridges within a NUMA node",
    "SYS": "the link between CPU sockets",
}
"""The legend of ``nvidia-smi topo -m``, nearest first; NV# is a bond of # NVLinks, SOC (old drivers) is SYS."""
_NEARNESS = ("PIX", "PSB", "PXB", "PHB", "NODE", "SYS", "SOC")

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB|N/A")
_P2P_CELL = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")
_HEADING = re.compile(r"\b(?:CPU NUMA|GPU NUMA|CPU|NUMA) (?:Affinity|ID)\b")
_NIC = re.compile(r"^[ \t]*(NIC\d{1,4}): (\S{1,64})[ \t\r]*$")
_DEVICE = re.compile(r"GPU\d{1,4}|NIC\d{1,4}|[A-Za-z][\w.-]{0,63}")


@dataclass(slots=True)
class Links:
    """Pairs of GPUs, the network cards and CPUs near each, and what could not be read."""

    pairs: list[dict[str, Any]] = field(default_factory=list)
    nics: list[dict[str, Any]] = field(default_factory=list)
    p2p: list[dict[str, Any]] = field(default_factory=list)
    affinity: list[dict[str, Any]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)

    @property
    def nvlink(self) -> str | None:
        """ "present" or "none"; None where no pair of GPUs was seen."""
        if not self.pairs:
            return None
        return "present" if any(pair["link"].startswith("NV") for pair in self.pairs) else "none"


def read_topology(text: str, where: str = "nvidia-smi topo -m") -> Links:
    """The matrix: its header is underlined by terminal codes, its columns are parted by tabs or, once pasted, by blanks.

    A row whose cells ran together ("NODENODE") is read where they can only be parted in one way. Rows of network cards are
    the mirror image of their columns and are checked for their shape only. "NIC0: mlx5_0" in the legend gives their names.
    """
    links = Links()
    header: list[str] = []
    for count, line in enumerate(_ANSI.sub("", text).splitlines(), start=1):
        line = line[:20_000]
        words = line.split()
        if not words or words[0] in ("Legend:", "NIC"):
            continue
        if named := _NIC.match(line):
            for row in links.nics:
                row["nic"] = named[2] if row["nic"] == named[1] else row["nic"]
        elif re.match(r"^[ \t]*(\S+[ \t]+)?=[ \t]", line):  # the legend
            continue
        elif _is_header(words):
            header = _names(line)
        elif header and words[0] in header:
            _row(links, line, words, header, f"{where} line {count}")
        else:
            why = "not a row of the matrix" if header else "no header above it"
            links.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], why))
    _add_nearest(links)
    return links


def _is_header(words: Sequence[str]) -> bool:
    return bool(re.fullmatch(r"GPU\d{1,4}", words[0])) and not any(_cells((word,), _CELL, 1) for word in words[1:2])


def _names(line: str) -> list[str]:
    """The devices of the columns: everything before the first heading on affinity."""
    first = _HEADING.search(line)
    return [word for word in (line[: first.start()] if first else line).split() if _DEVICE.fullmatch(word)]


def _cells(words: Sequence[str], cell: re.Pattern[str], wanted: int) -> tuple[list[str], int] | None:
    """``wanted`` cells from the first words, and how many words they took; None when a word is no row of cells."""
    found: list[str] = []
    for used, word in enumerate(words):
        if len(found) >= wanted:
            return (found, used) if len(found) == wanted else None
        parts = cell.findall(word)
        if not parts or "".join(parts) != word:
            return None
        found.extend(parts)
    return (found, len(words)) if len(found) == wanted else None


def _row(links: Links, line: str, words: list[str], header: list[str], where: str) -> None:
    gpu = whole(words[0][3:]) if re.fullmatch(r"GPU\d{1,4}", words[0]) else None
    read = _cells(words[1:], _CELL, len(header))
    peer = None if read else _cells(words[1:], _P2P_CELL, len(header))
    if read is None and peer is None:
        links.not_understood.append(NotUnderstood(where, line[:200], "not a row of the matrix"))
        return
    if gpu is None:
        return
    cells, used = read or peer or ([], 0)
    for name, link in zip(header, cells, strict=True):
        other = whole(name[3:]) if re.fullmatch(r"GPU\d{1,4}", name) else None
        if other is None and read:
            links.nics.append({"gpu": gpu, "nic": name, "link": link})
        elif other is not None and gpu < other and link != "N/A":
            (links.pairs if read else links.p2p).append({"gpu_a": gpu, "gpu_b": other, "link": link})
    near = _near(line, words[1 + used :], len(header) + 1)
    if any(near.values()):
        links.affinity.append({"gpu": gpu, **near})


def _near(line: str, rest: list[str], taken: int) -> dict[str, str | None]:
    """CPU affinity, NUMA affinity and the NUMA id of the GPU's own memory; with tabs an empty one keeps its place."""
    tabbed = [cell.strip() for cell in line.split("\t")]
    values = tabbed[taken:] if len(tabbed) > taken else rest
    cpu, numa, *more = [*values, "", ""]
    own = next((value for value in more if value), "")

    def known(value: str) -> str | None:
        return value[:100] if value and value != "N/A" else None

    return {"cpu_affinity": known(cpu), "numa_node": known(numa), "gpu_numa_id": known(own)}


def _add_nearest(links: Links) -> None:
    """The network cards that are nearest to each GPU, and over what."""
    rows = {row["gpu"]: row for row in links.affinity}
    for gpu in dict.fromkeys(nic["gpu"] for nic in links.nics):
        mine = [nic for nic in links.nics if nic["gpu"] == gpu and nic["link"] in _NEARNESS]
        if not mine:
            continue
        best = min((nic["link"] for nic in mine), key=_NEARNESS.index)
        if gpu not in rows:
            rows[gpu] = {"gpu": gpu}
            links.affinity.append(rows[gpu])
        rows[gpu]["nearest_nics"] = ", ".join(nic["nic"] for nic in mine if nic["link"] == best)
        rows[gpu]["nearest_nic_link"] = best
