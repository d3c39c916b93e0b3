"""A run as a plan of stages: how long it takes in all, which stage decides that, and what a faster machine or more GPUs win.

Stages wait for the stages that they need and for the resource that they use (one stage at a time on each resource). Hours are
wall-clock hours. Intervals are bounds, not statistics: every stage at its low end, and every stage at its high end.

The worked example is the founding plan: 10,000 samples need 5.4 h of inference, then 3.8 h of extraction, then 2.3 h of training.
Training is 20 % of it, so no training speed-up, however large, makes the whole more than 1.25 times as fast.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from diag_kit.errors import BadInput
from diag_kit.records import Interval


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a plan.

    ``hours``: on the machine as it is; ``interval``: its bounds, where known. ``after``: names of stages that must be done
    before. ``resource``: what it occupies alone ("gpu", "node1", ...); empty: nothing. ``serial_share``: the part of its time
    that more GPUs do not shorten (1: all of it; Amdahl, AFIPS 1967). ``per_sample``: whether it grows with the number of samples.
    """

    name: str
    hours: float
    after: tuple[str, ...] = ()
    resource: str = ""
    serial_share: float = 1.0
    per_sample: bool = True
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A stage in time: hours from the start of the plan. ``waits_for``: what it started right after; empty at the start."""

    stage: Stage
    start_h: float
    end_h: float
    waits_for: str
    critical: bool


@dataclass(frozen=True, slots=True)
class Option:
    """A change of the plan: hours in all, what it wins, and what it costs (in the currency that was given)."""

    name: str
    hours: float
    interval: Interval | None
    won_hours: float
    speed_up: float
    cost: float | None


FOUNDING_PLAN = (
    Stage("inference", 5.4, resource="gpu"),
    Stage("extraction", 3.8, ("inference",), "gpu"),
    Stage("training", 2.3, ("extraction",), "gpu"),
)
"""10,000 samples on one machine, one stage after the other (founding_case: the earlier planning questions)."""
FOUNDING_SAMPLES = 10_000


def place(stages: Sequence[Stage]) -> tuple[Placed, ...]:
    """Every stage as early as what it needs and its resource allow; stages of one resource in the order given.

    Raises BadInput for a name that occurs twice, a stage that nobody defines, a circle, or hours that are no duration.
    """
    _check(stages)
    ends: dict[str, tuple[float, str]] = {}
    free: dict[str, tuple[float, str]] = {}
    placed: list[tuple[Stage, float, str]] = []
    waiting = list(stages)
    while waiting:
        ready = next((stage for stage in waiting if all(name in ends for name in stage.after)), None)
        if ready is None:
            names = ", ".join(stage.name for stage in waiting)
            raise BadInput(f"these stages wait for one another: {names}", next_step="take one name out of an `after`")
        waiting.remove(ready)
        before = [ends[name] for name in ready.after] + ([free[ready.resource]] if ready.resource in free else [])
        start, waits_for = max(before, default=(0.0, ""))
        ends[ready.name] = (start + ready.hours, ready.name)
        if ready.resource:
            free[ready.resource] = ends[ready.name]
        placed.append((ready, start, waits_for))
    critical = _chain(placed)
    return tuple(Placed(s, start, start + s.hours, waits, s.name in critical) for s, start, waits in placed)


def _check(stages: Sequence[Stage]) -> None:
    names = [stage.name for stage in stages]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"two stages are called {twice[0]}", next_step="give each its own name")
    for stage in stages:
        if not 0 <= stage.hours < float("inf"):
            raise BadInput(f"{stage.name} takes {stage.hours} hours", next_step="give hours of zero or more")
        if not 0 <= stage.serial_share <= 1:
            raise BadInput(f"{stage.name}: a serial share of {stage.serial_share}", next_step="give a share from 0 to 1")
        if unknown := [name for name in stage.after if name not in names]:
            raise BadInput(f"{stage.name} needs {unknown[0]}, which is no stage", next_step=f"stages are {', '.join(names)}")


def _chain(placed: Iterable[tuple[Stage, float, str]]) -> set[str]:
    """The names on the critical path: back from the stage that ends last, by what each waited for."""
    waits = {stage.name: waits_for for stage, _, waits_for in placed}
    last = max(((start + stage.hours, stage.name) for stage, start, _ in placed), default=(0.0, ""))[1]
    chain: set[str] = set()
    while last:
        chain.add(last)
        last = waits[last]
    return chain


def hours_in_all(stages: Sequence[Stage]) -> float:
    """From the first start to the last end."""
    return max((each.end_h for each in place(stages)), default=0.0)


def bounds(stages: Sequence[Stage]) -> Interval | None:
    """Hours in all with every stage at its low and at its high end; None where no stage has an interval."""
    if not any(stage.interval for stage in stages):
        return None
    low = [dataclasses.replace(s, hours=s.interval.low if s.interval else s.hours) for s in stages]
    high = [dataclasses.replace(s, hours=s.interval.high if s.interval else s.hours) for s in stages]
    level = min(stage.interval.level for stage in stages if stage.interval)
    return Interval(hours_in_all(low), hours_in_all(high), level)


def for_samples(stages: Sequence[Stage], samples: float, planned_for: float) -> tuple[Stage, ...]:
    """The plan for another number of samples: stages that grow with the samples in proportion, the others unchanged."""
    if samples <= 0 or planned_for <= 0:
        raise BadInput(f"{samples} samples against {planned_for}", next_step="give counts above zero")
    factor = samples / planned_for
    return tuple(faster(stage, 1 / factor) if stage.per_sample else stage for stage in stages)


def faster(stage: Stage, factor: float) -> Stage:
    """The stage sped up ``factor`` times, its interval with it."""
    if factor <= 0:
        raise BadInput(f"{stage.name} made {factor} times as fast", next_step="give a factor above zero")
    span = stage.interval
    less = Interval(span.low / factor, span.high / factor, span.level) if span else None
    return dataclasses.replace(stage, hours=stage.hours / factor, interval=less)


def on_gpus(stage: Stage, gpus_now: int, gpus_then: int) -> Stage:
    """The stage on another number of GPUs: time = serial + parallel / GPUs (Amdahl).

    What the stage spends in communication does not shrink like that: count it to ``serial_share``, or measure.
    """
    if gpus_now < 1 or gpus_then < 1:
        raise BadInput(f"{gpus_now} GPUs now, {gpus_then} then", next_step="give whole numbers from 1")
    share = stage.serial_share + (1 - stage.serial_share) * gpus_now / gpus_then
    return faster(stage, 1 / share) if share > 0 else dataclasses.replace(stage, hours=0.0)


def ceiling(stages: Sequence[Stage], name: str) -> Option:
    """What is left of the plan if that stage took no time at all: no tuning of it can win more (Amdahl)."""
    if name not in {stage.name for stage in stages}:
        raise BadInput(f"there is no stage {name}", next_step=f"stages are {', '.join(s.name for s in stages)}")
    nothing = [dataclasses.replace(s, hours=0.0, interval=None) if s.name == name else s for s in stages]
    return compare(stages, f"{name} for nothing", nothing)


def compare(
    stages: Sequence[Stage], name: str, changed: Sequence[Stage], price_per_hour: float | None = None, extra_hours: float = 0.0
) -> Option:
    """A changed plan beside the plan. ``price_per_hour``: of the machine that runs it; ``extra_hours``: moving the data there,
    waiting in a queue, setting up."""
    now, then = hours_in_all(stages), hours_in_all(changed) + extra_hours
    span = bounds(changed)
    moved = Interval(span.low + extra_hours, span.high + extra_hours, span.level) if span else None
    cost = None if price_per_hour is None else price_per_hour * then
    return Option(name, then, moved, now - then, now / then if then > 0 else float("inf"), cost)


def with_changes(stages: Sequence[Stage], factors: Mapping[str, float]) -> tuple[Stage, ...]:
    """The plan with some stages sped up: ``{"training": 2}``."""
    if unknown := sorted(set(factors) - {stage.name for stage in stages}):
        raise BadInput(f"there is no stage {unknown[0]}", next_step=f"stages are {', '.join(s.name for s in stages)}")
    return tuple(faster(stage, factors[stage.name]) if stage.name in factors else stage for stage in stages)


def where_to_start(stages: Sequence[Stage]) -> tuple[Option, ...]:
    """The ceiling of every stage, the most worth-while first: what to look at before any tuning."""
    return tuple(sorted((ceiling(stages, stage.name) for stage in stages), key=lambda each: -each.won_hours))
