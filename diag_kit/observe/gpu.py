"""The GPUs over some seconds, as nvidia-smi shows them: power against its limit, clocks, memory, links, processes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.gpu_csv import GPU_COLUMNS, read_csv
from diag_kit.observe.gpu_links import LINK_COLUMNS, read_topology
from diag_kit.observe.gpu_table import read_table
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import frame, part, parts, show, why_cut_short
from diag_kit.records import CommandResult, Cost, Fact, NotUnderstood, Parsed

if TYPE_CHECKING:
    import pandas as pd

SCRIPT = r"""
seconds=$1; interval_ms=$2; wanted=$3
if ! command -v nvidia-smi >/dev/null 2>&1; then
    echo '==diag_kit:missing=='
    command -v rocm-smi amd-smi 2>/dev/null
    ls -d /proc/driver/nvidia /dev/nvidia0 /dev/kfd 2>/dev/null
    exit 0
fi
limit() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
valid=$(limit 15 nvidia-smi --help-query-gpu 2>/dev/null | sed -n 's/^"\([a-z_.0-9]*\)".*/\1/p; s/.* or "\([a-z_.0-9]*\)".*/\1/p')
fields=
for field in $wanted; do
    if [ -z "$valid" ] || printf '%s\n' "$valid" | grep -qx -e "$field"; then fields=$fields,$field; fi
