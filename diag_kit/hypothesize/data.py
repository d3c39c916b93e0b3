"""How the data are split over the ranks: not at all (own or same order), or twice."""

from __future__ import annotations

from diag_kit.calculate.inputs import text_fact
from diag_kit.calculate.split_arithmetic import Split
from diag_kit.evidence import Evidence
from diag_kit.hypothesize.cards import reason, value
from diag_kit.hypothesize.catalogue import cause
from diag_kit.hypothesize.sharding_case import (
    PAIR,
    ShardingCase,
    hours_if_split,
    numbers,
    second_fault,
    sharding_case,
    status_of,
)
from diag_kit.hypothesize.sharding_reasons import loss_hint, reasons
from diag_kit.records import HoursWon, Hypothesis, Reason, Status

NEXT = 'files open per rank, read-only: inv.verify("{cause}")'
SHARED_CLAIM = "each rank trains on the whole dataset (own or same order: undecided)"
SAME_CLAIM = "or each rank trains on the whole dataset in the same order (not told apart from data.dup_no_sampler)"
FIX = (
    "Split the loader by rank: torch's DistributedSampler, or a rank-aware batch sampler with num_replicas=world size and "
    "rank=global rank{library}. Traps: set_epoch must be called each epoch, or every epoch repeats one order{trainer}; the "
    "learning-rate schedule and its warm-up are built on the old length and shrink with it, and a resumed checkpoint continues "
    "on another curve; every rank needs equally many batches, uneven shards hang the collectives."
)
SPECULATORS = {
    "library": " (speculators: MultipackDistributedBatchSamplerV2)",
    "trainer": " (speculators' Trainer calls it only on batch_sampler)",
}
DOUBLE_FIX = (
    "Let one side split: a plain loader if the framework splits (accelerate, Lightning), or its splitting switched off. Epochs, "
    "schedule and run become N times longer: then they cover the data."
)


def _fix(evidence: Evidence) -> str:
    also = second_fault(evidence)
    speculators = text_fact(evidence, "framework") in ("", "speculators")  # not known: its traps are worth an example
    fix = FIX.format(**(SPECULATORS if speculators else dict.fromkeys(SPECULATORS, "")))
    return f"{fix} Not the whole answer: {also.text}." if also else fix


def _claim(case: ShardingCase, cause_id: str, status: Status) -> str:
    same = cause_id == "data.same_order"
    if status is Status.NOT_TESTABLE:
        return f"whether the ranks share out the data cannot be told: {case.arithmetic.reason}"
    if status is Status.CONFIRMED:
        order = "all in the same order at the same time" if same else "each in its own order"
        return f"each rank trains on the whole dataset, {order}"
    if status is Status.SUPPORTED:
        return SAME_CLAIM if same else SHARED_CLAIM
    if status is Status.UNDECIDED:
        return "whether the ranks share out the data is undecided"
    if case.arithmetic.verdict is Split.ONE_RANK:
        return "there is one data-parallel rank: nothing to split"
    if any(case.tested_as(other) is Status.CONFIRMED for other in PAIR):
        return f"the ranks do not share out the data, but not {'in the same order' if same else 'in orders of their own'}"
    return "the ranks do not read in the same order" if same else "the ranks do not each read the whole in an order of their own"


def _unsplit(evidence: Evidence, cause_id: str, title: str) -> Hypothesis:
    case = sharding_case(evidence)
    status = status_of(case, cause_id)
    good, bad = reasons(case, cause_id)
    hint = loss_hint(case)
    if hint is not None and status not in (Status.REFUTED, Status.CONFIRMED):
        points_here = hint[1] == (cause_id == "data.same_order")
        (good if points_here else bad).append(Reason(hint[0]))
    alive = status in (Status.CONFIRMED, Status.SUPPORTED, Status.UNDECIDED)
    also = second_fault(evidence)
    card_numbers = numbers(case)
    won = hours_if_split(evidence) if alive else None
    if won is not None and status is Status.UNDECIDED:
        won = HoursWon(0.0, won.high, f"nothing if the data are split already, else: {won.how}", won.total_hours)
    if not alive:
        card_numbers = {name: n for name, n in card_numbers.items() if not name.startswith("hours_won")}
    if also is not None and alive:
        good.append(Reason(f"beside it, and not repaired by a split: {also.text}", also.ids))
    return Hypothesis(
        cause=cause_id,
        title=title,
        claim=_claim(case, cause_id, status),
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(bad),
        numbers=card_numbers,
        hours_won=won,
        fix=_fix(evidence) if alive else "",
        next_probe=NEXT.format(cause=cause_id) if status in (Status.SUPPORTED, Status.UNDECIDED, Status.NOT_TESTABLE) else "",
    )


