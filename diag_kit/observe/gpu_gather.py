"""Several answers of nvidia-smi put together: which reader for which text, and the tables and facts of all of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from diag_kit.observe.gpu_derived import clock_facts, clock_table, memory_facts, memory_table, pcie_facts, pcie_table
from diag_kit.observe.gpu_details import read_details
from diag_kit.observe.gpu_health import HEALTH_COLUMNS, health_facts
from diag_kit.observe.gpu_links import AFFINITY_COLUMNS, LINK_COLUMNS, NIC_COLUMNS, Links, read_topology
from diag_kit.observe.gpu_list import read_list, read_mig
from diag_kit.observe.gpu_monitor import read_monitor, read_nvtop
from diag_kit.observe.gpu_nvlink import COUNTER_COLUMNS, NVLINK_COLUMNS, NvLinks, nvlink_facts, read_nvlink
from diag_kit.observe.gpu_query import read_query
from diag_kit.observe.gpu_series import series_facts, summary
from diag_kit.observe.gpu_table import read_table
from diag_kit.observe.gpu_values import (
    FIELD_COLUMNS,
    GPU_COLUMNS,
    INSTANCE_COLUMNS,
    PROCESS_COLUMNS,
    PROCESS_SAMPLE_COLUMNS,
    PROFILE_COLUMNS,
    Seen,
)
from diag_kit.observe.raw import frame
from diag_kit.records import Fact, NotUnderstood, Parsed

if TYPE_CHECKING:
    import pandas as pd

MAX_NOT_UNDERSTOOD = 500
_IDENTITY = ("gpu", "name", "uuid", "bus_id", "t", "mig")


@dataclass(slots=True)
class Gathered:
    """What several answers add up to."""

    gpus: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    instances: list[dict[str, Any]] = field(default_factory=list)
    profiles: list[dict[str, Any]] = field(default_factory=list)
    health: dict[tuple[Any, Any], dict[str, Any]] = field(default_factory=dict)
    fields: dict[tuple[Any, str], dict[str, Any]] = field(default_factory=dict)
    links: Links = field(default_factory=Links)
    nvlinks: NvLinks = field(default_factory=NvLinks)
    processes_listed: bool = False
    listed: int = 0
    driver: str | None = None
    cuda: str | None = None
    headers: int = 0
    not_understood: list[NotUnderstood] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def nvlink(self) -> dict[int, float]:
        return self.nvlinks.nominal

    def add(self, seen: Seen) -> None:
        self.gpus.extend(seen.gpus)
        self.processes.extend(seen.processes)
        self.samples.extend(seen.samples)
        self.headers += seen.headers
        self.instances.extend(seen.instances)
        self.profiles.extend(seen.profiles)
        for row in seen.health:  # of a series the last one stays: the counters only grow
            self.health[row["gpu"], row["bus_id"]] = row
        for row in seen.fields:
            self.fields[row["gpu"], row["field"]] = row
        self.processes_listed |= seen.processes_listed
        self.driver, self.cuda = seen.driver or self.driver, seen.cuda or self.cuda
        self.not_understood.extend(seen.not_understood)
        self.problems.extend(seen.problems)

    def add_links(self, links: Links) -> None:
        self.links.pairs.extend(links.pairs)
        self.links.nics.extend(links.nics)
        self.links.p2p.extend(links.p2p)
        self.links.affinity.extend(links.affinity)
        self.not_understood.extend(links.not_understood)

    def add_nvlinks(self, nvlinks: NvLinks) -> None:
        self.nvlinks.add(nvlinks)
        self.not_understood.extend(nvlinks.not_understood)
        self.problems.extend(nvlinks.problems)

    def add_text(self, text: str, where: str) -> None:
        """A pasted text, told by what only its reader understands."""
        if not text.strip():
            self.problems.append("the output of nvidia-smi is empty")
        elif "<nvidia_smi_log" in text or re.search(r"^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:\S{1,6}[ \t]*$", text, re.M):
            self.add(read_details(text, where))
        elif re.search(
            r"^\|[ \t]*(?:GPU instances|GPU instance profiles|Compute instances|Compute instance profiles):", text, re.M
        ):
            self.add(read_mig(text, where))
        elif re.search(r"NVIDIA-SMI[ \t]+\d|^\|[ \t]+\d+[ \t][^|\n]*\|[^|\n]*\|[^|\n]*\|[ \t]*$", text, re.M):
            self.add(read_table(text, where))
        elif re.search(r"^#[ \t]*(?:Date[ \t]+Time[ \t]+)?gpu[ \t]", text, re.M | re.I):
            self.add(read_monitor(text, where))
        elif re.search(r"^\W{0,6}(?:\[4m)?[ \t]*GPU0[ \t]", text, re.M):
            self.add_links(read_topology(text, where))
        elif re.search(r"^[ \t]+Link \d+(?::|,| is) ", text, re.M):
            self.add_nvlinks(read_nvlink(text, where))
        elif re.search(r"^GPU \d+: .{1,200}\(UUID: ", text, re.M):
            self.add(read_list(text, where))
        elif re.search(r"^[ \t]*Device \d+ \[.{1,80}\].{0,20}PCIe GEN ", text, re.M):
            self.add(read_nvtop(text, where))
        else:
            self.add(read_query(text, where))

    def parsed(self) -> Parsed:
        """All tables and facts."""
        series = frame(self.gpus, GPU_COLUMNS)
        self._place_processes()
        tables = self._tables(series)
        computing = [process for process in self.processes if "C" in (process.get("type") or "C")]  # not the display server
        using = {process["gpu"] for process in computing if process.get("gpu") is not None}
        facts = (
            *series_facts(series, using, self),
            *_link_facts(self.links),
            *nvlink_facts(self.nvlinks),
            *memory_facts(tables["gpu_memory"]),
            *clock_facts(tables["gpu_clocks"]),
            *pcie_facts(tables["gpu_pcie"]),
            *health_facts(list(self.health.values())),
        )
        if not facts and not any(len(table) for table in tables.values()) and not self.headers and not self.processes_listed:
            self.problems = self.problems or ["no line of nvidia-smi could be read"]
        return Parsed(
            summary=summary(series, facts, self.problems),
            facts=facts,
            tables={name: table for name, table in tables.items() if len(table) or name in ("gpus", "gpu_processes")},
            not_understood=_bounded(self.not_understood),
            problems=tuple(dict.fromkeys(self.problems)),
        )

    def _place_processes(self) -> None:
        """The GPU of a process that is told by uuid alone."""
        by_uuid = {row["uuid"]: row["gpu"] for row in self.gpus if row.get("uuid")}
        for process in self.processes:
            if process.get("gpu") is None:
                process["gpu"] = by_uuid.get(process.get("gpu_uuid"))

    def _tables(self, series: pd.DataFrame) -> Mapping[str, pd.DataFrame]:
        """A list of names (``-L``, pmon) is no sample: it is kept apart from ``gpus``, whose newest table the rules take."""
        measured = bool(series[[name for name in GPU_COLUMNS if name not in _IDENTITY]].notna().any(axis=None))
        return {
            "gpus": series if measured else series.iloc[:0],
            "gpu_list": series.iloc[:0] if measured else series[[name for name in series if name in _IDENTITY[:4]]],
            "gpu_processes": frame(self.processes, PROCESS_COLUMNS),
            "gpu_process_samples": frame(self.samples, PROCESS_SAMPLE_COLUMNS),
            "gpu_instances": frame(self.instances, INSTANCE_COLUMNS),
            "gpu_mig_profiles": frame(self.profiles, PROFILE_COLUMNS),
            "gpu_links": frame(self.links.pairs, LINK_COLUMNS),
            "gpu_p2p": frame(self.links.p2p, LINK_COLUMNS),
            "gpu_nics": frame(self.links.nics, NIC_COLUMNS),
            "gpu_affinity": frame(self.links.affinity, AFFINITY_COLUMNS),
            "nvlinks": frame(self.nvlinks.links, NVLINK_COLUMNS),
            "nvlink_fields": frame(self.nvlinks.counters, COUNTER_COLUMNS),
            "gpu_memory": memory_table(series, self.processes, self.processes_listed),
            "gpu_clocks": clock_table(series),
            "gpu_pcie": pcie_table(series),
            "gpu_health": frame(self.health.values(), HEALTH_COLUMNS),
            "gpu_fields": frame(self.fields.values(), FIELD_COLUMNS),
        }


def _link_facts(links: Links) -> Sequence[Fact]:
    """gpu_pair_links: the kinds of link between pairs of GPUs; nvlinks_per_pair (fewest, of pairs that have NVLink); nic_count;
    p2p_pairs_not_ok.
    """
    source = "nvidia-smi topo -m"
    facts: list[Fact] = []
    if links.pairs:
        kinds = dict.fromkeys(sorted(pair["link"] for pair in links.pairs))
        facts.append(Fact("gpu_pair_links", ", ".join(kinds), f"{source}, {len(links.pairs)} pairs"))
        bonded = [int(link[2:]) for link in kinds if link[:2] == "NV" and link[2:].isdecimal()]
        facts.extend([Fact("nvlinks_per_pair", min(bonded), source, "links")] if bonded else [])
    if links.nics:
        facts.append(Fact("nic_count", len({nic["nic"] for nic in links.nics}), source, "network cards"))
    if links.p2p:
        bad = [pair for pair in links.p2p if pair["link"] not in ("OK", "X")]
        facts.append(Fact("p2p_pairs_not_ok", len(bad), "nvidia-smi topo -p2p", "pairs"))
    return facts


def _bounded(lines: Sequence[NotUnderstood]) -> tuple[NotUnderstood, ...]:
    if len(lines) <= MAX_NOT_UNDERSTOOD:
        return tuple(lines)
    more = len(lines) - MAX_NOT_UNDERSTOOD
    return (*lines[:MAX_NOT_UNDERSTOOD], NotUnderstood(lines[MAX_NOT_UNDERSTOOD].where, "", f"and {more} more lines from here"))
