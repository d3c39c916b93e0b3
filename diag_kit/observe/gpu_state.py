"""The GPUs once, in full: error counters, remapped rows, MIG, NVLinks and their errors, which GPUs may reach each other."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.gpu_details import read_details
from diag_kit.observe.gpu_gather import Gathered
from diag_kit.observe.gpu_links import read_topology
from diag_kit.observe.gpu_list import read_mig
from diag_kit.observe.gpu_monitor import read_monitor
from diag_kit.observe.gpu_nvlink import read_nvlink
from diag_kit.observe.gpu_trouble import sentence_on_absence, sentence_on_failure
from diag_kit.observe.probe import probe
from diag_kit.observe.raw import part, parts, why_cut_short
from diag_kit.records import CommandResult, Cost, Parsed

SCRIPT = r"""
export LC_ALL=C TZ=UTC0
PATH=$PATH:/usr/lib/wsl/lib:/usr/local/nvidia/bin:/opt/nvidia/bin
bounded() { if command -v timeout >/dev/null 2>&1; then timeout "$@"; else shift; "$@"; fi; }
if ! command -v nvidia-smi >/dev/null 2>&1; then
    echo '==diag_kit:absent=='
    for tool in rocm-smi amd-smi xpu-smi hl-smi neuron-ls npu-smi; do
        command -v "$tool" >/dev/null 2>&1 && echo "tool $tool"
    done
    exit 0
fi
ask() { echo "==diag_kit:$1=="; shift; bounded 20 nvidia-smi "$@" 2>&1; }
ask details -q
ask topo topo -m
ask p2p topo -p2p r
ask nvlink nvlink -s
ask nvlink_errors nvlink -e
ask mig mig -lgi
ask pmon pmon -c 1
exit 0
"""


_OF_A_SERIES = (
    "gpus_in_use",
    "gpu_util_pct",
    "gpu_power_w",
    "gpu_power_limit_w",
    "gpu_power_fraction",
    "gpu_power_cap_fraction",
    "gpu_thermal_fraction",
)


@probe
@dataclass(frozen=True)
class GpuState:
    """What nvidia-smi tells of each GPU beside its load: health, links, MIG. Read-only; seven calls of at most 20 s.

    Equivalent: ``nvidia-smi -q; nvidia-smi topo -m; nvidia-smi topo -p2p r; nvidia-smi nvlink -s; nvidia-smi nvlink -e;
    nvidia-smi mig -lgi; nvidia-smi pmon -c 1``.

    Tables and facts as those of ``gpus``; here ``gpu_health``, ``nvlinks``, ``nvlink_fields``, ``gpu_p2p``, ``gpu_nics``,
    ``gpu_affinity``, ``gpu_instances``, ``gpu_process_samples`` have rows. The one sample is in ``gpu_state`` (columns of
    ``gpus``) and gives no mean: the series of the probe ``gpus`` says what a run does.
    """

    name: ClassVar[str] = "gpu_state"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = (
        "nvidia-smi -q; nvidia-smi topo -m; nvidia-smi nvlink -s; nvidia-smi nvlink -e; nvidia-smi pmon -c 1"
    )

    @property
    def budget_s(self) -> float:
        return 150.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return (host.run(SCRIPT, timeout_s=self.budget_s, stop=stop),)

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        gathered = Gathered()
        for result in results:
            _add(gathered, result)
            cut = why_cut_short(result)
            gathered.problems.extend([cut] if cut else [])
        parsed = gathered.parsed()
        tables = {"gpu_state" if name == "gpus" else name: table for name, table in parsed.tables.items()}
        return replace(parsed, tables=tables, facts=tuple(fact for fact in parsed.facts if fact.name not in _OF_A_SERIES))


def _add(gathered: Gathered, result: CommandResult) -> None:
    pieces = parts(result.text)
    absent = part(pieces, "absent")
    details = part(pieces, "details") or ""
    if absent is not None:
        gathered.problems.append(sentence_on_absence(result.host, absent))
        return
    if not re.search(r"^GPU [0-9A-Fa-f]{4,8}:", details, re.M):
        gathered.problems.append(sentence_on_failure(result, details, None))
        return
    gathered.add(read_details(details))
    readers: dict[str, Callable[[str], None]] = {
        "topo": lambda text: gathered.add_links(read_topology(text)),
        "p2p": lambda text: gathered.add_links(read_topology(text, "nvidia-smi topo -p2p r")),
        "nvlink": lambda text: gathered.add_nvlinks(read_nvlink(text, "nvidia-smi nvlink -s")),
        "nvlink_errors": lambda text: gathered.add_nvlinks(read_nvlink(text, "nvidia-smi nvlink -e")),
    }
    for name, read in readers.items():
        read(part(pieces, name) or "")
    mig = part(pieces, "mig") or ""
    if "GPU instances:" in mig:  # else: no MIG here, or not for this user, which is no problem of a run
        gathered.instances.extend(read_mig(mig).instances)
    gathered.samples.extend(read_monitor(part(pieces, "pmon") or "").samples)