@cause("data.dup_no_sampler", "Every rank trains on the whole dataset")
def dup_no_sampler(evidence: Evidence) -> Hypothesis:
    """Each rank runs the whole dataset, in an order of its own: N times the steps, each sample seen N times an epoch.

    Signature: batches per epoch on one rank = samples / batch, not samples / (batch x ranks), and unchanged when the number of
    ranks changes (zdou0830/METER#30, facebookresearch/detr#257). GPUs busy, storage calm.

    Thresholds: none; the length must be exactly (to rounding) what no split predicts, with a batch
    that surely is a rank's. Confirmed only by files open per rank.

    Look-alikes: a printed length that is the dataset's (reading b); a batch size that is the whole job's (trap 16);
    model-parallel ranks, which must share data (trap 13); reading everything and keeping one in N (data.skip_shard); separate
    trainings (launch.independent_runs); seeded random windows (nanoGPT), where steps are the budget and no hours are won.

    Fails where several samples share a file and the length is not printed: then it stays undecided.

    Hours won: steps of the whole run x (1 - 1/N) at today's time per step, if epochs end the run; none if a step limit does.
    """
    return _unsplit(evidence, "data.dup_no_sampler", "Every rank trains on the whole dataset, in its own order")


@cause("data.same_order", "Every rank trains on the same samples at the same time")
def same_order(evidence: Evidence) -> Hypothesis:
    """Each rank runs the whole dataset in the same order: N GPUs do the work of one, the effective batch is that of one rank.

    Signature: as data.dup_no_sampler by counting; told from it only by what each rank reads at the same time (files
    open), by equal seeds in the script, or by per-rank losses at the same step (a hint with traps).
    ``torch.manual_seed(0)`` after the loader is built makes unsampled ranks shuffle alike.

    Thresholds: as data.dup_no_sampler; the order by the overlap test.

    Look-alikes: model-parallel ranks; a split by skipping; unsharded validation, where all ranks read the same files by design.

    Fails where nothing shows what each rank reads: then it shares its claim with data.dup_no_sampler.

    Hours won: as data.dup_no_sampler; besides, the learning rate assumed an effective batch N times larger.
    """
    return _unsplit(evidence, "data.same_order", "Every rank trains on the same samples at the same time")


@cause("data.double_shard", "The data are split twice")
def double_shard(evidence: Evidence) -> Hypothesis:
    """Splitting was done twice: each rank sees 1/N^2 of the data in an epoch, which is N times too short.

    Signature: batches per epoch on one rank = samples / (batch x N^2); loss looks normal, nobody warns (accelerate #3520,
    #4075; Lightning on files already divided per node, pytorch-lightning#13389).

    Thresholds: exactly (to rounding) the length that two splits predict.

    Look-alikes: packing, filters, a step limit, a global batch size given as a rank's.

    Fails where the length of an epoch is not known: files open per rank are disjoint in both cases.

    Hours won: none; an epoch covers 1/N of the data, so the run is too short, not too long.
    """
    case = sharding_case(evidence)
    found = case.arithmetic
    status = Status.NOT_TESTABLE
    if found.verdict is Split.TWICE:
        status = Status.SUPPORTED if found.sure or case.source == "twice" else Status.UNDECIDED
    elif found.verdict in (Split.ONCE, Split.NONE, Split.ONE_RANK):
        status = Status.REFUTED
    elif case.source == "twice":
        status = Status.UNDECIDED
    test = evidence.verification("data.double_shard")
    if test is not None and test.verdict in (Status.CONFIRMED, Status.REFUTED):
        status = test.verdict
    here = reason(found.reason, *found.ids)
    good = [here] if found.verdict is Split.TWICE else []
    bad = [] if found.verdict is Split.TWICE else [here]
    if case.source == "twice" and case.source_text:
        good.append(reason(case.source_text, case.source_id))
    if found.verdict is Split.TWICE and not found.sure:
        bad.append(reason(f"{found.batch.why}; of the whole job, this length would be one split", *found.batch.size.ids))
    if test is not None and test.verdict is status:
        (good if status is Status.CONFIRMED else bad).insert(0, reason(f"tested: {test.reason}", test.id))
    alive = status in (Status.CONFIRMED, Status.SUPPORTED, Status.UNDECIDED)
    twice = f"each rank sees 1/{(case.ranks or 0) ** 2} of the data in an epoch: split twice"
    claims = {
        Status.CONFIRMED: twice,
        Status.SUPPORTED: twice,
        Status.UNDECIDED: "the data may be split twice",
        Status.REFUTED: "the data are not split twice",
    }
    won = HoursWon(0.0, 0.0, "none: epochs are too short, not too long", value(evidence, "run_hours")) if alive else None
    return Hypothesis(
        cause="data.double_shard",
        title="The data are split twice: an epoch covers 1/N of them",
        claim=claims.get(status, f"cannot be told: {found.reason}"),
        status=status,
        evidence_for=tuple(good),
        evidence_against=tuple(bad),
        numbers={name: n for name, n in numbers(case).items() if not name.startswith("hours_won")},
        hours_won=won,
        fix=DOUBLE_FIX if alive else "",
        next_probe="the source that builds the loader: inv.observe(dk.observe.source_of_script())" if alive else "",
    )
