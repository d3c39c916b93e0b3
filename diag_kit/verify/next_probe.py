"""What to look at next: which probe decides most between the causes that remain, for what cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from diag_kit.evidence import Evidence
from diag_kit.hypothesize.ranking import ranked
from diag_kit.progress import NextProbe
from diag_kit.records import Cost, Hypothesis, Status
from diag_kit.verify.decide import all_tests

RISK = {Cost.READ_ONLY: 1.0, Cost.CAREFUL: 5.0, Cost.STATE_CHANGING: 25.0}
"""Weight of a probe's cost beside its seconds."""
OPEN = {Status.SUPPORTED: 1.0, Status.UNDECIDED: 0.7, Status.NOT_TESTABLE: 0.3}
"""How much deciding a cause is worth, by how far it has come."""
START_S = 5.0
"""Seconds that any probe costs, so that instant ones do not outrank everything."""
WITHOUT_JOB = {"source_of_script"}
"""Probes that need no running training."""
OPENS_DECIDE = (
    "files that two ranks open at unrelated times: each has its own order (rules out a split and one order); all the same files "
    "at the same moments: one order (rules out a split and own orders); none although many were expected: the data are split and "
    "the printed length is the dataset's (rules out both)"
)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A probe and how much of the cause's doubt it is expected to remove (0..1)."""

    probe: NextProbe
    power: float


def next_probes(evidence: Evidence, findings: Iterable[Hypothesis] | None = None) -> tuple[NextProbe, ...]:
    """Best first: hours at stake x how open the cause is x power / (seconds x risk). One entry for each open cause and probe.

    ``findings``: the newest ranked hypotheses; computed from the evidence where not given. Once the training has ended, only what
    does not need it.
    """
    ended = evidence.fact("job_ended") is not None
    found = tuple(findings) if findings is not None else ranked(evidence)
    scored = [
        (_worth(hypothesis) * each.power / ((START_S + each.probe.budget_s) * RISK[each.probe.cost]), place, each.probe)
        for place, hypothesis in enumerate(found)
        if hypothesis.status in OPEN
        for each in _candidates(evidence, hypothesis)
        if not ended or each.probe.probe in WITHOUT_JOB or each.probe.cost is Cost.STATE_CHANGING or not each.probe.budget_s
    ]
    return tuple(probe for _, _, probe in sorted(scored, key=lambda each: (-each[0], each[1])))


def _worth(found: Hypothesis) -> float:
    """Hours that the cause could win at most, and something where they are not known."""
    hours = found.hours_won.high if found.hours_won is not None else 0.5
    return max(hours, 0.05) * OPEN[found.status]


def _candidates(evidence: Evidence, found: Hypothesis) -> Iterator[_Candidate]:
    cause = found.cause
    if cause in ("data.dup_no_sampler", "data.same_order"):
        yield from _opened_files(evidence, cause)
    if cause.startswith("data.") and evidence.observed("source_of_script") is None:
        what = "where the training loader is built and with which sampler; text alone decides nothing, it tells where to look"
        yield _Candidate(NextProbe(cause, "the script's loader", Cost.READ_ONLY, 5.0, what, "source_of_script"), 0.2)
    if cause == "comm.bound":
        yield from _communication(evidence)
    if cause == "input.too_few_workers":
        what = (
            "in the loader's queue: too few or slow workers; in a collective: another rank is late; in a kernel: not the loader"
        )
        yield _Candidate(NextProbe(cause, "where the ranks wait: py-spy dump", Cost.CAREFUL, 5.0, what), 0.8)
    if cause == "io.slow_storage":
        yield from _storage(evidence, found)
    if cause == "healthy" and evidence.table("gpus") is None:
        what = "power near the limit: busy; far below at 100 % utilisation: waiting"
        yield _Candidate(NextProbe(cause, "GPU power and utilisation", Cost.READ_ONLY, 10.0, what, "gpus"), 0.5)


def _opened_files(evidence: Evidence, cause: str) -> Iterator[_Candidate]:
    """The rungs of the deciding test; a rung that has been run is worth little more."""
    test = all_tests().get(cause)
    if test is None:
        return
    done = evidence.table("opens") is not None
    for probe in test.probes(evidence):
        plain = probe.cost is Cost.READ_ONLY
        power = (0.2 if done else 0.9) if plain else 0.9
        title = test.title if plain else f"{test.title}, traced"
        yield _Candidate(NextProbe(cause, title, probe.cost, probe.budget_s, OPENS_DECIDE), power)


def _communication(evidence: Evidence) -> Iterator[_Candidate]:
    cause = "comm.bound"
    if evidence.fact("parameters") is None:
        what = 'what a step sends: inv.tell("parameters", N) and inv.tell("trainable_parameters", N)'
        yield _Candidate(NextProbe(cause, "the number of parameters, told", Cost.READ_ONLY, 0.0, what), 0.3)
    what = "a bandwidth that makes sending most of the step: communication; one that makes it a few percent: not that"
    yield _Candidate(NextProbe(cause, "bandwidth between the GPUs", Cost.STATE_CHANGING, 60.0, what), 0.8)


def _storage(evidence: Evidence, found: Hypothesis) -> Iterator[_Candidate]:
    cause = found.cause
    if evidence.table("disk") is None:
        what = "busy and slow: storage; idle: not the local disks, in that window"
        yield _Candidate(NextProbe(cause, "local disks", Cost.READ_ONLY, 10.0, what, "iostat"), 0.6)
    if evidence.table("rank_io") is None:
        what = "hardly a byte from storage: the page cache answers; as many as asked for: the device must deliver them"
        yield _Candidate(NextProbe(cause, "bytes the ranks read, and from storage", Cost.READ_ONLY, 10.0, what, "rank_io"), 0.6)
