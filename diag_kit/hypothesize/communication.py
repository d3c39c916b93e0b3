"""Communication dominates the step."""

from __future__ import annotations

from diag_kit.calculate.inputs import known
from diag_kit.calculate.parallel import world_size
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.hypothesize.cards import calculated_numbers, reason, value
from diag_kit.hypothesize.catalogue import cause
from diag_kit.hypothesize.resources import POWER_BUSY, gpus
from diag_kit.hypothesize.sharding_case import second_fault
from diag_kit.records import HoursWon, Hypothesis, Reason, Status

SHARE_LIMITS = {"TensorBoard plugin": 0.10, "gpuprof": 0.20, "AWS MFU guide": 0.50}
"""Published shares of a step from which communication is too much."""
NAMES = (
    "comm_gb_per_step",
    "comm_s_per_step",
    "step_time",
    "step_rate",
    "run_hours",
    "run_hours_if_split",
    "speedup_over_one_gpu",
    "one_gpu_run_hours",
)


@cause("comm.bound", "Communication dominates the step")
def bound(evidence: Evidence) -> Hypothesis:
    """What the ranks exchange in a step takes a large part of it.

    Signature: bytes per step (FSDP: (N-1)/N x (2 x 2 bytes x parameters + 4 bytes x trainable ones)) over the link's
    bandwidth is a large share of the measured step; GPUs at 100 % utilisation and low power, since a rank that waits in a
    collective is "utilised".

    Thresholds: 10 % (TensorBoard plugin), 20 % (gpuprof), 50 % (AWS, which calls 25-40 % healthy). Refuted below 5 % with
    a stated bandwidth. Supported from 50 % of the step with a stated bandwidth and power below 60 % of the limit.

    Look-alikes: one late rank makes every collective long (hw.straggler); launch overhead; padding. The count takes every group
    gathered twice and every layer called once: count in a trace. Overlap hides communication, so the share is an upper bound.

    Fails where bandwidth or parameters are guessed: a factor 2 in bandwidth is a factor 2 here. Without them: undecided, or not
    testable here.

    Hours won: between 0 (all of it hidden behind compute) and the share of the run; after a split of the data, of what is left.
    """
    world = world_size(evidence)
    sent, seconds, step = (value(evidence, name) for name in ("comm_gb_per_step", "comm_s_per_step", "step_time"))
    comm = evidence.calculation("comm_s_per_step")
    link = known(evidence, "link_gb_per_s")
    good: list[Reason] = []
    bad: list[Reason] = []
    share = seconds / step if seconds and step else None
    if share is not None:
        text = f"{figure(seconds, 2)} s of sending in a step of {figure(step, 2)} s: {share:.0%} if nothing overlaps"
        text += f", at {figure(link.value)} GB/s"
        (good if share >= SHARE_LIMITS["TensorBoard plugin"] else bad).append(reason(text, comm, *link.ids))
    elif not sent:
        bad.append(Reason("the number of parameters is not known, so neither is what a step sends"))
    seen = gpus(evidence)
    low_power = seen is not None and seen.power_share is not None and seen.power_share < POWER_BUSY
    if seen is not None and low_power:
        good.append(reason(f"the GPUs are {seen.says}: utilised is not busy; waiting in collectives looks like that", seen.id))
    also = second_fault(evidence)
    if also is not None:
        good.append(also)
    status = _status(world.value, share, sent, low_power, also is not None)
    alive = status in (Status.SUPPORTED, Status.UNDECIDED)
    numbers = calculated_numbers(evidence, NAMES)
    if share is not None:
        numbers["comm_share_of_step"] = share
    return Hypothesis(
        cause="comm.bound",
        title="Communication dominates the step",
        claim=_claim(status, world.value, share, sent),
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(bad),
        numbers=numbers,
        hours_won=_hours(evidence, share) if alive else None,
        fix="Measure the link first. Then: bf16 reduction, no resharding after forward while memory is free, prefetch."
        if alive
        else "",
        next_probe="" if status is Status.REFUTED else "the bandwidth between the GPUs, measured (adds load: for you to run)",
    )


def _status(ranks: float | None, share: float | None, sent: float | None, low_power: bool, slow_step: bool) -> Status:
    if ranks == 1:
        return Status.REFUTED
    if share is not None and share < 0.05:
        return Status.REFUTED
    if share is not None and share >= SHARE_LIMITS["AWS MFU guide"] and low_power:
        return Status.SUPPORTED
    if share is not None or sent or (ranks and (low_power or slow_step)):
        return Status.UNDECIDED
    return Status.NOT_TESTABLE


def _claim(status: Status, ranks: float | None, share: float | None, sent: float | None) -> str:
    if ranks == 1:
        return "one rank sends nothing"
    if status is Status.REFUTED:
        return "communication is a small part of the step"
    if status is Status.NOT_TESTABLE:
        return "what a step sends, and how fast the link is, is not known"
    if share is None and sent:
        return f"communication may dominate the step: {figure(sent)} GB are sent in one; the link's bandwidth decides"
    if share is None:
        return "communication may dominate the step; needs what a step sends and a bandwidth"
    return f"communication takes up to {share:.0%} of the step"


def _hours(evidence: Evidence, share: float | None) -> HoursWon | None:
    run, split = value(evidence, "run_hours"), value(evidence, "run_hours_if_split")
    if run is None:
        return None
    if share is None:
        return None
    part = min(share, 1.0)
    how = "nothing if it is hidden behind compute, up to its share of the run if not"
    if split is not None and split < run:
        how += f"; after a split of the data 0-{part * split:.1f} h"
    return HoursWon(0.0, part * run, how, run)
