"""The rival readings of one step count and one line rate, each with its own hours and with what would decide it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from diag_kit.calculate.calculator import calculator
from diag_kit.calculate.inputs import (
    Known,
    calculated,
    ids_of,
    inverse,
    known,
    number_of,
    parameters,
    sentences,
    tidy,
)
from diag_kit.calculate.log_clock import appended
from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.parallel import data_parallel
from diag_kit.calculate.split_arithmetic import Split, SplitArithmetic, split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Assumption, Calculation, Interval

HOUR_S = 3600.0


def run_steps(evidence: Evidence, by_hand: float | None = None) -> Known:
    """Optimizer steps of the whole run as printed, else length of an epoch x epochs / accumulation."""
    total = known(evidence, "total_steps", by_hand, unit="steps")
    if total.value:
        return total
    counted = split_arithmetic(evidence)
    if counted.length.value and counted.epochs:
        value = counted.length.value / counted.accumulation * counted.epochs
        source = f"{tidy(counted.length.value)} batches an epoch x {counted.epochs:g} epochs"
        return Known("total_steps", value, source, counted.ids, "steps")
    return total


@calculator
@dataclass(frozen=True)
class Readings:
    """What "T steps at R lines/s" can mean with N ranks: N x T / R hours or T / R hours, by who prints and whether T is split.

    ``reading_unsplit_hours``: N ranks print, the loader is not split. ``reading_split_hours``: N ranks print, the loader is
    split and the printed length is the dataset's. ``reading_one_printer_hours``: one rank prints, T steps each.
    ``reading_one_printer_split_hours``: one rank prints and the loader is split. ``reading_burst_hours``: the window caught a
    burst. Each note says what decides, and what has decided already.
    """

    total_steps: float | None = None
    world_size: int | None = None

    name: ClassVar[str] = "readings"

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]:
        parallel = data_parallel(evidence, self.world_size)
        steps = run_steps(evidence, self.total_steps)
        line_rate = calculated(evidence, "log_lines_per_s") or calculated(evidence, "step_rate")
        arithmetic = split_arithmetic(evidence)
        ranks = parallel.size
        if not steps.value or line_rate is None or not ranks:
            return self._unknown(steps, line_rate, ranks)
        counted = number_of(evidence.calculation("printing_ranks"))
        made = [
            self._reading(kind, evidence, steps, line_rate, ranks, arithmetic, counted)
            for kind in ("unsplit", "split", "one_printer", "one_printer_split")
            if ranks > 1 or kind == "one_printer"
        ]
        return (*made, self._burst(evidence, steps, line_rate))

    def _unknown(self, steps: Known, line_rate: Calculation | None, ranks: int | None) -> tuple[Calculation, ...]:
        missing = [
            word
            for word, there in (
                ("the number of steps", steps.value),
                ("the rate of the log", line_rate is not None),
                ("the number of ranks", ranks),
            )
            if not there
        ]
        names = ("unsplit", "split", "one_printer", "burst")
        note = f"not known: {', '.join(missing)}"
        return tuple(
            Calculation(f"reading_{name}_hours", "steps / step rate", None, "h", note=note, **self._made()) for name in names
        )

    def _made(self) -> dict[str, Any]:
        return {"calculator": self.name, "parameters": parameters(self)}

    def _reading(
        self,
        kind: str,
        evidence: Evidence,
        steps: Known,
        line_rate: Calculation,
        ranks: int,
        arithmetic: SplitArithmetic,
        counted: float | None,
    ) -> Calculation:
        total = float(steps.value or 0)
        printers = 1 if kind.startswith("one_printer") else ranks
        split = kind in ("split", "one_printer_split")
        count, formula = total, f"{tidy(total)} steps"
        note = ""
        if split:
            count, note = _split_steps(arithmetic, total, ranks)
            formula = f"{tidy(total)} steps / {ranks} ranks"
        per_line = self._lines_per_step(evidence, line_rate, printers)
        rate = float(line_rate.value or 0) / per_line
        interval, hours = line_rate.interval, count / rate / HOUR_S
        known_hours: float | None = hours
        if interval is not None and interval.low <= 0:
            known_hours, interval = None, None
            note = sentences(note, "the rate of the lines is only known to be below its upper end")
        elif interval is not None:
            interval = inverse(Interval(interval.low / per_line, interval.high / per_line), count / HOUR_S)
        seen = f"({figure(rate * per_line)} {line_rate.unit} / {tidy(per_line)})"
        note = sentences(note, _decides(kind, ranks, arithmetic, counted))
        assumed = (steps.assumption, Assumption("printing_ranks", printers, "this reading", "ranks"))
        return Calculation(
            f"reading_{kind}_hours", f"{formula} / {seen}", known_hours, "h",
            ids_of(steps, line_rate, evidence.calculation("printing_ranks")), interval, assumed, note=note, **self._made(),
        )  # fmt: skip

    def _lines_per_step(self, evidence: Evidence, line_rate: Calculation, printers: int) -> float:
        """Lines that one optimizer step leaves in the log, under this reading."""
        if line_rate.name == "step_rate":
            return 1.0
        from diag_kit.calculate.epoch_progress import log_every

        return printers / log_every(evidence, train_records(evidence))

    def _burst(self, evidence: Evidence, steps: Known, line_rate: Calculation) -> Calculation:
        made: dict[str, Any] = {**self._made(), "inputs": ids_of(steps, line_rate)}
        formula = "steps / step rate of the time between the bursts"
        grown = appended(evidence, number_of(evidence.calculation("lines_per_step")) or 1.0)
        if grown is None or len(grown.increments) < 5:
            note = "whether the window caught a burst of buffered lines is not known: watch the log second by second"
        elif grown.bursty:
            note = f"the lines came in bursts of up to {grown.largest:.0f}: watch many bursts before trusting the rate"
        else:
            busy = sum(each > 0 for each in grown.increments)
            note = f"ruled out for this window: lines came in {busy} of {len(grown.increments)} intervals, evenly"
        return Calculation("reading_burst_hours", formula, None, "h", note=note, **made)


def _split_steps(arithmetic: SplitArithmetic, total: float, ranks: int) -> tuple[float, str]:
    """Steps of the whole run on one rank if the loader is split, and when epoch 0 would then end."""
    if arithmetic.if_split and arithmetic.epochs and arithmetic.batch.size.value:
        per_epoch = arithmetic.if_split / arithmetic.accumulation
        low, high = arithmetic.if_split_floor, arithmetic.if_split
        ends = f"{high}" if low == high else f"{low} or {high}"
        return per_epoch * arithmetic.epochs, f"epoch 0 would end after {ends} batches on a rank"
    return total / ranks, f"1/{ranks} of the printed steps"


def _decides(kind: str, ranks: int, arithmetic: SplitArithmetic, counted: float | None) -> str:
    """What would tell this reading from its rivals, and whether something already has."""
    decided = []
    if counted is not None:
        one = kind.startswith("one_printer")
        if (counted == 1) == one:
            decided.append(f"who prints is counted: {counted:.0f}")
        else:
            decided.append(f"ruled out: {counted:.0f} of {ranks} ranks print")
    else:
        decided.append("decided by the number of ranks that print: how often each step or warm-up learning rate occurs")
    split = kind in ("split", "one_printer_split")
    if arithmetic.seen and arithmetic.verdict in (Split.NONE, Split.ONCE):
        wrong = split == (arithmetic.verdict is Split.NONE)
        decided.append(f"{'ruled out' if wrong else 'fits'}: {arithmetic.reason}")
    else:
        decided.append("decided by where epoch 0 ends, the source that prints the length, and the files open by each rank")
    return sentences(*decided)
