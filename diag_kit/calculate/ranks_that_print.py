"""How many ranks print: counted from what stands in the log, never taken from the world size on faith."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.inputs import ASSUMED, BY_HAND, Known, ids_of, known, parameters, sentences, text_fact
from diag_kit.calculate.metric_records import Records, train_records
from diag_kit.calculate.parallel import world_size
from diag_kit.calculate.statistics import (
    Multiplicity,
    burst_ratio,
    common_size,
    distinct_value_sizes,
    multiplicity,
)
from diag_kit.evidence import Evidence
from diag_kit.records import Assumption, Calculation

EVEN_SPACING = 0.4
"""Spread within a step over the distance of steps above which k lines of a step are not simultaneous (k ranks: near 0)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One way of counting: records per logged step, and the sentence that says so."""

    way: str
    count: int
    says: str


@dataclass(frozen=True, slots=True)
class Printers:
    """What the estimates add up to. ``lines``: metric records per logged step; ``ranks``: ranks behind them; None: not known."""

    lines: int | None
    ranks: int | None
    estimates: tuple[Estimate, ...]
    note: str


@calculator
@dataclass(frozen=True)
class PrintingRanks:
    """Ranks that print, from how often each step, each learning rate of a warm-up, or each rank tag occurs.

    Gives ``printing_ranks`` and ``lines_per_step`` (metric records per logged step; differs from it where a rank prints each
    record more than once). Value None where nothing tells: then later numbers take the world size as an assumption, say so, and
    their intervals cover one printing rank as well.
    """

    printing_ranks: int | None = None

    name: ClassVar[str] = "printing_ranks"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        records = train_records(evidence)
        world = world_size(evidence)
        if self.printing_ranks is not None:
            found = Printers(self.printing_ranks, self.printing_ranks, (), BY_HAND)
        else:
            found = count_printers(evidence, records, world)
        ids = tuple(dict.fromkeys([*((records.id,) if records is not None and records.id else ()), *ids_of(world)]))
        assumed = () if world.value is None else (world.assumption,)
        if self.printing_ranks is not None:
            assumed = (Assumption("printing_ranks", self.printing_ranks, BY_HAND, "ranks"),)
        made: dict[str, Any] = {"inputs": ids, "assumptions": assumed, "calculator": self.name, "parameters": parameters(self)}
        formula = "how often each step, each learning rate of the warm-up or each rank tag stands in the log"
        return (
            Calculation("printing_ranks", formula, found.ranks, "ranks", note=found.note, **made),
            Calculation("lines_per_step", "metric records per logged step", found.lines, "lines/step", note=found.note, **made),
        )


def count_printers(evidence: Evidence, records: Records | None, world: Known) -> Printers:
    """Weigh the estimates: agreement gives the count, a conflict or nothing gives None with the reason."""
    if records is None:
        return Printers(None, None, (), "no metric record was seen, so nothing can be counted")
    estimates = tuple(found for found in (_by_tags(records), _by_steps(records), _by_lr(records)) if found)
    notes = [each.says for each in estimates]
    if records.restarts:
        notes.append(f"the log holds {records.restarts + 1} runs; only the newest is counted")
    started = known(evidence, "started_ranks")
    filtered = text_fact(evidence, "rank_filter")
    if started.value:
        notes.append(f"{started.value:.0f} ranks say in this log that they started: no more than these can print")
    if filtered:
        notes.append(f"printing is filtered: {filtered}")
    counts = {each.count for each in estimates}
    if not estimates:
        notes.insert(0, _why_unknown(records))
        return Printers(None, None, (), sentences(*notes))
    if len(counts) > 1:
        notes.insert(0, "the ways of counting contradict each other, so the number is not known")
        return Printers(None, None, estimates, sentences(*notes))
    return _judge(records, world, started, estimates, notes)


def _judge(records: Records, world: Known, started: Known, estimates: tuple[Estimate, ...], notes: list[str]) -> Printers:
    lines = estimates[0].count
    ranks: int | None = lines
    size = int(world.value) if world.value else None
    tagged = any(each.way == "rank tags" for each in estimates)
    limit = min((int(value) for value in (world.value, started.value) if value), default=None)
    if lines > 1 and not tagged and _evenly_spaced(records):
        notes.insert(0, f"the {lines} records of a step come evenly spaced in time, like one rank's micro-batches")
        return Printers(lines, None if lines == size else 1, estimates, sentences(*notes))
    if limit is not None and lines > limit:
        if lines % limit == 0:
            ranks = limit
            notes.insert(0, f"{lines} records per step from {limit} ranks: each prints {lines // limit} a step")
        else:
            ranks = None
            notes.insert(0, f"{lines} records per step do not fit {limit} ranks")
    elif size and lines not in (1, size):
        notes.append(f"fewer than the {size} ranks of the job: the log may be that of one node")
    elif size and lines == size > 1:
        notes.append(f"all {size} ranks of the job print")
    if len(estimates) > 1:
        notes.append(f"{len(estimates)} ways of counting agree")
    return Printers(lines, ranks, estimates, sentences(*notes))


def _by_tags(records: Records) -> Estimate | None:
    """Distinct rank tags, where every record has one and all ranks print about equally often."""
    table = records.table
    if not records.has("rank") or table["rank"].isna().any():
        return None
    counts = table["rank"].value_counts()
    keys = records.step_keys()
    per_step = multiplicity(keys) if keys is not None and len(keys) == len(table) else None
    if len(counts) > 1 and counts.min() < 0.5 * counts.max() and counts.max() > 4:
        return None
    lines = per_step.count if per_step is not None else len(counts)
    return Estimate("rank tags", lines, f"{len(counts)} distinct rank tags over {len(table)} records")


def _by_steps(records: Records) -> Estimate | None:
    keys = records.step_keys()
    if keys is None:
        return None
    found = _per_file(records, keys)
    return None if found is None else Estimate("steps", found.count, _says("step number", found))


def _per_file(records: Records, keys: list[tuple[int, int]]) -> Multiplicity | None:
    """Over one file, or the sum over a family of files that cover the same steps (one log per rank)."""
    table = records.table
    if "file" not in table or table["file"].nunique() < 2 or len(keys) != len(table):
        return multiplicity(keys)
    names = table["file"].astype(str).tolist()
    shared = Counter(step for _, step in set(zip(names, keys, strict=True)))
    if np.median(list(shared.values())) < 2:  # parts of one log, one after the other
        return multiplicity(keys)
    return common_size(sorted(Counter(keys).values(), reverse=True)[: max(3, len(shared) - 3)])


def _by_lr(records: Records) -> Estimate | None:
    if not records.has("lr_text"):
        return None
    texts = [str(text) for text in records.table["lr_text"].dropna().tolist()]
    found = common_size(distinct_value_sizes(texts))
    return None if found is None else Estimate("learning rates", found.count, _says("learning rate", found))


def _says(what: str, found: Multiplicity) -> str:
    lines = "1 record" if found.count == 1 else f"{found.count} records"
    return f"each {what} stands in {lines} ({found.share:.0%} of {found.groups} complete groups)"


def _evenly_spaced(records: Records) -> bool:
    """Whether the lines of a step are spread over its time; False when the log has no time finer than a step."""
    if not records.has("t"):
        return False
    keys: list[object] = list(records.step_keys() or records.table.get("lr_text", records.table["line"]).tolist())
    if len(keys) != len(records):
        return False
    times = records.table["t"]
    if times.isna().any():
        return False
    groups: dict[object, list[float]] = {}
    for key, seconds in zip(keys, times.astype("int64").to_numpy() / 1e6, strict=True):
        groups.setdefault(key, []).append(float(seconds))
    ratio = burst_ratio(list(groups.values())[1:-2])
    return ratio is not None and ratio > EVEN_SPACING


def _why_unknown(records: Records) -> str:
    if len(records) < 8:
        return f"only {len(records)} metric records: too few to count how often each step occurs"
    if records.has("step"):
        return "the steps do not repeat in equal numbers"
    if records.has("lr_text") and records.table["lr_text"].nunique() <= 2:
        return "no step number, no rank tag, and a learning rate that does not change: nothing marks a step"
    return "no step number, no rank tag, and no learning rate that surely differs from step to step"


__all__ = ["ASSUMED", "Estimate", "Printers", "PrintingRanks", "count_printers"]