done
echo '==diag_kit:gpus=='
limit "$((seconds + 1))" nvidia-smi --query-gpu="${fields#,}" --format=csv -lms "$interval_ms" 2>&1
echo '==diag_kit:processes=='
limit 15 nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory,process_name --format=csv 2>&1
echo '==diag_kit:topology=='
limit 15 nvidia-smi topo -m 2>&1
"""

FIELDS = (
    "timestamp index uuid name driver_version utilization.gpu utilization.memory memory.used memory.total power.draw "
    "enforced.power.limit power.limit temperature.gpu clocks.current.sm clocks.max.sm pcie.link.gen.current "
    "pcie.link.gen.max pcie.link.width.current pcie.link.width.max pstate clocks_event_reasons.active "
    "clocks_throttle_reasons.active"
)
PROCESS_COLUMNS = {"pid": "Int64", "gpu": "Int64", "used_mib": "Float64", "name": "string"}


@probe
@dataclass(frozen=True)
class Gpus:
    """Utilisation, power, clocks, memory and link of every GPU, about once each interval, with processes and topology.

    Equivalent: ``nvidia-smi --query-gpu=timestamp,index,... --format=csv -lms 1000``, ``nvidia-smi topo -m``. Utilisation is the
    share of time in which *any* kernel ran: 100 % does not mean busy (a rank that waits in a collective shows it too); power
    against its limit tells more.

    Tables: ``gpus`` (t gpu name util_pct memory_util_pct memory_used_mib memory_total_mib power_w power_limit_w sm_clock_mhz
    sm_clock_max_mhz temperature_c pcie_gen pcie_gen_max pcie_width pcie_width_max pstate reasons uuid; a value that the driver
    does not give is missing, never 0), ``gpu_processes`` (pid gpu used_mib name), ``gpu_links`` (gpu_a gpu_b link). Facts:
    driver_version, gpu_count, gpu_name, nvlink, gpu_power_fraction (mean of power / limit, 0-1).
    """

    seconds: float = 10.0
    interval_s: float = 1.0

    name: ClassVar[str] = "gpus"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = "nvidia-smi --query-gpu=index,utilization.gpu,power.draw,... --format=csv -lms 1000; nvidia-smi topo -m"
    reads: ClassVar[tuple[str, ...]] = ("nvidia_smi_csv", "nvidia_smi_table", "nvidia_smi", "topo")

    @property
    def budget_s(self) -> float:
        return self.seconds + 50.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        seconds, interval_ms = str(max(1, round(self.seconds))), str(max(200, round(self.interval_s * 1000)))
        return (host.run(SCRIPT, seconds, interval_ms, FIELDS, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        gathered = _Gathered([], [], [], [], [])
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "gpus") is None and part(pieces, "missing") is None:
                _add_pasted(gathered, result)
            else:
                _add_own(gathered, result, pieces)
            if cut := why_cut_short(result):
                gathered.problems.append(cut)
        return _parsed(gathered)


@dataclass(slots=True)
class _Gathered:
    gpus: list[dict[str, object]]
    processes: list[dict[str, object]]
    links: list[dict[str, object]]
    not_understood: list[NotUnderstood]
    problems: list[str]
    driver: str | None = None
    topology_seen: bool = False


def _add_own(gathered: _Gathered, result: CommandResult, pieces: list[tuple[str, str]]) -> None:
    missing = part(pieces, "missing")
    if missing is not None:
        other = "AMD's tools are there: this version reads NVIDIA GPUs only" if "rocm" in missing or "amd-smi" in missing else ""
        device = "an NVIDIA device is there: add the driver's folder to PATH of the SSH login" if "nvidia" in missing else ""
        why = other or device or "no NVIDIA driver is installed there, or the training runs in a container that has it"
        gathered.problems.append(f"no nvidia-smi on {result.host}: the GPUs stay blind; {why}")
        return
    text = part(pieces, "gpus") or ""
    read = read_csv(text)
    gathered.gpus += read.rows
    gathered.not_understood += read.not_understood
    gathered.driver = read.driver or gathered.driver
    if not read.rows:
        said = show(text) or "nothing"
        gathered.problems.append(f"nvidia-smi on {result.host} showed no GPU; it said: {said}")
    index = {row.get("uuid"): row.get("gpu") for row in read.rows}
    for row in read_csv(part(pieces, "processes") or "").processes:
        gathered.processes.append(row | {"gpu": index.get(row.get("uuid"))})
    _add_topology(gathered, part(pieces, "topology") or "")


def _add_pasted(gathered: _Gathered, result: CommandResult) -> None:
    text = result.text
    read = read_csv(text)
    if not read.rows:
        read = read_table(text)
    gathered.gpus += read.rows
    gathered.processes += read.processes
    gathered.not_understood += read.not_understood
    gathered.driver = read.driver or gathered.driver
    _add_topology(gathered, text)
    if not read.rows and not gathered.topology_seen:
        gathered.problems.append(f"no GPU could be read from {result.command}")


def _add_topology(gathered: _Gathered, text: str) -> None:
    links = read_topology(text)
    if links is not None:
        gathered.topology_seen = True
        gathered.links += links


def _parsed(gathered: _Gathered) -> Parsed:
    gpus = frame(gathered.gpus, GPU_COLUMNS)
    facts = _facts(gathered, gpus)
    named = {fact.name: fact.value for fact in facts}
    load = ""
    if gpus["power_w"].notna().any() and gpus["power_limit_w"].notna().any():
        load = f": {gpus['power_w'].mean():.0f} W of {gpus['power_limit_w'].mean():.0f} W"
    if gpus["util_pct"].notna().any():
        load += f", utilisation {gpus['util_pct'].mean():.0f} %"
    count = named.get("gpu_count")
    return Parsed(
        summary=f"{count} x {named.get('gpu_name', 'GPU')}{load}" if count else "no GPU seen",
        facts=facts,
        tables={
            "gpus": gpus,
            "gpu_processes": frame(gathered.processes, PROCESS_COLUMNS),
            "gpu_links": frame(gathered.links, LINK_COLUMNS),
        },
        not_understood=tuple(gathered.not_understood),
        problems=tuple(dict.fromkeys(gathered.problems)),
    )


def _facts(gathered: _Gathered, gpus: pd.DataFrame) -> tuple[Fact, ...]:
    facts: list[Fact] = []
    if gathered.driver:
        facts.append(Fact("driver_version", gathered.driver, "nvidia-smi"))
    if len(gpus):
        facts.append(Fact("gpu_count", int(gpus["gpu"].nunique()), "nvidia-smi"))
        names = gpus["name"].dropna()
        if len(names):
            facts.append(Fact("gpu_name", str(names.mode().iloc[0]), "nvidia-smi"))
        share = (gpus["power_w"] / gpus["power_limit_w"]).dropna()
        if len(share):
            facts.append(Fact("gpu_power_fraction", round(float(share.mean()), 4), "nvidia-smi, mean of power / limit"))
    if gathered.topology_seen and gathered.links:
        present = any(str(link["link"]).startswith("NV") for link in gathered.links)
        facts.append(Fact("nvlink", "present" if present else "none", "nvidia-smi topo -m"))
    return tuple(facts)
