"""How many ranks the data are divided over: the data-parallel size, which is the world size only without model parallelism.

Ranks of one model-parallel group must see the same data. Taking the world size for the data-parallel size there would call a
correct run unsplit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from diag_kit.calculate.inputs import Known, calculated, ids_of, known, number_of, text_fact, tidy
from diag_kit.evidence import Evidence

SHARED_DATA = ("tensor", "pipeline", "context", "sequence")
"""Kinds of parallelism whose ranks share samples. Expert parallelism divides the data and is not among them."""
ALIKE = 0.9
"""Share of the fullest GPU's memory that each other one must hold: ranks of one training hold the same parameters (ours)."""
SPAWNED_AT = "on one host, "
"""How a world size begins its source where the script's own spawning gave it: several hosts would multiply it."""
_LONG = re.compile(
    r"(?:^|[\s.\-+'\"])(?:ulysses[-_])?(tensor|pipeline|context|sequence)(?:[-_]model)?[-_]parallel(?:[-_](?:size|degree))?"
    r"(?:\s*=\s*|\s+)(\d+)\b"
)
_SHORT = re.compile(r"(?:^|\s)--?(tp|pp|cp|sp)(?:[-_](?:size|degree))?(?:=|\s+)(\d+)\b")
_SHORT_NAMES = {"tp": "tensor", "pp": "pipeline", "cp": "context", "sp": "sequence"}


@dataclass(frozen=True, slots=True)
class DataParallel:
    """``size`` ranks divide the data, of ``world_size``; ``doubt`` says why that is not sure."""

    size: int | None
    world_size: Known
    source: str
    doubt: str = ""

    @property
    def model_parallel(self) -> bool:
        return self.size is not None and self.world_size.value is not None and self.size < self.world_size.value


def world_size(evidence: Evidence, by_hand: float | None = None) -> Known:
    """Ranks of the job: by hand, told or stated, else seen running, else those that said they had started, that print, or that
    the script spawns."""
    for name in ("world_size", "ranks_running"):
        found = known(evidence, name, by_hand)
        if found.value is not None:
            return Known("world_size", found.value, found.source, found.ids, "ranks", found.conflict)
    sourced = evidence.sourced_table("ranks")
    if sourced is not None:
        return Known("world_size", float(len(sourced[0])), "rank processes seen", (sourced[1],), "ranks")
    started = known(evidence, "started_ranks")
    if started.value is not None:
        return Known("world_size", started.value, started.source, started.ids, "ranks", started.conflict)
    printing = calculated(evidence, "printing_ranks")
    if printing is not None and (number_of(printing) or 0) > 1:  # silent ranks may come on top; one printer says nothing
        return Known("world_size", number_of(printing), "the ranks that print", ids_of(printing), "ranks")
    return _by_source(evidence) or Known("world_size", None, "", (), "ranks")


def _by_source(evidence: Evidence) -> Known | None:
    """The ranks that the script spawns: a number, or one for each GPU, of which those in use are counted.

    Only GPUs that hold about the same memory, as ranks of one training do: others may be in use by somebody else's job.
    """
    stated = evidence.fact("ranks_by_source")
    if stated is None:
        return None
    if isinstance(stated.fact.value, int):
        return Known("world_size", float(stated.fact.value), f"{SPAWNED_AT}{stated.fact.source}", (stated.id,), "ranks")
    gpus, table = known(evidence, "gpus_in_use"), evidence.table("gpus")
    if gpus.value is None or gpus.value < 2 or table is None or not {"gpu", "memory_used_mib"} <= set(table.columns):
        return None
    held = table.groupby("gpu", observed=True)["memory_used_mib"].max().dropna().nlargest(int(gpus.value))
    if len(held) < gpus.value or held.min() < ALIKE * held.max():
        return None
    text = f"{SPAWNED_AT}{stated.fact.source}, and {tidy(gpus.value)} GPUs are in use with as much memory each"
    return Known("world_size", gpus.value, text, (stated.id, *gpus.ids), "ranks")


def data_parallel(evidence: Evidence, by_hand: float | None = None) -> DataParallel:
    """The data-parallel size: stated, or the world size divided by the parallelism found on the command line."""
    world = world_size(evidence, by_hand)
    stated = known(evidence, "data_parallel_size")
    if stated.value is not None:
        return DataParallel(int(stated.value), world, stated.source)
    if world.value is None or world.value < 1:
        return DataParallel(None, world, "", "the number of ranks is not known")
    groups = model_parallel_sizes(evidence)
    shared = 1
    for size in groups.values():
        shared *= size
    ranks = int(world.value)
    if shared == 1:
        return DataParallel(ranks, world, f"{world.source}; no model parallelism seen")
    if ranks % shared:
        return DataParallel(None, world, "", f"{ranks} ranks are no multiple of the model parallelism {groups}")
    named = " x ".join(f"{name} {size}" for name, size in groups.items() if size > 1)
    return DataParallel(ranks // shared, world, f"{ranks} ranks / {named}")


def model_parallel_sizes(evidence: Evidence) -> dict[str, int]:
    """Sizes by kind, from facts first, then from the command line; absent kinds are left out."""
    found: dict[str, int] = {}
    line = text_fact(evidence, "command_line")
    for kind, size in _LONG.findall(line):
        found[kind] = int(size)
    for kind, size in _SHORT.findall(line):
        found.setdefault(_SHORT_NAMES[kind], int(size))
    for kind in SHARED_DATA:
        fact = known(evidence, f"{kind}_parallel_size")
        if fact.value is not None and fact.value >= 1:
            found[kind] = int(tidy(fact.value) or 1)
    return {kind: size for kind, size in found.items() if size > 1}
