"""Lines per second, steps per second, samples per second: each with its window, its count and an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.calculate.batch_size import batch_size
from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.epoch_progress import log_every
from diag_kit.calculate.inputs import ASSUMED, BY_HAND, Known, ids_of, inverse, number_of, parameters, scaled, sentences
from diag_kit.calculate.log_clock import (
    Appended,
    Printed,
    Stamped,
    appended,
    printed_step_time,
    stamped,
)
from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.parallel import data_parallel, world_size
from diag_kit.calculate.split_arithmetic import split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval


@dataclass(frozen=True, slots=True)
class Rate:
    """Steps per second with interval, how it was got, and what to say beside it."""

    value: float | None
    interval: Interval | None
    formula: str
    note: str
    ids: tuple[str, ...] = ()


@calculator
@dataclass(frozen=True)
class StepRate:
    """Step rate from counted lines: (lines / lines per step) x steps per logged step / window.

    The count is known to one line of each printing rank at both ends of the window: 168 lines of 4 ranks in 30 s are 42 steps,
    40 to 44, so 1.33-1.47 steps/s. What varies beyond that widens the interval; with times in the log the block bootstrap of
    the step times and a stall process do. Gives log_lines_per_s, step_rate, step_time, samples_per_s.
    """

    printing_ranks: int | None = None
    log_every_steps: int | None = None
    lines: float | None = None
    window_s: float | None = None
    batch_size_per_rank: int | None = None

    name: ClassVar[str] = "step_rate"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        printers = self._lines_per_step(evidence)
        grown = self._appended(evidence, printers.value or 1.0)
        every = log_every(evidence, train_records(evidence), self.log_every_steps)
        rate = self._rate(evidence, printers, grown, every)
        stated = Assumption("log_every_steps", every, BY_HAND if self.log_every_steps else "the log", "steps")
        assumed = (printers.assumption, stated)
        made: dict[str, Any] = {"calculator": self.name, "parameters": parameters(self)}
        step_time = inverse(rate.interval)
        value = 1 / rate.value if rate.value else None
        return (
            self._lines_per_s(grown, printers),
            Calculation(
                "step_rate", rate.formula, rate.value, "steps/s", rate.ids, rate.interval, assumed, note=rate.note, **made
            ),
            Calculation("step_time", "1 / step rate", value, "s/step", rate.ids, step_time, assumed, note=rate.note, **made),
            self._samples(evidence, rate),
        )

    def _lines_per_step(self, evidence: Evidence) -> Known:
        """Counted, or by hand, or the world size as an assumption."""
        if self.printing_ranks is not None:
            return Known("printing_ranks", float(self.printing_ranks), BY_HAND, (), "ranks")
        counted = evidence.calculation("lines_per_step")
        lines = number_of(counted)
        if lines:
            source = BY_HAND if counted is not None and counted.note == BY_HAND else "counted in the log"
            return Known("printing_ranks", lines, source, ids_of(counted), "ranks")
        world = world_size(evidence)
        return Known("printing_ranks", world.value or 1.0, ASSUMED, world.ids, "ranks")

    def _appended(self, evidence: Evidence, lines_per_step: float) -> Appended | None:
        if self.lines is not None and self.window_s:
            return Appended(float(self.lines), float(self.window_s), (), True, "")
        return appended(evidence, lines_per_step)

    def _lines_per_s(self, grown: Appended | None, printers: Known) -> Calculation:
        made: dict[str, Any] = {"calculator": self.name, "parameters": parameters(self)}
        formula = "metric lines appended / seconds of the window"
        if grown is None:
            note = "the growth of the log was not watched"
            return Calculation("log_lines_per_s", formula, None, "lines/s", note=note, **made)
        interval = grown.per_s(printers.value or 1.0)
        note = sentences(f"{grown.count:.0f} lines in {grown.window_s:.1f} s", _burst_note(grown))
        return Calculation(
            "log_lines_per_s", formula, grown.count / grown.window_s, "lines/s", (grown.id,) if grown.id else (), interval,
            (printers.assumption,), note=note, **made,
        )  # fmt: skip

    def _rate(self, evidence: Evidence, printers: Known, grown: Appended | None, every: int) -> Rate:
        found = [
            each
            for each in (
                _from_stamps(stamped(evidence, every)) if self.lines is None else None,
                _from_growth(grown, printers, every),
            )
            if each is not None
        ]
        if not found:
            return _from_printed(printed_step_time(evidence), every) or Rate(None, None, _HOW, _why_none(evidence, grown))
        best = min(found, key=_relative_width)
        other = next((each for each in found if each is not best), None)
        if other is None or best.interval is None or other.interval is None:
            return best
        apart = best.interval.low > other.interval.high or other.interval.low > best.interval.high
        says = f"two clocks {'disagree' if apart else 'agree'}: {other.note} give {figure(other.value)} steps/s"
        ids = tuple(dict.fromkeys([*best.ids, *other.ids]))
        return Rate(best.value, best.interval, best.formula, sentences(best.note, says), ids)

    def _samples(self, evidence: Evidence, rate: Rate) -> Calculation:
        made: dict[str, Any] = {"calculator": self.name, "parameters": parameters(self)}
        parallel = data_parallel(evidence)
        batch = batch_size(evidence, parallel.size, self.batch_size_per_rank)
        size = batch.size
        arithmetic = split_arithmetic(evidence)
        if size.value is None and arithmetic.batch.size.value:
            size = arithmetic.batch.size
        ranks = parallel.size
        each = (size.value or 0) * (ranks or 0) * arithmetic.accumulation
        value = rate.value * each if rate.value and each else None
        note = "" if value else sentences("" if rate.value else "the step rate is not known", "" if size.value else batch.why)
        return Calculation(
            "samples_per_s", "step rate x data-parallel ranks x batch per rank x batches per step", value, "samples/s",
            tuple(dict.fromkeys([*rate.ids, *size.ids])), scaled(rate.interval, each) if value else None,
            (size.assumption, Assumption("data_parallel_ranks", ranks, parallel.source, "ranks")), note=note, **made,
        )  # fmt: skip


_HOW = "steps counted in the log / seconds of the window"


def _relative_width(rate: Rate) -> float:
    if rate.interval is None or not rate.value:
        return float("inf")
    return (rate.interval.high - rate.interval.low) / rate.value


def _burst_note(grown: Appended) -> str:
    if grown.bursty:
        return f"the lines came in bursts of up to {grown.largest:.0f}: buffered output, the ends of the window are not sharp"
    return "they came evenly, not in bursts" if len(grown.increments) >= 5 else ""


def _from_growth(grown: Appended | None, printers: Known, every: int) -> Rate | None:
    if grown is None or not printers.value or grown.count < 2 * printers.value:
        return None
    factor = every / printers.value
    value = grown.count / grown.window_s * factor
    interval = scaled(grown.per_s(printers.value), factor)
    says = f"{grown.count:.0f} lines of {printers.value:.0f} per step in {grown.window_s:.1f} s: {grown.count * factor:.0f} steps"
    if printers.assumed and interval is not None:
        interval = Interval(interval.low, interval.high * printers.value)
        says += f"; that {printers.value:.0f} ranks print is an assumption, the interval covers one as well"
    says = sentences(says, _burst_note(grown), _stall_note(0, grown.count * factor))
    formula = "lines appended / lines per step x steps per logged step / seconds"
    ids = tuple(dict.fromkeys([*((grown.id,) if grown.id else ()), *printers.ids]))
    return Rate(value, interval, formula, says, ids)


def _from_stamps(found: Stamped | None) -> Rate | None:
    if found is None or found.times.mean_s <= 0:
        return None
    interval = inverse(found.times.interval, found.every)
    says = f"{found.steps} steps in {found.window_s:.1f} s by the log's own times"
    says = sentences(says, _stall_note(found.times.stalls, found.steps))
    formula = "steps between the first and the last time in the log / seconds, start-up left out"
    return Rate(found.every / found.times.mean_s, interval, formula, says, (found.id,) if found.id else ())


def _from_printed(found: Printed | None, every: int) -> Rate | None:
    if found is None:
        return None
    says = f"mean of {found.steps} printed values of {found.column}; time outside the step is not in it"
    formula = f"1 / printed {found.column}"
    return Rate(1 / found.seconds, inverse(found.interval), formula, says, (found.id,) if found.id else ())


def _stall_note(stalls: int, steps: float) -> str:
    if stalls:
        return f"{stalls} stalls are in the mean"
    return f"no stall seen in {steps:.0f} steps: rarer ones (evaluation, checkpoints) are not in it and cannot be bounded"


def _why_none(evidence: Evidence, grown: Appended | None) -> str:
    if grown is not None:
        return f"{grown.count:.0f} lines in {grown.window_s:.0f} s are less than two steps: watch longer"
    return (
        "neither the growth of the log was watched nor does it print times; a rate from the start of the process would "
        "count the start-up as steps"
    )
