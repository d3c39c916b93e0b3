"""The deciding test for lines counted as steps: count how often each step stands in the log."""

from __future__ import annotations

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.accounting import lines_times_ranks
from diag_kit.observe.probe import Probe
from diag_kit.records import Status, Verification
from diag_kit.verify.decide import DecidingTest, deciding_test

CAUSE = "acct.lines_times_ranks"


def judge(evidence: Evidence) -> Verification:
    """Refuted where one rank prints. More ranks make the mistake possible; only somebody's number shows that it was made."""
    found = lines_times_ranks(evidence)
    made = evidence.calculation("printing_ranks")
    verdict = Status.CONFIRMED if found.status is Status.SUPPORTED else found.status
    reasons = [each.text for each in (*found.evidence_for, *found.evidence_against)]
    return Verification(
        cause=CAUSE,
        test="How often each step, warm-up learning rate or rank tag stands in the log",
        predicted={"several ranks print": "each step stands in as many lines", "one rank prints": "each step stands in one line"},
        measured=made.note if made is not None else "nothing was counted",
        verdict=verdict,
        reason="; ".join(reasons) or found.claim,
        inputs=(made.id,) if made is not None and made.id else (),
        numbers=dict(found.numbers),
        error_rates="counted in at least 90 % of at least 3 complete groups",
    )


def rungs(evidence: Evidence) -> tuple[Probe, ...]:
    """Nothing is run: the log's records have been read."""
    return ()


deciding_test(DecidingTest(CAUSE, "how often each step stands in the log", rungs, judge))
