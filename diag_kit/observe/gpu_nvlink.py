"""``nvidia-smi nvlink``: state and nominal speed of each link (``-s``), errors (``-e``), capabilities (``-c``), traffic. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from diag_kit.observe.raw import number, whole
from diag_kit.records import Fact, NotUnderstood

NVLINK_COLUMNS = {"gpu": "Int64", "link": "Int64", "state": "str", "gb_per_s": "float64"}
COUNTER_COLUMNS = {"gpu": "Int64", "link": "Int64", "field": "str", "value": "str", "unit": "str"}

_GPU = re.compile(r"^[ \t]*GPU (\d{1,4}): ")
_LINK = re.compile(r"^[ \t]*Link (\d{1,4})(?:: |, | is )(.{1,300})$")
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GB/s\s*")
_VALUE = re.compile(r"([^:]{1,100}): ?(\S.{0,100})")
_NOT_KNOWN = re.compile(r"N/A|Not Supported|Unknown Error|-", re.I)


@dataclass(slots=True)
class NvLinks:
    """Links as rows, and every other field of a link as (field, value, unit)."""

    links: list[dict[str, Any]] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)
    not_understood: list[NotUnderstood] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, other: NvLinks) -> None:
        self.links.extend(other.links)
        self.counters.extend(other.counters)
        self.not_understood.extend(other.not_understood)
        self.problems.extend(other.problems)

    @property
    def nominal(self) -> dict[int, float]:
        """GB/s of all active links of each GPU, one direction, as the driver states them (nominal, not measured)."""
        sums: dict[int, float] = {}
        for row in self.links:
            if row["gb_per_s"] is not None:
                sums[row["gpu"]] = sums.get(row["gpu"], 0.0) + row["gb_per_s"]
        return sums


def read_nvlink(text: str, where: str = "nvidia-smi nvlink") -> NvLinks:
    """Each ``Link N: ...`` under its ``GPU N: ...``. An inactive link has a state and no speed: not 0 GB/s."""
    seen = NvLinks()
    gpu: int | None = None
    for count, line in enumerate(text.splitlines(), start=1):
        line = line.rstrip()[:2000]
        if head := _GPU.match(line):
            gpu = int(head[1])
        elif (link := _LINK.match(line)) and gpu is not None:
            _add(seen, gpu, int(link[1]), link[2].strip())
        elif "all links are inActive" in line or "NVLink is not supported" in line:
            seen.problems.append(f"nvidia-smi nvlink: {line.strip()[:160]}")
        elif line.strip() and not line.lstrip().startswith(("NVLINK", "=", "-")):
            why = "not a line of nvidia-smi nvlink" if gpu is not None else "no GPU named above it"
            seen.not_understood.append(NotUnderstood(f"{where} line {count}", line[:200], why))
    return seen


def _add(seen: NvLinks, gpu: int, link: int, said: str) -> None:
    speed = _SPEED.fullmatch(said)
    if speed:
        seen.links.append({"gpu": gpu, "link": link, "state": "active", "gb_per_s": number(speed[1])})
    elif re.fullmatch(r"<?inactive>?|<?disabled>?|<?sleep>?|<?down>?", said, re.I):
        seen.links.append({"gpu": gpu, "link": link, "state": said.strip("<>").lower(), "gb_per_s": None})
    elif told := _VALUE.fullmatch(said):
        value, _, unit = told[2].strip().partition(" ")
        known = None if _NOT_KNOWN.fullmatch(told[2].strip()) else value
        unit = unit if re.fullmatch(r"[A-Za-z/%]{1,8}", unit) else ""
        seen.counters.append({"gpu": gpu, "link": link, "field": told[1].strip(), "value": known, "unit": unit or None})
    else:
        seen.counters.append({"gpu": gpu, "link": link, "field": said[:100], "value": None, "unit": None})


def nvlink_facts(seen: NvLinks) -> Sequence[Fact]:
    """nvlink_gb_per_s, nvlink_inactive_links, nvlink_errors: counters since the driver was loaded, so a sum says when not."""
    facts: list[Fact] = []
    nominal = sorted(seen.nominal.values())
    if nominal:
        source = "nvidia-smi nvlink -s (nominal, one direction)"
        facts.append(Fact("nvlink_gb_per_s", round(nominal[0], 3), source, "GB/s"))
    down = [row for row in seen.links if row["state"] != "active"]
    if seen.links:
        names = ", ".join(f"GPU {row['gpu']} link {row['link']}" for row in down[:12])
        facts.append(Fact("nvlink_inactive_links", len(down), f"nvidia-smi nvlink -s{': ' + names if names else ''}", "links"))
    errors = [row for row in seen.counters if re.search(r"errors?\b", row["field"], re.I)]
    known = [(row, value) for row in errors if (value := whole(row["value"] or "")) is not None]
    if known:
        worst = [f"GPU {r['gpu']} link {r['link']} {r['field']} {value}" for r, value in known if value > 0]
        source = "nvidia-smi nvlink -e, since the counters began"
        facts.append(
            Fact("nvlink_errors", sum(v for _, v in known), f"{source}{': ' + ', '.join(worst[:8]) if worst else ''}", "errors")
        )
    return facts
