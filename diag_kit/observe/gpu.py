"""The GPUs over a few seconds: load, power, clocks and why they are held back, memory, processes, links."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.gpu_details import read_details
from diag_kit.observe.gpu_links import AFFINITY_COLUMNS, LINK_COLUMNS, Links, read_nvlink, read_topology
from diag_kit.observe.gpu_monitor import read_monitor
from diag_kit.observe.gpu_query import read_query
from diag_kit.observe.gpu_script import SCRIPT
from diag_kit.observe.gpu_series import series_facts, stopped_answering, summary
from diag_kit.observe.gpu_table import read_table
from diag_kit.observe.gpu_trouble import sentence_on_absence, sentence_on_failure
from diag_kit.observe.gpu_values import GPU_COLUMNS, INSTANCE_COLUMNS, PROCESS_COLUMNS, Seen
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, whole, why_cut_short
from diag_kit.records import CommandResult, Cost, NotUnderstood, Parsed

if TYPE_CHECKING:
    import pandas as pd


@dataclass(slots=True)
class _Gathered:
    """What several answers add up to."""

    gpus: list[dict[str, Any]] = field(default_factory=list)
    processes: list[dict[str, Any]] = field(default_factory=list)
    instances: list[dict[str, Any]] = field(default_factory=list)
    links: Links = field(default_factory=Links)
    nvlink: dict[int, float] = field(default_factory=dict)
    listed: int = 0
    driver: str | None = None
    cuda: str | None = None
    headers: int = 0
    not_understood: list[NotUnderstood] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, seen: Seen) -> None:
        self.gpus.extend(seen.gpus)
        self.processes.extend(seen.processes)
        self.headers += seen.headers
        self.instances.extend(seen.instances)
        self.driver, self.cuda = seen.driver or self.driver, seen.cuda or self.cuda
        self.not_understood.extend(seen.not_understood)
        self.problems.extend(seen.problems)

    def add_links(self, links: Links) -> None:
        self.links.pairs.extend(links.pairs)
        self.links.affinity.extend(links.affinity)
        self.not_understood.extend(links.not_understood)


@probe
@dataclass(frozen=True)
class Gpus:
    """Every GPU once each interval, through the host's own nvidia-smi; nothing on the host changes.

    Equivalent: ``nvidia-smi --query-gpu=timestamp,index,name,... --format=csv,nounits -lms 1000`` with the fields that
    ``nvidia-smi --help-query-gpu`` lists there, then ``--query-compute-apps``, ``topo -m`` and ``nvlink -s``.

    Tables: ``gpus`` (one row per GPU and sample; columns in ``gpu_values.GPU_COLUMNS``), where util_pct is the share of
    time in which any kernel ran (nvidia-smi man page), so that 100 does not mean busy, and ``reasons`` names what holds
    the clocks back ("" for nothing, see ``gpu_values.CLOCK_REASONS``; "idle" is no fault). What the driver does not tell
    ("N/A", "[Not Supported]", "ERR!", an implausible number) is missing and ``missing`` says why. ``*_us`` are counters:
    the difference of two rows is the time held back. ``gpu_processes`` (pid gpu gpu_uuid gi ci type name memory_used_mib),
    ``gpu_instances`` (MIG), ``gpu_links`` (gpu_a gpu_b link), ``gpu_affinity`` (gpu cpu_affinity numa_node).

    Facts: driver_version, cuda_version, gpu_count, gpu_name, gpus_in_use, gpu_util_pct, gpu_power_w, gpu_power_limit_w,
    gpu_power_fraction (means over the GPUs in use), gpu_power_cap_fraction and gpu_thermal_fraction (share of the window
    held back, worst GPU), nvlink ("present" or "none"), nvlink_gb_per_s (nominal, one direction, all links of one GPU).
    PCIe traffic is not seen, and the PCIe generation drops at idle: judge it under load.
    """

    seconds: float = 10.0
    interval_s: float = 1.0

    name: ClassVar[str] = "gpus"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "nvidia-smi --query-gpu=timestamp,index,name,utilization.gpu,memory.used,memory.total,power.draw,"
        "enforced.power.limit,clocks.sm,clocks.max.sm,clocks_event_reasons.active --format=csv,nounits -lms 1000"
    )
    reads: ClassVar[tuple[str, ...]] = (
        "nvidia_smi_csv",
        "nvidia_smi_table",
        "nvidia_smi_query",
        "nvidia_smi_dmon",
        "topo",
    )

    @property
    def budget_s(self) -> float:
        return max(1.0, self.seconds) + 20.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        step_ms = max(100, round(self.interval_s * 1000))
        count = max(1, round(self.seconds * 1000 / step_ms))
        limit = int(max(1.0, self.seconds)) + 8
        return (host.run(SCRIPT, str(count), str(step_ms), str(limit), timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        gathered = _Gathered()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "list") is not None or part(pieces, "absent") is not None:
                _add_own(gathered, result, pieces)
            else:
                _add_pasted(gathered, result.text, result.command)
                cut = why_cut_short(result)
                gathered.problems.extend([cut] if cut else [])
        gathered.problems.extend(stopped_answering(gathered.gpus, gathered.listed))
        return _parsed(gathered)


def _add_own(gathered: _Gathered, result: CommandResult, pieces: Sequence[tuple[str, str]]) -> None:
    absent, listed = part(pieces, "absent"), part(pieces, "list") or ""
    if absent is not None:
        gathered.problems.append(sentence_on_absence(result.host, absent))
        return
    status = whole(part(pieces, "list_status") or "")
    gathered.listed = len(re.findall(r"^GPU \d+: ", listed, re.M))
    for name, text in pieces:
        if name == "query":
            gathered.add(_without_invalid_fields(read_query(text)))
        elif name == "apps" and "No running" not in text:
            gathered.add(read_query(text, "nvidia-smi --query-compute-apps"))
        elif name == "topo":
            gathered.add_links(read_topology(text))
        elif name == "nvlink":
            gathered.nvlink |= read_nvlink(text)
    if not gathered.gpus:
        answer = listed if status != 0 else part(pieces, "query") or ""
        gathered.problems.append(sentence_on_failure(result, answer, status))
    elif cut := why_cut_short(result):
        gathered.problems.append(cut)


def _without_invalid_fields(seen: Seen) -> Seen:
    """The refusal of a field is followed by a second try with fewer fields: it is no loss."""
    seen.not_understood = [line for line in seen.not_understood if "not a valid field" not in line.text]
    return seen


def _add_pasted(gathered: _Gathered, text: str, where: str) -> None:
    if not text.strip():
        gathered.problems.append("the output of nvidia-smi is empty")
    elif "<nvidia_smi_log" in text or re.search(r"^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:\S+\s*$", text, re.M):
        gathered.add(read_details(text, where))
    elif re.search(r"NVIDIA-SMI\s+\d|^\|\s+\d+\s.*\|.*\|.*\|\s*$", text, re.M):
        gathered.add(read_table(text, where))
    elif re.search(r"^#\s*(Date\s+Time\s+)?gpu\s", text, re.M | re.I):
        gathered.add(read_monitor(text, where))
    elif re.search(r"^\W{0,6}(\[4m)?\s*GPU0\s", text, re.M):
        gathered.add_links(read_topology(text, where))
    elif re.search(r"^\s*Link \d+: ", text, re.M):
        gathered.nvlink |= read_nvlink(text)
    else:
        gathered.add(read_query(text, where))


def _parsed(gathered: _Gathered) -> Parsed:
    seen = (gathered.gpus, gathered.processes, gathered.links.pairs, gathered.links.affinity, gathered.nvlink, gathered.headers)
    if not any(seen):
        gathered.problems = gathered.problems or ["no line of nvidia-smi could be read"]
    series = frame(gathered.gpus, GPU_COLUMNS)
    by_uuid = {row["uuid"]: row["gpu"] for row in gathered.gpus if row.get("uuid")}
    for process in gathered.processes:
        if process.get("gpu") is None:
            process["gpu"] = by_uuid.get(process.get("gpu_uuid"))
    tables: dict[str, pd.DataFrame] = {
        "gpus": series,
        "gpu_processes": frame(gathered.processes, PROCESS_COLUMNS),
        "gpu_instances": frame(gathered.instances, INSTANCE_COLUMNS),
        "gpu_links": frame(gathered.links.pairs, LINK_COLUMNS),
        "gpu_affinity": frame(gathered.links.affinity, AFFINITY_COLUMNS),
    }
    computing = [process for process in gathered.processes if "C" in (process.get("type") or "C")]  # not the display server
    using = {process["gpu"] for process in computing if process.get("gpu") is not None}
    facts = series_facts(series, using, gathered)
    return Parsed(
        summary=summary(series, facts, gathered.problems),
        facts=facts,
        tables={name: table for name, table in tables.items() if len(table) or name in ("gpus", "gpu_processes")},
        not_understood=tuple(gathered.not_understood),
        problems=tuple(dict.fromkeys(gathered.problems)),
    )
