"""The order in which findings are told: by how far they are established, then by the hours that are surely won."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.catalogue import Cause, all_causes
from diag_kit.records import Hypothesis, Reason, Status

ORDER = (Status.CONFIRMED, Status.SUPPORTED, Status.UNDECIDED, Status.NOT_TESTABLE, Status.REFUTED)


def rank(hypotheses: Iterable[Hypothesis]) -> tuple[Hypothesis, ...]:
    """Best first: status, then hours won (lower bound, then upper), then faults of the machine before those of counting and
    "healthy", what the source hints at, and the id.

    Two neighbours of one open status and the same hours are a tie, and each says so in ``numbers["ties_with"]``.
    """
    return _mark_ties(sorted(hypotheses, key=_key))


def ranked(evidence: Evidence) -> tuple[Hypothesis, ...]:
    """Ask every rule of the catalogue, and rank the answers."""
    return rank(while_it_runs(each.rule(evidence), evidence) for each in all_causes().values())


def while_it_runs(found: Hypothesis, evidence: Evidence) -> Hypothesis:
    """After the training has ended, the next probe is not for now."""
    if not found.next_probe or evidence.fact("job_ended") is None:
        return found
    return replace(found, next_probe=f"not now, the training has ended; when it runs again: {found.next_probe}")


def _key(found: Hypothesis) -> tuple[int, float, float, int, bool, str]:
    won = found.hours_won
    low, high = (won.low, won.high) if won else (0.0, 0.0)
    hinted = found.cause == "data.same_order" and found.numbers.get("order_by_source") == "same"
    family = 2 if found.cause == "healthy" else 1 if found.cause.startswith("acct.") else 0
    return ORDER.index(found.status), -low, -high, family, not hinted, found.cause


def _hours(found: Hypothesis) -> tuple[float, float] | None:
    return (found.hours_won.low, found.hours_won.high) if found.hours_won else None


def _mark_ties(found: list[Hypothesis]) -> tuple[Hypothesis, ...]:
    marked = []
    for place, each in enumerate(found):
        numbers = {name: value for name, value in each.numbers.items() if name != "ties_with"}
        others = [
            other.cause
            for other in found[max(0, place - 1) : place + 2]
            if other is not each and other.status is each.status and _hours(other) == _hours(each) is not None
        ]
        if others and each.status in ORDER[:3]:
            numbers["ties_with"] = ", ".join(others)
        marked.append(replace(each, numbers=numbers))
    return tuple(marked)


def ask_rule(cause: Cause, evidence: Evidence) -> Hypothesis:
    """What the rule says; one that fails has judged nothing, says so, and never hides the others."""
    try:
        return while_it_runs(cause.rule(evidence), evidence)
    except Exception as error:
        why = f"diag_kit's own fault: the rule failed ({type(error).__name__}: {error})"
        return Hypothesis(cause.id, cause.title, why, Status.NOT_TESTABLE, evidence_against=(Reason(why),))
