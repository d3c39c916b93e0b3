"""The GPUs over a few seconds: load, power, clocks and why they are held back, memory, processes, links."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.gpu_gather import Gathered
from diag_kit.observe.gpu_links import read_topology
from diag_kit.observe.gpu_nvlink import read_nvlink
from diag_kit.observe.gpu_query import read_query
from diag_kit.observe.gpu_script import SCRIPT
from diag_kit.observe.gpu_series import stopped_answering
from diag_kit.observe.gpu_trouble import sentence_of_failure, sentence_on_absence, sentence_on_failure
from diag_kit.observe.gpu_values import Seen
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import part, parts, whole, why_cut_short
from diag_kit.records import CommandResult, Cost, Parsed


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
    ``gpu_process_samples`` (pmon: t sample gpu pid type util_pct memory_util_pct memory_used_mib name), ``gpu_instances``
    (MIG: gpu gi ci dev memory_used_mib memory_total_mib sm ecc_uncorrected profile profile_id placement uuid),
    ``gpu_list`` (gpu name uuid bus_id: in place of ``gpus`` where nothing was measured), ``gpu_mig_profiles``
    (gpu profile profile_id free total memory_gib), ``gpu_links`` (gpu_a gpu_b link), ``gpu_p2p``
    (gpu_a gpu_b link), ``gpu_nics`` (gpu nic link), ``gpu_affinity`` (gpu cpu_affinity numa_node gpu_numa_id nearest_nics
    nearest_nic_link), ``nvlinks`` (gpu link state gb_per_s), ``nvlink_fields`` (gpu link field value unit), ``gpu_memory``
    (gpu memory_used_mib processes by_processes_mib unexplained_mib), ``gpu_clocks`` (gpu samples busy_samples sm_clock_mhz
    sm_clock_max_mhz pstate reasons), ``gpu_pcie`` (gpu pcie_gen pcie_gen_max pcie_width pcie_width_max under_load says),
    ``gpu_health`` (``gpu_health.HEALTH_COLUMNS``), ``gpu_fields`` (gpu field value: what was told and has no column).

    Facts: driver_version, cuda_version, gpu_count, gpu_name, gpus_in_use, gpu_util_pct, gpu_power_w, gpu_power_limit_w,
    gpu_power_fraction (means over the GPUs in use), gpu_power_cap_fraction and gpu_thermal_fraction (share of the window
    held back, worst GPU), nvlink ("present" or "none"), nvlink_gb_per_s (nominal, one direction, all links of one GPU),
    nvlink_inactive_links, nvlink_errors, gpu_pair_links, nvlinks_per_pair (fewest), nic_count, p2p_pairs_not_ok,
    gpu_memory_unexplained_mib (of the GPU where it is most), gpu_sm_clock_fraction and gpus_on_low_clocks (while busy),
    pcie_reduced_under_load, pcie_low_at_idle (no fault: judge a link under load), gpu_ecc_uncorrected, gpu_remap_pending,
    gpu_remap_failed, gpu_retire_pending, gpu_recovery_action. The source of each says which GPU.
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
        "nvidia_smi_nvlink",
        "nvidia_smi_list",
        "nvidia_smi_mig",
        "nvidia_smi_failed",
        "nvtop",
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
        gathered = Gathered()
        for result in results:
            pieces = parts(result.text)
            if part(pieces, "list") is not None or part(pieces, "absent") is not None:
                _add_own(gathered, result, pieces)
            else:
                _add_pasted(gathered, result)
        gathered.problems.extend(stopped_answering(gathered.gpus, gathered.listed))
        return gathered.parsed()


def _add_own(gathered: Gathered, result: CommandResult, pieces: Sequence[tuple[str, str]]) -> None:
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
            gathered.add_nvlinks(read_nvlink(text))
    if not gathered.gpus:
        answer = listed if status != 0 else part(pieces, "query") or ""
        gathered.problems.append(sentence_on_failure(result, answer, status))
    elif cut := why_cut_short(result):
        gathered.problems.append(cut)


def _without_invalid_fields(seen: Seen) -> Seen:
    """The refusal of a field is followed by a second try with fewer fields: it is no loss."""
    seen.not_understood = [line for line in seen.not_understood if "not a valid field" not in line.text]
    return seen


def _add_pasted(gathered: Gathered, result: CommandResult) -> None:
    failed = sentence_of_failure(result.text)
    if failed:
        gathered.problems.append(failed)
    else:
        gathered.add_text(result.text, result.command)
    cut = why_cut_short(result)
    gathered.problems.extend([cut] if cut else [])
