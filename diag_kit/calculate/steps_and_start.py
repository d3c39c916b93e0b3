"""Steps done so far, and the part of the time since the start of the process that was not spent stepping."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.epoch_progress import log_every
from diag_kit.calculate.inputs import BY_HAND, calculated, ids_of, known, number_of, parameters, sentences, text_fact
from diag_kit.calculate.metric_records import Records, train_records
from diag_kit.calculate.parallel import world_size
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval


@calculator
@dataclass(frozen=True)
class StepsDone:
    """Optimizer steps of this process (``steps_done``) and seconds from its start to the first step (``start_up_s``).

    Steps: the step counter where there is one, else metric records / lines per step x steps per logged step. Start-up: first
    time in the log minus process start; without times, time since the start minus steps done x step time.
    """

    printing_ranks: int | None = None
    log_every_steps: int | None = None
    records: int | None = None
    elapsed_s: float | None = None

    name: ClassVar[str] = "steps_done"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        steps = self._steps(evidence)
        return steps, self._start_up(evidence, steps)

    def _steps(self, evidence: Evidence) -> Calculation:
        records = train_records(evidence)
        counted = evidence.calculation("lines_per_step")
        lines = self.printing_ranks or number_of(counted)
        every = log_every(evidence, records, self.log_every_steps)
        count = self.records if self.records is not None else (len(records) if records is not None else None)
        ids = tuple(dict.fromkeys([*((records.id,) if records is not None and records.id else ()), *ids_of(counted)]))
        made: dict[str, Any] = {"inputs": ids, "calculator": self.name, "parameters": parameters(self)}
        if self.records is None and records is not None and (by_counter := _by_counter(records, every)) is not None:
            value, interval = by_counter
            formula = "last step in the log - first step + steps per logged step"
            return Calculation("steps_done", formula, value, "steps", interval=interval, **made)
        formula = "metric records / lines per step x steps per logged step"
        if count is None:
            return Calculation("steps_done", formula, None, "steps", note="no metric record was seen", **made)
        if not lines:
            world = world_size(evidence).value or 1
            note = f"{count} records are {count / world:.0f} steps if all {world:.0f} ranks print and {count} if one does"
            return Calculation("steps_done", formula, None, "steps", note=note, **made)
        whole, rest = divmod(count, int(lines))
        note = f"{count} records / {lines:.0f} per step" + (f"; {rest} belong to a step not yet printed by all" if rest else "")
        assumed = (Assumption("lines_per_step", int(lines), BY_HAND if self.printing_ranks else "counted in the log", "lines"),)
        interval = Interval(whole * every, (whole + bool(rest)) * every)
        return Calculation(
            "steps_done", formula, whole * every, "steps", interval=interval, assumptions=assumed, note=note, **made
        )  # fmt: skip

    def _start_up(self, evidence: Evidence, steps: Calculation) -> Calculation:
        started = _moment(text_fact(evidence, "job_started"))
        rate = calculated(evidence, "step_rate")
        fact = evidence.fact("job_started")
        ids = tuple(dict.fromkeys([*((fact.id,) if fact and fact.id else ()), *steps.inputs, *ids_of(rate)]))
        made: dict[str, Any] = {"inputs": ids, "calculator": self.name, "parameters": parameters(self)}
        records = train_records(evidence)
        if self.elapsed_s is None and started is not None and records is not None and not records.restarts:
            first = _first_time(records)
            if first is not None and timedelta() < first - started < timedelta(days=2):
                seconds = (first - started).total_seconds()
                formula = "time of the first metric record - start of the process"
                return Calculation("start_up_s", formula, seconds, "s", note="one step is in it", **made)
        return self._start_up_by_rate(evidence, steps, rate, started, made)

    def _start_up_by_rate(
        self, evidence: Evidence, steps: Calculation, rate: Calculation | None, started: datetime | None, made: dict[str, Any]
    ) -> Calculation:
        formula = "seconds since the start of the process - steps done / step rate"
        elapsed = self.elapsed_s if self.elapsed_s is not None else _elapsed_s(evidence, started)
        done, per_s = number_of(steps), number_of(rate)
        if elapsed is None or done is None or not per_s:
            missing = [
                word
                for word, value in (("the start of the process", elapsed), ("the steps done", done), ("the step rate", per_s))
                if not value
            ]
            note = f"not known: {', '.join(missing)}"
            return Calculation("start_up_s", formula, None, "s", note=note, **made)
        stepping = done / per_s
        value = elapsed - stepping
        if value < 0:
            note = "the clocks of log and process do not fit, or the rate was lower before"
            return Calculation("start_up_s", formula, None, "s", note=note, **made)
        interval = None
        if rate is not None and rate.interval is not None and rate.interval.low > 0:
            interval = Interval(max(0.0, elapsed - done / rate.interval.low), elapsed - done / rate.interval.high)
        note = sentences(
            f"{elapsed:.0f} s since the start, of which {stepping:.0f} s are {done:.0f} steps at {figure(per_s)} steps/s",
            f"steps / time since the start would be {figure(done / elapsed, 2)} steps/s: not the rate",
        )
        return Calculation("start_up_s", formula, value, "s", interval=interval, note=note, **made)


def _by_counter(records: Records, every: int) -> tuple[int, Interval] | None:
    """Steps of this process from the step counter; None without one."""
    keys = records.step_keys()
    if not keys:
        return None
    if records.step_restarts_per_epoch:
        tops: dict[int, int] = {}
        for epoch, step in keys:
            tops[epoch] = max(tops.get(epoch, 0), step)
        done = sum(top + every for top in tops.values())
        return done, Interval(max(0, done - every * len(tops)), done)
    steps = [step for _, step in keys]
    span = max(steps) - min(steps)
    return span + every, Interval(span, span + every)


def _first_time(records: Records) -> datetime | None:
    if not records.has("t"):
        return None
    first = records.table["t"].dropna().iloc[0]
    return datetime.fromtimestamp(first.timestamp(), UTC)


def _moment(iso: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(iso)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _elapsed_s(evidence: Evidence, started: datetime | None) -> float | None:
    """From the start of the process to the moment the metrics were read (the end of that command)."""
    told = known(evidence, "elapsed_s").value
    if told is not None:
        return told
    sourced = evidence.sourced_table("metrics")
    if started is None or sourced is None:
        return None
    seen = next((each for each in evidence.observations if each.id == sourced[1]), None)
    if seen is None or not seen.results:
        return None
    last = seen.results[-1]
    elapsed = (last.started + timedelta(seconds=last.duration_s) - started).total_seconds()
    return elapsed if elapsed > 0 else None
