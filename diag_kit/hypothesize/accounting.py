"""Mistakes in counting steps: what the log prints is not what was thought."""

from __future__ import annotations

from diag_kit.calculate.inputs import known
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.hypothesize.cards import calculated_numbers, reason, value
from diag_kit.hypothesize.catalogue import cause
from diag_kit.records import HoursWon, Hypothesis, Reason, Status


@cause("acct.lines_times_ranks", "Log lines are counted as steps although several ranks print")
def lines_times_ranks(evidence: Evidence) -> Hypothesis:
    """Several ranks print each step, so lines per second are N times the steps per second.

    Signature: each step, warm-up learning rate or rank tag stands in N lines. Whoever takes lines for steps
    expects the end N times too early.

    Thresholds: the multiplicity of at least 90 % of at least 3 complete groups.

    Look-alikes: micro-batches of one rank (evenly spaced in time), two handlers that print each record twice.

    Supported only if somebody did count so: a told ``steps_per_s`` or ``expected_hours`` that fits the lines and not the steps.
    Otherwise it is a trap to know about (undecided), and refuted where one rank prints.

    Hours won: none; it corrects every later estimate.
    """
    made = evidence.calculation("printing_ranks")
    printers, lines, steps = (value(evidence, name) for name in ("printing_ranks", "log_lines_per_s", "step_rate"))
    good: list[Reason] = []
    bad: list[Reason] = []
    numbers = calculated_numbers(evidence, ("printing_ranks", "log_lines_per_s", "step_rate", "run_hours"))
    if printers is None or made is None:
        status, claim = Status.NOT_TESTABLE, "how many ranks print is not known"
        bad.append(reason(made.note if made is not None else "no metric record was seen", made))
    elif printers <= 1:
        status, claim = Status.REFUTED, "one rank prints: a line is a step"
        bad.append(reason(made.note, made))
    else:
        status = Status.UNDECIDED
        claim = f"{printers:.0f} ranks print each step"
        if lines and steps:
            claim += f": {figure(lines)} lines/s are {figure(steps)} steps/s"
        good.append(reason(made.note, made))
        mistaken = _who_counted_lines(evidence, lines, steps)
        if mistaken is not None:
            status, claim = Status.SUPPORTED, f"lines were counted as steps: {claim}"
            good.append(mistaken)
        else:
            bad.append(Reason("nothing seen says that somebody counted lines as steps"))
    alive = status in (Status.SUPPORTED, Status.UNDECIDED)
    return Hypothesis(
        cause="acct.lines_times_ranks",
        title="Log lines are counted as steps although several ranks print",
        claim=claim,
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(bad),
        numbers=numbers,
        hours_won=HoursWon(0.0, 0.0, "none: it corrects the estimate", value(evidence, "run_hours")) if alive else None,
        fix="Count distinct steps, or print on rank 0 only." if alive else "",
    )


def _who_counted_lines(evidence: Evidence, lines: float | None, steps: float | None) -> Reason | None:
    """A stated rate or duration that fits lines taken for steps."""
    stated = known(evidence, "steps_per_s")
    if stated.value and lines and steps and abs(stated.value - lines) < 0.15 * lines and abs(stated.value - steps) > 0.3 * steps:
        return reason(f"{figure(stated.value)} steps/s is stated ({stated.source}): that is lines/s", *stated.ids)
    expected, run = known(evidence, "expected_hours"), value(evidence, "run_hours")
    if expected.value and run and lines and steps:
        by_lines = run * steps / lines
        if abs(expected.value - by_lines) < 0.15 * by_lines:
            return reason(f"{figure(expected.value)} h were expected ({expected.source}): lines taken for steps", *expected.ids)
    return None
