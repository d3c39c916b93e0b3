"""What the machine's resources showed in the window: plain readings that several rules and the exoneration table share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from diag_kit.calculate.inputs import text_fact
from diag_kit.evidence import Evidence
from diag_kit.hypothesize.cards import mean

NETWORK_FILE_SYSTEMS = (
    "nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "ceph", "glusterfs", "fuse.", "9p", "virtiofs", "wekafs", "afs",
    "pvfs2",
)  # fmt: skip
DISK_WAIT_MS, DISK_UTIL_PCT, IOWAIT_PCT = 10.0, 80.0, 50.0
"""Guilty from here: AWS's MFU guide (await, %util) and SageMaker's IO rule (iowait). %util says
little on SSDs."""
IDLE_SHARE = 0.5
"""A disk counts as innocent below half of a guilty limit."""
POWER_BUSY = 0.6
"""Median power over limit from which GPUs count as busy; a rank that spins in a collective shows 100 % utilisation far below."""


@dataclass(frozen=True, slots=True)
class Disks:
    """Local disks in the window: summed reads and writes, worst wait and busy time, iowait. None where not seen."""

    read_mb_per_s: float
    wait_ms: float | None
    util_pct: float | None
    iowait_pct: float | None
    id: str

    @property
    def guilty(self) -> bool:
        slow = (self.wait_ms or 0) > DISK_WAIT_MS and (self.util_pct or 0) > DISK_UTIL_PCT
        return slow or (self.iowait_pct or 0) > IOWAIT_PCT

    @property
    def idle(self) -> bool:
        return (
            (self.util_pct or 0) < IDLE_SHARE * DISK_UTIL_PCT
            and ((self.wait_ms or 0) < DISK_WAIT_MS or (self.util_pct or 0) < 5)
            and (self.iowait_pct or 0) < 5
        )


def disks(evidence: Evidence) -> Disks | None:
    """From the newest disk table; partitions and logical devices repeat their disk's bytes and are left out."""
    sourced = evidence.sourced_table("disk")
    if sourced is None:
        return None
    table, card = sourced
    if "kind" in table and (table["kind"] == "disk").any():
        table = table[table["kind"] == "disk"]
    if "read_mb_per_s" not in table:
        return None
    per_device = table.groupby("device")[[c for c in ("read_mb_per_s", "wait_ms", "util_pct") if c in table]].mean()

    def worst(column: str) -> float | None:
        values = per_device[column].dropna().tolist() if column in per_device else []
        return float(max(values)) if values else None

    reads = float(per_device["read_mb_per_s"].astype("float64").sum())
    return Disks(reads, worst("wait_ms"), worst("util_pct"), mean(evidence.table("cpu"), "iowait_pct"), card)


@dataclass(frozen=True, slots=True)
class Gpus:
    """GPUs of the job in the window: median utilisation and power, and the power limit."""

    count: int
    util_pct: float | None
    power_w: float | None
    limit_w: float | None
    id: str

    @property
    def power_share(self) -> float | None:
        return self.power_w / self.limit_w if self.power_w and self.limit_w else None

    @property
    def says(self) -> str:
        util = f"{self.util_pct:.0f} % utilised" if self.util_pct is not None else "utilisation not known"
        if self.power_w is None:
            return f"{util}, power not known"
        limit = f" of {self.limit_w:.0f} W" if self.limit_w else ""
        return f"{util} at {self.power_w:.0f} W{limit}"


def gpus(evidence: Evidence) -> Gpus | None:
    """The GPUs that the ranks use, or all of them where that is not known."""
    sourced = evidence.sourced_table("gpus")
    if sourced is None:
        return None
    table, card = sourced
    ranks = evidence.table("ranks")
    if ranks is not None and "gpu" in ranks and ranks["gpu"].notna().any():
        used = {str(gpu) for gpu in ranks["gpu"].dropna()}
        mine = table[table["gpu"].astype(str).isin(used)]
        table = mine if len(mine) else table

    def median(column: str) -> float | None:
        values = table[column].dropna().tolist() if column in table else []
        return float(np.median(values)) if values else None

    return Gpus(int(table["gpu"].nunique()), median("util_pct"), median("power_w"), median("power_limit_w"), card)


def data_mount(evidence: Evidence) -> tuple[str, bool | None]:
    """The file system under the data, and whether it is a network one (None: not known)."""
    kind = text_fact(evidence, "data_mount_type").lower()
    if not kind:
        return "", None
    return kind, any(kind == name or (name.endswith(".") and kind.startswith(name)) for name in NETWORK_FILE_SYSTEMS)
