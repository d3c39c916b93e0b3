"""How long an epoch and the whole run take at the rate measured, and what one split of the data would make of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.calculate.batch_size import training_loaders
from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.inputs import (
    BY_HAND,
    Known,
    calculated,
    ids_of,
    inverse,
    known,
    number_of,
    parameters,
    scaled,
    sentences,
    tidy,
)
from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.rates import StepRate
from diag_kit.calculate.rival_readings import HOUR_S, run_steps
from diag_kit.calculate.split_arithmetic import Split, SplitArithmetic, split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval


@calculator
@dataclass(frozen=True)
class Projection:
    """``run_hours`` = steps of the whole run on one rank / step rate; ``epoch_hours`` and ``remaining_hours`` likewise.

    Set by hand to follow a doubt: ``total_steps``; ``printing_ranks`` (another rate from the same lines); ``split_by``: the
    printed length is the dataset's and is divided by so many ranks; ``step_rate``. Abstains where the source says that the
    loader is split while the printed length is the unsplit one: then the two readings stand side by side.
    """

    total_steps: float | None = None
    printing_ranks: int | None = None
    split_by: int | None = None
    step_rate: float | None = None

    name: ClassVar[str] = "projection"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        rate, interval, rate_ids, rate_note, rate_source = self._rate(evidence)
        arithmetic = split_arithmetic(evidence)
        steps = run_steps(evidence, self.total_steps)
        doubt = "" if self._by_hand else _doubt(evidence, arithmetic)
        steps, says = self._steps_of_one_rank(steps, arithmetic)
        assumed = (
            steps.assumption,
            Assumption("step_rate", rate, rate_source, "steps/s"),
            *((Assumption("split_by", self.split_by, BY_HAND, "ranks"),) if self.split_by else ()),
        )
        ids = tuple(dict.fromkeys([*steps.ids, *rate_ids]))
        made: dict[str, Any] = {"inputs": ids, "assumptions": assumed, "calculator": self.name, "parameters": parameters(self)}
        missing = sentences("" if steps.value else "the number of steps is not known", "" if rate else rate_note)
        per_epoch = steps.value / arithmetic.epochs if steps.value and arithmetic.epochs else None
        left = self._left(evidence, steps)
        parts = (
            ("run_hours", "steps of the run on one rank / step rate / 3600", steps.value, says),
            ("epoch_hours", "steps of an epoch on one rank / step rate / 3600", per_epoch, says),
            ("remaining_hours", "steps still to do / step rate / 3600", left, ""),
        )
        return tuple(
            _hours(
                name,
                formula,
                count,
                rate,
                interval,
                sentences(note, doubt or missing, rate_note if rate else ""),
                bool(doubt),
                made,
            )
            for name, formula, count, note in parts
        )

    @property
    def _by_hand(self) -> bool:
        return any(each is not None for each in (self.total_steps, self.printing_ranks, self.split_by, self.step_rate))

    def _rate(self, evidence: Evidence) -> tuple[float | None, Interval | None, tuple[str, ...], str, str]:
        if self.step_rate is not None:
            return self.step_rate, None, (), "", BY_HAND
        if self.printing_ranks is not None:
            again = next(c for c in StepRate(self.printing_ranks).compute(evidence) if c.name == "step_rate")
            return number_of(again), again.interval, again.inputs, again.note, f"{self.printing_ranks} ranks print, {BY_HAND}"
        made = evidence.calculation("step_rate")
        if made is None:
            return None, None, (), "the step rate is not known", ""
        return number_of(made), made.interval, ids_of(made), made.note, made.id or "step_rate"

    def _steps_of_one_rank(self, steps: Known, arithmetic: SplitArithmetic) -> tuple[Known, str]:
        """The printed count, or what the log's own epochs make of it."""
        if steps.value and self.split_by:
            value = float(math.ceil(steps.value / self.split_by))
            return Known("total_steps", value, f"{tidy(steps.value)} / {self.split_by}", steps.ids, "steps"), ""
        if self.total_steps is None and arithmetic.seen and arithmetic.epochs and arithmetic.length.value:
            value = float(math.ceil(arithmetic.length.value / arithmetic.accumulation) * arithmetic.epochs)
            if steps.value and abs(value - steps.value) > 0.02 * steps.value and arithmetic.by_epochs:
                says = f"{tidy(steps.value)} are printed, but {arithmetic.reason}"
                return Known("total_steps", value, arithmetic.length.source, arithmetic.ids, "steps"), says
        return steps, ""

    def _left(self, evidence: Evidence, steps: Known) -> float | None:
        """Steps still to do: from the step counter (which runs on after a resume) or from the steps done and a resume step."""
        if not steps.value:
            return None
        done = number_of(evidence.calculation("steps_done"))
        records = train_records(evidence)
        if records is not None and records.has("step") and not records.step_restarts_per_epoch:
            top = float(records.table["step"].max())
            resumed = known(evidence, "resume_step").value or 0.0
            done = max(top, top + resumed if top < resumed else top)
        elif done is not None:
            done += known(evidence, "resume_step").value or 0.0
        return None if done is None or done > steps.value else steps.value - done


def _hours(
    name: str,
    formula: str,
    count: float | None,
    rate: float | None,
    interval: Interval | None,
    note: str,
    abstain: bool,
    made: dict[str, Any],
) -> Calculation:
    if interval is not None and interval.low <= 0 and rate:
        abstain, note = True, sentences(f"the rate is only known to be below {figure(interval.high, 2)} steps/s", note)
    if count is None or not rate or abstain:
        return Calculation(name, formula, None, "h", note=note or "not known", **made)
    hours = count / rate / HOUR_S
    return Calculation(name, formula, hours, "h", interval=inverse(interval, count / HOUR_S), note=note, **made)


