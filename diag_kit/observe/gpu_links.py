"""How the GPUs of a host are linked: ``nvidia-smi topo -m``. Pure."""

from __future__ import annotations

import re

LINK_COLUMNS = {"gpu_a": "Int64", "gpu_b": "Int64", "link": "string"}
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_GPU = re.compile(r"^GPU(\d{1,4})$")
_LINK = re.compile(r"^(NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|X)$")


def read_topology(text: str) -> list[dict[str, object]] | None:
    """One row for each pair of GPUs; None when there is no such matrix. The header is underlined (ANSI) on a terminal."""
    columns: list[int] | None = None
    pairs: list[dict[str, object]] = []
    for line in text.splitlines():
        words = _ANSI.sub("", line).split()
        numbers = [int(match[1]) for word in words if (match := _GPU.match(word))]
        if columns is None:
            if words and _GPU.match(words[0]) and (len(numbers) == len(words) or not _LINK.match(words[1])):
                columns = numbers
            continue
        if not words or not _GPU.match(words[0]):
            continue
        here = numbers[0]
        for there, link in zip(columns, words[1:], strict=False):
            if _LINK.match(link) and there > here:
                pairs.append({"gpu_a": here, "gpu_b": there, "link": link})
    return pairs if columns is not None else None
