"""Hours, GPU-hours and what was won: the ledger's own figures; only the factor "ranks" is applied here."""

from __future__ import annotations

from dataclasses import dataclass

from diag_kit.postmortem.document import Line, line
from diag_kit.postmortem.ledger import Finding, Ledger
from diag_kit.postmortem.wording import counted, hours_won, point_won, quantity, scaled
from diag_kit.records import Calculation, HoursWon, Hypothesis, Interval
from diag_kit.show.format import span

RANK_FACTS = ("ranks_running", "world_size", "started_ranks")
"""Facts that give the number of ranks, best first: seen running, then as configured, then as the log says."""

REALISED = "hours_realised"
"""The calculation (unit h), or the number in a verification, that holds the hours won as measured after the fix."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """How many ranks ran, where that is known from, what contradicts it, and what their hours are called."""

    count: int
    source: str
    others: tuple[tuple[str, int], ...] = ()
    unit: str = "GPU-hours"


def ranks_of(ledger: Ledger) -> Ranks | None:
    """The number of ranks, each taken as one GPU; None if nothing tells."""
    known: list[tuple[str, int, str]] = []
    for name in RANK_FACTS:
        sourced = ledger.evidence.fact(name)
        if sourced is not None and isinstance(sourced.fact.value, int | float) and sourced.fact.value >= 1:
            known.append((name, int(sourced.fact.value), sourced.id))
    printing = ledger.evidence.calculation("printing_ranks")
    if not known and printing is not None and isinstance(printing.value, int | float) and printing.value >= 1:
        known.append(("printing_ranks", int(printing.value), printing.id))
    if not known:
        return None
    first = known[0]
    differing = tuple((name, count) for name, count, _ in known[1:] if count != first[1])
    return Ranks(first[1], f"{first[0]}, {first[2]}", differing, "rank-hours" if _without_gpu(ledger) else "GPU-hours")


def _without_gpu(ledger: Ledger) -> bool:
    """True where GPUs were looked for and none was seen, neither by its driver nor with a rank."""
    ranks = ledger.evidence.table("ranks")
    with_rank = ranks is not None and "gpu" in ranks and bool(ranks["gpu"].notna().any())
    return ledger.evidence.observed("gpus") is not None and ledger.evidence.table("gpus") is None and not with_rank


def hours_line(value: float, interval: Interval | None, ranks: Ranks | None) -> Line:
    """``35.2 h (33.5-37.0) x 4 ranks = 141 GPU-hours (134-148)``."""
    hours = quantity(value, "h", interval) + ("" if interval else " (no interval)")
    if ranks is None:
        return line(hours, "; GPU-hours not known: nothing tells the number of ranks")
    all_ranks = quantity(value * ranks.count, ranks.unit, scaled(interval, ranks.count))
    return line(f"{hours} x {counted(ranks.count, 'rank')} = {all_ranks}")


def claimed_line(found: Hypothesis, ranks: Ranks | None) -> Line:
    """The hours won as the board writes them, and the same in GPU-hours."""
    won = found.hours_won
    if won is None:
        return line("not estimated")
    hours = hours_won(won, point_won(found))
    if ranks is None:
        return line(hours)
    return line(f"{hours}; {_over_ranks(won, point_won(found), ranks)}")


def _over_ranks(won: HoursWon, point: float | None, ranks: Ranks) -> str:
    factor = ranks.count
    if point is not None and won.low <= point <= won.high:
        return quantity(point * factor, ranks.unit, Interval(won.low * factor, won.high * factor))
    return f"{span(won.low * factor, won.high * factor)} {ranks.unit}"


def run_hours(ledger: Ledger) -> Calculation | None:
    """The projection of the whole run that stands."""
    found = ledger.evidence.calculation("run_hours")
    return found if found is not None and isinstance(found.value, int | float) else None


def realised(ledger: Ledger, finding: Finding) -> tuple[str, str] | None:
    """Hours won as measured after the fix, and the card's id; None until somebody measured."""
    measured = ledger.evidence.calculation(REALISED)
    if (
        measured is not None
        and isinstance(measured.value, int | float)
        and measured.parameters.get("cause", ledger.findings[0].hypothesis.cause) == finding.hypothesis.cause
    ):
        return quantity(float(measured.value), "h", measured.interval), measured.id
    for test in reversed(ledger.verifications):
        value = test.numbers.get(REALISED)
        if test.cause == finding.hypothesis.cause and isinstance(value, int | float) and not isinstance(value, bool):
            return quantity(float(value), "h"), test.id
    return None
