"""The sentences for and against "each rank trains on the whole dataset": count, source, order, losses, tests."""

from __future__ import annotations

import numpy as np

from diag_kit.calculate.metric_records import train_records
from diag_kit.calculate.split_arithmetic import Split
from diag_kit.hypothesize.cards import reason, value
from diag_kit.hypothesize.sharding_case import ShardingCase
from diag_kit.records import Reason, Status


def reasons(case: ShardingCase, cause: str) -> tuple[list[Reason], list[Reason]]:
    """For and against "each rank trains on the whole dataset" in the way of ``cause``."""
    found, evidence = case.arithmetic, case.evidence
    good: list[Reason] = []
    bad: list[Reason] = []
    made = evidence.calculation("steps_per_epoch_if_split")
    side = {Split.NONE: good, Split.ONCE: bad, Split.TWICE: bad, Split.ONE_RANK: bad}.get(found.verdict)
    if side is not None:
        side.append(reason(found.reason, *found.ids, made))
    elif found.reason:
        bad.append(reason(f"counting cannot tell: {found.reason}", *found.ids))
    if found.verdict is Split.NONE and not found.sure:
        bad.append(reason(found.batch.why + "; of the whole job, this length would be a split run's", *found.batch.size.ids))
    if found.parallel is not None and found.parallel.world_size.conflict:
        bad.append(reason(f"two sources differ: {found.parallel.world_size.conflict}", *found.parallel.world_size.ids))
    if case.layout_doubt:
        bad.append(reason(case.layout_doubt))
    loader = evidence.fact("printed_length_is")
    if loader is not None and loader.fact.value == "len(loader)" and found.verdict is Split.NONE:
        good.append(reason(f"the printed length is the loader's ({loader.fact.source})", loader.id))
    printing = evidence.calculation("printing_ranks")
    printers = value(evidence, "printing_ranks")
    if printing is not None and printers and found.verdict is Split.NONE:
        good.append(reason(printing.note, printing))
    _add_source(case, good, bad)
    _add_order(case, cause, good, bad)
    _add_test(case, cause, good, bad)
    return good, bad


def _add_test(case: ShardingCase, cause: str, good: list[Reason], bad: list[Reason]) -> None:
    """The newest deciding test, on its side; one that decided nothing is no reason."""
    test = case.test_of(cause)
    if test is None or test.verdict not in (Status.CONFIRMED, Status.REFUTED):
        return
    here = test.cause == cause
    side = good if here and test.verdict is Status.CONFIRMED else bad
    side.insert(0, reason(f"tested: {test.reason}", test.id))
    if contradiction := case.contradiction(cause):
        bad.insert(0, reason(contradiction, *case.arithmetic.ids))


def _add_order(case: ShardingCase, cause: str, good: list[Reason], bad: list[Reason]) -> None:
    """What seeds and shuffling in the source say about the order: a hint, on the side of the one that it favours."""
    stated = case.evidence.fact("order_by_source")
    if stated is None or stated.fact.value not in ("same", "own"):
        return
    favours = (stated.fact.value == "same") == (cause == "data.same_order")
    (good if favours else bad).append(reason(f"by the source, {stated.fact.source}", stated.id))


def _add_source(case: ShardingCase, good: list[Reason], bad: list[Reason]) -> None:
    if not case.source_text:
        return
    if case.source == "none":
        good.append(reason(case.source_text, case.source_id))
    elif case.source:
        text = f"{case.source_text}; source text alone decides nothing"
        if case.arithmetic.verdict is Split.NONE and not case.arithmetic.seen:
            text += ": the printed length may be the dataset's"
        bad.append(reason(text, case.source_id))


def loss_hint(case: ShardingCase) -> tuple[str, bool] | None:
    """How often all ranks print the same loss at one step: a sentence, and whether it points to the same order.

    A hint with traps: equal where every rank prints a reduced value, or the digits are few, or the loss hardly depends on the
    data; different where a reduction leaves other ranks' values undefined, or by dropout. None where no
    step has two losses.
    """
    records = train_records(case.evidence)
    if records is None or not records.has("loss"):
        return None
    keys: list[object] = list(records.step_keys() or [])
    if not keys and records.has("lr_text"):
        keys = records.table["lr_text"].tolist()
    printers = value(case.evidence, "printing_ranks")
    if len(keys) != len(records) or not printers or printers < 2:
        return None
    groups: dict[object, list[float]] = {}
    for key, loss in zip(keys, records.table["loss"].astype("float64").tolist(), strict=True):
        groups.setdefault(key, []).append(loss)
    full = [group for group in groups.values() if len(group) == printers and np.isfinite(group).all()]
    if len(full) < 5:
        return None
    equal = float(np.mean([max(group) == min(group) for group in full]))
    if equal > 0.9:
        return f"hint: the ranks print equal losses at {equal:.0%} of {len(full)} steps (same order, or a reduced value)", True
    if equal < 0.1:
        return f"hint: the ranks print different losses at {1 - equal:.0%} of {len(full)} steps (traps: unreduced values)", False
    return None
