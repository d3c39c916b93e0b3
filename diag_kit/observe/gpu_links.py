"""How the GPUs are linked: ``nvidia-smi topo -m`` and ``nvidia-smi nvlink -s``. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.records import NotUnderstood

LINK_COLUMNS = {"gpu_a": "Int64", "gpu_b": "Int64", "link": "str"}
AFFINITY_COLUMNS = {"gpu": "Int64", "cpu_affinity": "str", "numa_node": "str"}
LINK_WORDS: Mapping[str, str] = {
    "NV": "NVLink",
    "PIX": "one PCIe bridge",
    "PXB": "several PCIe bridges",
    "PHB": "a PCIe host bridge (the CPU)",
    "NODE": "PCIe host bridges within a NUMA node",
    "SYS": "the link between CPU sockets",
}
"""The legend of ``nvidia-smi topo -m``; NV# is a bond of # NVLinks."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_LINK = re.compile(r"^(X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|PSB)$")


@dataclass(slots=True)
class Links:
    """Pairs of GPUs, the CPUs near each, and what could not be read."""

    pairs: list[dict[str, Any]] = field(default_factory=list)
    affinity: list[dict[str, Any]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)

    @property
    def nvlink(self) -> str | None:
        """ "present" or "none"; None where no pair of GPUs was seen."""
        if not self.pairs:
            return None
        return "present" if any(pair["link"].startswith("NV") for pair in self.pairs) else "none"


def read_topology(text: str, where: str = "nvidia-smi topo -m") -> Links:
    """The matrix: its header is underlined by terminal codes, its cells are one word each up to "CPU Affinity"."""
    links = Links()
    header: list[str] = []
    for count, line in enumerate(_ANSI.sub("", text).splitlines(), start=1):
        words = line.split()
        if not header and words and re.fullmatch(r"GPU\d+", words[0]) and "X" not in words:
            header = [word for word in line.split("CPU Affinity")[0].split() if word != "CPU"]
        elif header and words and re.fullmatch(r"GPU\d+", words[0]):
            cells = words[1 : len(header) + 1]
            if len(cells) < len(header) or not all(_LINK.match(cell) for cell in cells):
                links.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], "not a row of the matrix"))
                continue
            _add_row(links, words, header, cells)
        elif words[:1] == ["Legend:"]:
            break
    return links


def _add_row(links: Links, words: list[str], header: list[str], cells: list[str]) -> None:
    gpu = whole(words[0][3:])
    for name, link in zip(header, cells, strict=True):
        other = whole(name[3:]) if re.fullmatch(r"GPU\d+", name) else None
        if gpu is not None and other is not None and gpu < other:
            links.pairs.append({"gpu_a": gpu, "gpu_b": other, "link": link})
    near = words[len(header) + 1 :]
    if near:
        numa = near[1] if len(near) > 1 else None
        links.affinity.append({"gpu": gpu, "cpu_affinity": near[0][:100], "numa_node": numa})


def read_nvlink(text: str) -> dict[int, float]:
    """GB/s of all active NVLinks of each GPU, one direction, as the driver states them (nominal, not measured)."""
    sums: dict[int, float] = {}
    gpu: int | None = None
    for line in text.splitlines():
        head = re.match(r"^GPU (\d{1,4}):", line)
        link = re.match(r"^\s*Link \d+: ([\d.]+) GB/s", line)
        if head:
            gpu = int(head.group(1))
        elif link and gpu is not None:
            sums[gpu] = sums.get(gpu, 0.0) + (number(link.group(1)) or 0.0)
    return sums
