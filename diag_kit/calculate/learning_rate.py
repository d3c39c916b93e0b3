"""Where the learning-rate schedule of the log ends, and whether that is where the run ends.

A schedule that ends at 1/N of a run of N processes steps once per process (huggingface/accelerate#2926, #2318,
huggingface/diffusers#3954, Lightricks/LTX-Video-Trainer#67); one that ends N times too late was built on the loader's length
before the split. Nothing is said where the digits printed so far allow several ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.epoch_progress import log_every
from diag_kit.calculate.inputs import BY_HAND, Known, ids_of, known, number_of, parameters, scaled, sentences, tidy
from diag_kit.calculate.metric_records import Records, train_records
from diag_kit.calculate.parallel import world_size
from diag_kit.calculate.rival_readings import run_steps
from diag_kit.calculate.schedule_fit import Fit, Points, decimals_error, fits
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval

MIN_VALUES = 6
"""Distinct rates of a decay below which many curves pass through all of them."""
WIDEST = 1.25
"""High end / low end above which an end is not known well enough to be given as a number."""
NAMED_WITHIN = 0.02
"""How near a ratio must be to a named one; its interval must reach the named one too, and no other."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """``kind`` as far as the log shows it; ``end`` in optimizer steps with bounds; None with the reason in ``note``."""

    kind: str
    end: float | None
    interval: Interval | None
    note: str
    peak_step: float | None = None


def schedule(steps: Sequence[float], texts: Sequence[str], end_rate: float | None = None) -> Schedule:
    """The schedule behind printed learning rates; ``steps`` and ``texts`` side by side, in any order."""
    points = _points(steps, texts)
    if points is None:
        return Schedule(
            "not known", None, None, "different learning rates stand at one step: several groups, or ranks that disagree"
        )
    if len(points) < 3:
        return Schedule("not known", None, None, f"{len(points)} logged steps with a learning rate are too few")
    points = _run_starts(points)
    rates, errors = points.rates, points.errors
    if bool((rates + errors >= (rates - errors).max()).all()):
        return Schedule("constant so far", None, None, "the learning rate is constant so far: where it ends does not show")
    top = np.flatnonzero(rates >= rates.max() - errors / 2)
    first, last = int(top[0]), int(top[-1])
    if last == len(points) - 1:
        kind = "warming up" if last - first < 3 else "constant since the warm-up"
        return Schedule(kind, None, None, f"the learning rate has not fallen yet ({kind}): where it ends does not show")
    falling, note = _falling(points, last)
    if falling is None:
        return Schedule("cyclic", None, None, note)
    distinct = len(np.unique(falling.rates))
    if distinct < MIN_VALUES:
        return Schedule("falling", None, None, f"{distinct} distinct rates of the decay are too few to tell its form")
    return _fitted(points, falling, first, last, end_rate, note)


def _points(steps: Sequence[float], texts: Sequence[str]) -> Points | None:
    """One point per step; None where more than 5 % of the steps have rates that differ beyond the last digit."""
    kept = [(float(step), text.split()[0]) for step, text in zip(steps, texts, strict=True) if _is_rate(text)]
    if not kept:
        return Points(np.empty(0), np.empty(0), np.empty(0))
    at = np.array([step for step, _ in kept])
    values = np.array([float(text) for _, text in kept])
    errors = decimals_error([text for _, text in kept])
    places, where = np.unique(at, return_inverse=True)
    low, high = np.full(len(places), np.inf), np.full(len(places), -np.inf)
    widest = np.zeros(len(places))
    np.minimum.at(low, where, values)
    np.maximum.at(high, where, values)
    np.maximum.at(widest, where, errors)
    apart = high - low > 2 * widest
    if float(apart.mean()) > 0.05:
        return None
    return Points(places[~apart], ((low + high) / 2)[~apart], (widest + (high - low) / 2)[~apart])


def _is_rate(text: str) -> bool:
    try:
        return bool(text.strip()) and 0 <= float(text.split()[0]) < 1e3 and len(text.split()[0]) < 40
    except ValueError:
        return False


def _run_starts(points: Points) -> Points:
    """Of a staircase (a schedule that steps once per epoch) the first point of each tread; other curves as they are."""
    moved = np.abs(np.diff(points.rates)) > points.errors[1:] + points.errors[:-1]
    treads = np.flatnonzero(np.concatenate([[True], moved]))
    jumps = np.abs(np.diff(points.rates))[moved]
    if len(treads) < 3 or len(points) < 3 * len(treads) or float(np.median(jumps)) < 6 * float(np.median(points.errors)):
        return points
    return Points(points.steps[treads], points.rates[treads], points.errors[treads])


def _falling(points: Points, last: int) -> tuple[Points | None, str]:
    """The points after the last one at the top, up to where the rate rises again."""
    tail = points.part(last + 1, len(points))
    lowest = np.minimum.accumulate(tail.rates + tail.errors)
    up = np.flatnonzero(tail.rates - tail.errors > lowest)
    if not len(up):
        return tail, ""
    turn = int(up[0])
    if bool((np.diff(tail.rates[turn:]) < -2 * tail.errors[turn + 1 :]).any()):
        return None, "the learning rate falls and rises again more than once: a cycle, not one decay"
    if tail.rates[:turn].min() > 0.05 * points.rates.max():
        return None, f"the learning rate rises again at step {tail.steps[turn]:.0f} without having come near zero"
    note = f"it rises again at step {tail.steps[turn]:.0f}: a restart, or a schedule that runs on past its end"
    return tail.part(0, turn), note


def _fitted(points: Points, falling: Points, first: int, last: int, end_rate: float | None, note: str) -> Schedule:
    spacing = float(np.median(np.diff(points.steps)))
    begins = first > 0 or points.steps[0] <= 2 * spacing
    if begins:
        starts = _starts(points, first, last)
        found = fits(falling, starts, end_rate, points.part(first, last + 1))
    else:
        starts = [float(x) for x in np.linspace(0.0, points.steps[last], 25)]
        found = fits(falling, starts, end_rate, points.part(first, last + 1))
    if not found:
        return Schedule("not known", None, None, "the learning rate follows none of the known schedules")
    return _end(found, falling, float(points.steps[first]), note, end_rate)


def _starts(points: Points, first: int, last: int) -> list[float]:
    """Where the decay may have begun: around the first point at the top (warm-up, then decay) or the last one (plateau)."""
    before, after = points.steps[max(first - 1, 0)], points.steps[min(first + 1, len(points) - 1)]
    plateau, fallen = points.steps[last], points.steps[last + 1]
    edges = {
        float(before),
        float(points.steps[first]),
        float(after),
        float(plateau),
        float(fallen),
        0.0 if first == 0 else float(before),
    }
    return sorted(edges | {float(x) for x in np.linspace(before, fallen, 9)})


def _end(found: list[Fit], falling: Points, peak_step: float, note: str, end_rate: float | None) -> Schedule:
    kind = " or ".join(dict.fromkeys(each.family for each in found))
    endless = [each.family for each in found if each.end is None]
    if endless:
        why = f"the digits fit {kind}: where it ends does not show yet"
        return Schedule(kind, None, None, sentences(why, note), peak_step)
    low = min(each.low for each in found if each.low is not None)
    high = max(each.high for each in found if each.high is not None)
    if high > WIDEST * low:
        why = f"the digits fit {kind}, ending anywhere from step {low:.0f} to {high:.0f}"
        return Schedule(kind, None, None, sentences(why, note), peak_step)
    ends = [each.end for each in found if each.end is not None]
    floor = "" if end_rate is not None or kind == "cosine" else "if it falls to zero; with a floor it ends earlier"
    return Schedule(kind, float(np.mean(ends)), Interval(low, high), sentences(floor, note), peak_step)


def logged_schedule(evidence: Evidence, end_rate: float | None = None) -> tuple[Schedule, tuple[str, ...]]:
    """The schedule that the train records show, in optimizer steps on one rank."""
    records = train_records(evidence)
    if records is None or not records.has("lr"):
        return Schedule("not known", None, None, "the log prints no learning rate"), ()
    steps = _steps(evidence, records)
    if steps is None:
        return Schedule("not known", None, None, "the log prints no steps, and how many lines make one is not known"), (
            records.id,
        )
    kept = [(step, text) for step, text in zip(steps, _texts(records), strict=True) if np.isfinite(step)]
    return schedule([step for step, _ in kept], [text for _, text in kept], end_rate), (records.id,)


def _texts(records: Records) -> list[str]:
    table = records.table
    if "lr_text" in table and table["lr_text"].notna().any():
        return ["" if text != text or text is None else str(text) for text in table["lr_text"].astype(object).fillna("")]
    return ["" if value != value else repr(float(value)) for value in table["lr"].astype("float64")]


def _steps(evidence: Evidence, records: Records) -> list[float] | None:
    """The optimizer step of each record: as printed, else counted from lines per step. None where neither is sure."""
    if records.has("step") and not records.step_restarts_per_epoch:
        return [float(step) for step in records.table["step"].astype("float64")]
    lines = number_of(evidence.calculation("lines_per_step"))
    if not lines or not float(lines).is_integer() or records.restarts:
        return None
    every = log_every(evidence, records)
    return [float(place // int(lines) * every) for place in range(len(records))]


@calculator
@dataclass(frozen=True)
class LrSchedule:
    """``lr_schedule_end_step``: the step at which the schedule in the log ends; ``lr_end_over_planned``: that / planned steps.

    By hand: ``planned_steps``, ``end_rate`` (the learning rate at the end of the decay, for schedules with a floor).
    """

    planned_steps: float | None = None
    end_rate: float | None = None

    name: ClassVar[str] = "lr_schedule"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        found, ids = logged_schedule(evidence, self.end_rate)
        planned = run_steps(evidence, self.planned_steps)
        floor = Assumption(
            "end_rate", self.end_rate or 0.0, BY_HAND if self.end_rate is not None else "assumed; free for a cosine"
        )
        made: dict[str, Any] = {"calculator": self.name, "parameters": parameters(self)}
        end = Calculation(
            "lr_schedule_end_step", f"where every curve through the printed digits ends ({found.kind})", found.end, "steps", ids,
            found.interval, (floor,), note=sentences(found.kind if found.end else "", found.note), **made,
        )  # fmt: skip
        return end, self._ratio(evidence, found, planned, ids, (floor, planned.assumption), made)

    def _ratio(
        self,
        evidence: Evidence,
        found: Schedule,
        planned: Known,
        ids: tuple[str, ...],
        assumed: tuple[Assumption, ...],
        made: dict[str, Any],
    ) -> Calculation:
        formula = "lr_schedule_end_step / steps of the whole run"
        ids = tuple(dict.fromkeys([*ids, *planned.ids]))
        if found.end is None or not planned.value:
            note = sentences("" if found.end else found.note, "" if planned.value else "the number of steps is not known")
            return Calculation("lr_end_over_planned", formula, None, "", ids, assumptions=assumed, note=note, **made)
        ratio, interval = found.end / planned.value, scaled(found.interval, 1 / planned.value)
        world = world_size(evidence)
        pieces = known(evidence, "accumulation_steps")
        named = finding(ratio, interval, world.value, pieces.value, planned.value)
        ids = tuple(dict.fromkeys([*ids, *ids_of(world, pieces)]))
        says = sentences(named, planned.conflict, f"planned: {tidy(planned.value)} steps ({planned.source})")
        return Calculation("lr_end_over_planned", formula, ratio, "", ids, interval, assumed, note=says, **made)


def finding(ratio: float, interval: Interval | None, ranks: float | None, accumulation: float | None, planned: float) -> str:
    """What a ratio of the schedule's end to the planned steps means; every cause that gives the same ratio is named."""
    slack = max(NAMED_WITHIN, 2 / planned if planned else 0.0)
    named: list[tuple[float, str]] = [(1.0, "the schedule ends with the run")]
    for count, early, late in (
        (ranks, "the scheduler steps once per process", "the schedule was built on the loader's length before the split"),
        (accumulation, "the scheduler steps at every micro-batch", "the schedule counts micro-batches as optimizer steps"),
    ):
        if count and count > 1:
            named.append((1 / count, f"it ends at 1/{count:g} of the run: {early}, or it was built on 1/{count:g} of the steps"))
            named.append((float(count), f"it ends {count:g} times too late: {late}"))
    if ranks and accumulation and ranks > 1 and accumulation > 1:
        both = ranks * accumulation
        named.append((1 / both, f"it ends at 1/{both:g} of the run: once per process and micro-batch"))
    low, high = (interval.low, interval.high) if interval is not None else (ratio, ratio)
    near = [(value, says) for value, says in named if low * (1 - slack) <= value <= high * (1 + slack)]
    if len({round(value, 6) for value, _ in near}) == 1:
        return " or ".join(dict.fromkeys(says for _, says in near))
    what = "before the run does" if high < 1 - slack else "after the run does" if low > 1 + slack else "at a step not known well"
    return f"the schedule ends {what} (ratio {figure(low)}-{figure(high)}); no cause is named by that ratio"