def source_says(evidence: Evidence) -> str:
    """How the script builds the training loader: "once", "none", "twice", or "" (not read, or cannot tell)."""
    stated = evidence.fact("split_by_source")
    if stated is not None:
        value = str(stated.fact.value)
        return value if value in ("once", "none", "twice") else ""
    loaders = evidence.table("dataloaders")
    if loaders is None or "verdict" not in loaders:
        return ""
    verdicts = set(training_loaders(loaders)["verdict"].dropna().astype(str))
    return {"split": "once", "not split": "none"}.get(verdicts.pop(), "") if len(verdicts) == 1 else ""


def _doubt(evidence: Evidence, arithmetic: SplitArithmetic) -> str:
    """Why the printed number of steps may not be one rank's."""
    if arithmetic.dataset_length and arithmetic.progress is not None and arithmetic.seen:
        return ""
    if arithmetic.dataset_length:
        return f"the printed length is the dataset's, not the loader's ({arithmetic.dataset_length}): see the readings"
    if arithmetic.verdict is Split.NONE and not arithmetic.seen and source_says(evidence) == "once":
        return "the source splits the loader, so the printed length may be the dataset's: see the readings"
    return ""


@calculator
@dataclass(frozen=True)
class IfSplit:
    """The same run with the data split once: steps per epoch = ceil(samples / (batch x ranks)), at the same time per step.

    Gives steps_per_epoch_if_split, run_hours_if_split, hours_won_if_split, effective_batch, effective_batch_if_split.
    Where a step limit ends the run, a split wins data coverage and no hours. More communication exposed by a split is not
    in it: the step time stays that of today.
    """

    data_parallel_ranks: int | None = None
    batch_size_per_rank: int | None = None
    train_samples: int | None = None

    name: ClassVar[str] = "if_split"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        arithmetic = split_arithmetic(evidence)
        ranks = self.data_parallel_ranks or arithmetic.ranks
        batch = self.batch_size_per_rank or arithmetic.batch.size.value
        samples = self.train_samples or arithmetic.samples.value
        steps = math.ceil(samples / (batch * ranks)) if samples and batch and ranks else None
        low = math.floor(samples / (batch * ranks)) if samples and batch and ranks else None
        assumed = (
            arithmetic.samples.assumption,
            Assumption(
                "batch_size_per_rank", tidy(batch), BY_HAND if self.batch_size_per_rank else arithmetic.batch.why, "samples"
            ),
            Assumption("data_parallel_ranks", ranks, arithmetic.parallel.source if arithmetic.parallel else "", "ranks"),
        )
        run, rate = calculated(evidence, "run_hours"), calculated(evidence, "step_rate")
        ids = tuple(dict.fromkeys([*arithmetic.ids, *ids_of(run, rate)]))
        made: dict[str, Any] = {"inputs": ids, "assumptions": assumed, "calculator": self.name, "parameters": parameters(self)}
        note = "" if steps else "samples, batch and ranks must be known for this"
        if steps and low != steps:
            note = f"{low} if the rest is dropped"
        per_epoch = Calculation(
            "steps_per_epoch_if_split", "ceil(samples / (batch x ranks))", steps, "steps", note=note, **made
        )  # fmt: skip
        return (per_epoch, *self._hours(arithmetic, steps, run, rate, made), *self._batches(arithmetic, ranks, batch, made))

    def _hours(
        self,
        arithmetic: SplitArithmetic,
        steps: int | None,
        run: Calculation | None,
        rate: Calculation | None,
        made: dict[str, Any],
    ) -> tuple[Calculation, Calculation]:
        how, won = "steps per epoch if split x epochs / step rate", "run_hours - run_hours_if_split"
        names = ("run_hours_if_split", how), ("hours_won_if_split", won)
        per_s, hours = number_of(rate), number_of(run)
        if not steps or not per_s or hours is None or not arithmetic.epochs:
            note = "steps, rate, epochs and the run's hours must be known for this"
            first, second = (Calculation(n, f, None, "h", note=note, **made) for n, f in names)
            return first, second
        optimizer_steps = math.ceil(steps / arithmetic.accumulation) * arithmetic.epochs
        note = ""
        if not arithmetic.by_epochs:
            optimizer_steps = hours * per_s * HOUR_S
            note = "a step limit ends this run, so a split wins data coverage, not hours"
        after = optimizer_steps / per_s / HOUR_S
        if after > hours:
            after = hours
        share = 1 - after / hours if hours else 0.0
        span = run.interval if run is not None else None
        return (
            Calculation(
                names[0][0], how, after, "h", interval=scaled(span, 1 - share),
                note=sentences(note, "at today's time per step"), **made,
            ),
            Calculation(names[1][0], won, hours - after, "h", interval=scaled(span, share), note=note, **made),
        )  # fmt: skip

    def _batches(
        self, arithmetic: SplitArithmetic, ranks: int | None, batch: float | None, made: dict[str, Any]
    ) -> tuple[Calculation, Calculation]:
        value = tidy(batch * ranks * arithmetic.accumulated) if batch and ranks else None
        note = ""
        if value and ranks and ranks > 1:
            note = (
                f"the same with and without a split; with the same order on all ranks only 1/{ranks} of it are distinct samples"
            )
        formula = "batch per rank x data-parallel ranks x accumulation"
        return (
            Calculation("effective_batch", formula, value, "samples", note=note, **made),
            Calculation("effective_batch_if_split", formula, value, "samples", note=note, **made),
        )
