"""Which resources are innocent, guilty or blind in this window; innocent only where guilt would have shown."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.cards import ids, mean, value
from diag_kit.hypothesize.resources import POWER_BUSY, data_mount, disks, gpus
from diag_kit.hypothesize.storage import disk_sentence

if TYPE_CHECKING:
    import pandas as pd

INNOCENT, GUILTY, BLIND = "innocent", "guilty", "blind"
CPU_BUSY_PCT, CPU_STEAL_PCT = 90.0, 10.0
MEMORY_LEFT_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Resource:
    """One row: the resource, the verdict, the reason with its figures, what of it stays unseen, the cards behind it."""

    resource: str
    verdict: str
    reason: str
    blind: str = ""
    ids: tuple[str, ...] = ()


def resources(evidence: Evidence) -> tuple[Resource, ...]:
    """Local disks, network mounts, CPU, memory, GPU compute, NVLink, PCIe traffic."""
    return (
        _disks(evidence),
        _network_mounts(evidence),
        _cpu(evidence),
        _memory(evidence),
        _gpu_compute(evidence),
        _nvlink(evidence),
        Resource("PCIe traffic", BLIND, "no counter of bytes on the bus was read", "PCIe traffic"),
    )


def exoneration(evidence: Evidence) -> pd.DataFrame:
    """The rows of ``resources`` as a table: resource, verdict (innocent, guilty, blind, open), reason, blind, ids."""
    import pandas as pd

    rows = [
        {"resource": r.resource, "verdict": r.verdict, "reason": r.reason, "blind": r.blind, "ids": ", ".join(r.ids)}
        for r in resources(evidence)
    ]
    return pd.DataFrame(rows, columns=["resource", "verdict", "reason", "blind", "ids"])


def _disks(evidence: Evidence) -> Resource:
    seen = disks(evidence)
    if seen is None:
        return Resource("local disks", BLIND, "not watched in this window", "local disks")
    text = disk_sentence(seen, value(evidence, "read_gb_per_s_needed"), data_mount(evidence)[1])
    verdict = GUILTY if seen.guilty else INNOCENT if seen.idle else "open"
    need = evidence.calculation("read_gb_per_s_needed")
    return Resource("local disks", verdict, text, "other windows, network mounts", ids(seen.id, need))


def _network_mounts(evidence: Evidence) -> Resource:
    mount, network = data_mount(evidence)
    fact = evidence.fact("data_mount_type")
    if network is False:
        return Resource(
            "network mounts", INNOCENT, f"the data lie on {mount}, a local file system", "", ids(fact.id if fact else None)
        )
    if network:
        text = f"the data lie on {mount}: its server and network were not watched"
        return Resource("network mounts", BLIND, text, "the mount that holds the data", ids(fact.id if fact else None))
    return Resource("network mounts", BLIND, "where the data lie is not known; iostat sees local devices only", "network mounts")


def _cpu(evidence: Evidence) -> Resource:
    sourced = evidence.sourced_table("cpu")
    if sourced is None:
        return Resource("CPU", BLIND, "not watched in this window", "CPU")
    table, card = sourced
    idle, steal = mean(table, "idle_pct"), mean(table, "steal_pct") or 0.0
    iowait = mean(table, "iowait_pct") or 0.0
    if idle is None:
        return Resource("CPU", BLIND, "idle time was not read", "CPU", ids(card))
    busy = 100 - idle - iowait
    text = f"{busy:.0f} % busy over all cores, {steal:.2g} % stolen"
    guilty = busy >= CPU_BUSY_PCT or steal >= CPU_STEAL_PCT
    return Resource("CPU", GUILTY if guilty else INNOCENT, text, "one saturated core or quota", ids(card))


def _memory(evidence: Evidence) -> Resource:
    sourced = evidence.sourced_table("memory")
    if sourced is None:
        return Resource("memory", BLIND, "not read", "memory")
    row, card = sourced[0].head(1), sourced[1]  # pasted forms of free, top and sar lack some columns: missing is not 0
    total, free, swap = (mean(row, name) for name in ("total_bytes", "available_bytes", "swap_used_bytes"))
    if not total or free is None:
        return Resource("memory", BLIND, "total or available memory was not read", "memory", ids(card))
    share = free / total
    swapped = "swap not read" if swap is None else f"{swap / 1e9:.2g} GB of swap used"
    text = f"{share:.0%} of {total / 1e9:.0f} GB available, {swapped}"
    guilty = share < MEMORY_LEFT_SHARE
    return Resource("memory", GUILTY if guilty else INNOCENT, text, "limits of a container", ids(card))


def _gpu_compute(evidence: Evidence) -> Resource:
    seen = gpus(evidence)
    if seen is None:
        return Resource("GPU compute", BLIND, "no GPU was read", "GPU compute")
    share = seen.power_share
    if share is None:
        return Resource(
            "GPU compute",
            BLIND,
            f"{seen.says}: utilisation alone says only that some kernel ran",
            "tensor activity",
            ids(seen.id),
        )
    if share >= POWER_BUSY:
        return Resource("GPU compute", "busy", f"{seen.says}: near the limit", "tensor activity", ids(seen.id))
    text = f"{seen.says}: some kernel ran, but the GPUs are far from busy ({share:.0%} of the power limit)"
    return Resource("GPU compute", INNOCENT, text, "tensor activity", ids(seen.id))


def _nvlink(evidence: Evidence) -> Resource:
    fact = evidence.fact("nvlink_links")
    if fact is None:
        return Resource("NVLink", BLIND, "the links between the GPUs were not read", "NVLink")
    if not fact.fact.value:
        return Resource("NVLink", INNOCENT, f"none present ({fact.fact.source})", "", ids(fact.id))
    return Resource(
        "NVLink", BLIND, f"{fact.fact.value} links present; their traffic was not read", "NVLink traffic", ids(fact.id)
    )
