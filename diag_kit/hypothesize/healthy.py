"""Nothing is wrong: said only where enough was seen."""

from __future__ import annotations

from diag_kit.calculate.split_arithmetic import Split
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.hypothesize.cards import calculated_numbers, reason, value
from diag_kit.hypothesize.catalogue import all_causes, cause
from diag_kit.hypothesize.resources import POWER_BUSY, gpus
from diag_kit.hypothesize.sharding_case import PAIR, second_fault, sharding_case
from diag_kit.hypothesize.waits import loader_share
from diag_kit.records import HoursWon, Hypothesis, Reason, Status

MIN_STEPS = 30
"""Steps in the window of the rate: below, a steady rate is luck."""
MAX_WIDTH = 0.25
"""Width of the rate's interval over the rate from which it does not count as steady."""


@cause("healthy", "Nothing is wrong: the run is as fast as its parts allow", is_fault=False)
def healthy(evidence: Evidence) -> Hypothesis:
    """No fault was found, and what was seen would have shown the known ones.

    Signature: the data are split once (counted, or seen in open files), a steady rate, GPUs near their power limit or a
    loader that is hardly waited for, and no other cause supported.

    Thresholds (ours): interval of the rate narrower than 25 %, power at least 60 % of the limit, loader share below 5 %.

    Look-alikes: every fault that nobody looked for. So: undecided wherever split, rate or load were not seen, and refuted as
    soon as a fault is supported.

    Fails for a run that is slow from its start because of the model itself; nothing here says what it could reach.

    Hours won: none.
    """
    good: list[Reason] = []
    missing: list[Reason] = []
    faults = [
        found
        for known in all_causes().values()
        if known.is_fault
        for found in (known.rule(evidence),)
        if found.status in (Status.CONFIRMED, Status.SUPPORTED) and known.id != "acct.lines_times_ranks"
    ]
    _split(evidence, good, missing)
    _rate(evidence, good, missing)
    _load(evidence, good, missing)
    also = second_fault(evidence)
    if also is not None:
        missing.append(also)
    if faults:
        status = Status.REFUTED
        missing = [reason(f"{found.cause} is {found.status.value}: {found.claim}") for found in faults]
        claim = "something is wrong"
    elif missing:
        status, claim = Status.UNDECIDED, "no fault found, but too little was seen to call the run healthy"
    else:
        status, claim = Status.SUPPORTED, "no fault found, and the known ones would have shown"
    return Hypothesis(
        cause="healthy",
        title="Nothing is wrong: the run is as fast as its parts allow",
        claim=claim,
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(missing),
        numbers=calculated_numbers(evidence, ("step_rate", "run_hours", "samples_per_s", "printing_ranks", "steps_done")),
        hours_won=HoursWon(0.0, 0.0, "nothing to repair", value(evidence, "run_hours")) if status is Status.SUPPORTED else None,
    )


def _split(evidence: Evidence, good: list[Reason], missing: list[Reason]) -> None:
    case = sharding_case(evidence)
    found = case.arithmetic
    if found.verdict in (Split.ONCE, Split.ONE_RANK):
        good.append(reason(found.reason, *found.ids))
    elif case.tests and all(case.tested_as(each) is Status.REFUTED for each in PAIR):
        good.append(reason(case.tests[-1].reason, case.tests[-1].id))
    else:
        missing.append(reason(f"whether the data are split is open: {found.reason}", *found.ids))


def _rate(evidence: Evidence, good: list[Reason], missing: list[Reason]) -> None:
    made = evidence.calculation("step_rate")
    rate = value(evidence, "step_rate")
    if made is None or not rate or made.interval is None:
        missing.append(reason("the step rate is not known", made))
        return
    width = (made.interval.high - made.interval.low) / rate
    text = f"{figure(rate)} steps/s ({figure(made.interval.low)}-{figure(made.interval.high)})"
    if width > MAX_WIDTH:
        missing.append(reason(f"{text}: not known well enough to call it steady", made))
    else:
        good.append(reason(f"{text}, steady in the window", made))


def _load(evidence: Evidence, good: list[Reason], missing: list[Reason]) -> None:
    seen, share = gpus(evidence), loader_share(evidence)
    busy = seen is not None and seen.power_share is not None and seen.power_share >= POWER_BUSY
    if seen is not None and busy:
        good.append(reason(f"the GPUs are {seen.says}", seen.id))
    elif seen is not None:
        missing.append(reason(f"the GPUs are {seen.says}: not seen to be busy", seen.id))
    if share is not None:
        (good if share.innocent else missing).append(reason(share.says, share.id))
    if seen is None and share is None:
        missing.append(Reason("neither GPUs nor the loader's share of a step were seen"))
