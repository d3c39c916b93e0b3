"""Everything known about how the data are split, gathered once for the three rules on it."""

from __future__ import annotations

from dataclasses import dataclass

from diag_kit.calculate.batch_size import training_loaders
from diag_kit.calculate.inputs import text_fact
from diag_kit.calculate.run_projection import source_says
from diag_kit.calculate.split_arithmetic import Split, SplitArithmetic, split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.hypothesize.cards import calculated_numbers, reason, value
from diag_kit.records import HoursWon, Reason, Status, Value, Verification

PAIR = ("data.dup_no_sampler", "data.same_order")
MODEL_PARALLEL_FRAMEWORKS = ("megatron", "nemo", "torchtitan", "verl", "nanotron", "colossalai", "neox")
"""Trainers in which ranks commonly share data by design: without the layout, equal data prove nothing."""
CARD_NUMBERS = (
    "train_samples",
    "batches_per_epoch",
    "world_size",
    "printing_ranks",
    "batch_size_per_rank",
    "epochs",
    "total_steps",
    "steps_done",
    "log_lines_per_s",
    "step_rate",
    "step_time",
    "samples_per_s",
    "start_up_s",
    "epoch_hours",
    "run_hours",
    "reading_unsplit_hours",
    "reading_split_hours",
    "reading_one_printer_hours",
    "steps_per_epoch_if_split",
    "run_hours_if_split",
    "hours_won_if_split",
    "effective_batch",
    "effective_batch_if_split",
    "read_gb_per_s_needed",
    "one_gpu_run_hours",
    "speedup_over_one_gpu",
)


@dataclass(frozen=True, slots=True)
class ShardingCase:
    """What arithmetic, source, the log's losses and deciding tests say about the split."""

    evidence: Evidence
    arithmetic: SplitArithmetic
    source: str
    source_text: str
    source_id: str
    tests: tuple[Verification, ...]
    live: bool
    layout_doubt: str

    @property
    def ranks(self) -> int | None:
        return self.arithmetic.ranks

    def tested_as(self, cause: str) -> Status | None:
        """What a deciding test says about ``cause``: confirmed, refuted, or None where none decided.

        A test of the sibling speaks too: own and same order exclude each other. A confirmation stands only beside a count
        that says the same: see ``contradiction``.
        """
        own = self._verdict(cause)
        if own is None:
            sibling = next(other for other in PAIR if other != cause)
            own = Status.REFUTED if self._verdict(sibling) is Status.CONFIRMED else None
        return None if own is Status.CONFIRMED and self.contradiction(cause) else own

    def contradiction(self, cause: str) -> str:
        """Why a confirmation by open files does not stand; empty where it does, or where there is none.

        From outside, three correct runs look unsplit: ranks that read everything and keep one in N, several samples in a file,
        and model-parallel ranks. Only the length of an epoch on one rank tells them from the fault.
        """
        if self._verdict(cause) is not Status.CONFIRMED:
            return ""
        if self.arithmetic.verdict is not Split.NONE:
            alike = "ranks that read all and keep one in N, files of several samples, or model-parallel ranks look alike"
            return f"the length of an epoch does not say so ({self.arithmetic.reason}): {alike}"
        if cause == "data.same_order" and self.layout_doubt:
            return self.layout_doubt
        return ""

    def sibling_refuted(self, cause: str) -> bool:
        """Whether a test has refuted the other one of the pair and none has decided this one: the data may be split after all."""
        sibling = next(other for other in PAIR if other != cause)
        return self._verdict(cause) is None and self._verdict(sibling) is Status.REFUTED

    def test_of(self, cause: str) -> Verification | None:
        """The newest deciding test of ``cause``, else of its sibling."""
        own = [each for each in self.tests if each.cause == cause]
        return own[-1] if own else (self.tests[-1] if self.tests else None)

    def _verdict(self, cause: str) -> Status | None:
        own = [each.verdict for each in self.tests if each.cause == cause]
        return own[-1] if own and own[-1] in (Status.CONFIRMED, Status.REFUTED) else None


def sharding_case(evidence: Evidence) -> ShardingCase:
    tests = tuple(each for each in evidence.verifications if each.cause in PAIR)
    arithmetic = split_arithmetic(evidence)
    text, card = _source_text(evidence)
    ranks = evidence.table("ranks")
    return ShardingCase(
        evidence=evidence,
        arithmetic=arithmetic,
        source=source_says(evidence),
        source_text=text,
        source_id=card,
        tests=tests,
        live=ranks is not None,
        layout_doubt=_layout_doubt(evidence, arithmetic),
    )


def _source_text(evidence: Evidence) -> tuple[str, str]:
    """``train.py:88 builds the DataLoader with no sampler`` and the card behind it."""
    sourced = evidence.sourced_table("dataloaders")
    if sourced is None:
        stated = evidence.fact("split_by_source")
        return ("", "") if stated is None else (f"{stated.fact.source}: split {stated.fact.value}", stated.id)
    rows, card = sourced
    train = training_loaders(rows)
    if not len(train):
        return "", card
    row = train.iloc[0]
    where = f"{str(row['file']).rsplit('/', 1)[-1]}:{row['line']}"
    why = str(row["why"]) if "why" in train and row["why"] is not None else str(row["verdict"])
    changed = evidence.fact("source_changed_after_start")
    edited = "; the file was edited after the start" if changed is not None and changed.fact.value is True else ""
    return f"{where} builds the training loader: {why}{edited}", card


def _layout_doubt(evidence: Evidence, arithmetic: SplitArithmetic) -> str:
    """Why equal data on all ranks may be right here: model-parallel ranks share them."""
    parallel = arithmetic.parallel
    if parallel is None or parallel.model_parallel or evidence.fact("data_parallel_size") is not None:
        return ""
    shared = evidence.fact("shared_data_by_source")
    if shared is not None:
        what = f"{shared.fact.source} builds model-parallel groups ({shared.fact.value}), whose ranks share data by design"
        return f"{what}; how many ranks a group has was not seen"
    named = " ".join(text_fact(evidence, name).lower() for name in ("framework", "script", "command_line"))
    hit = next((name for name in MODEL_PARALLEL_FRAMEWORKS if name in named), "")
    if not hit:
        return ""
    return f"{hit} can run model-parallel ranks, which share data by design; the layout of this job was not seen"


def status_of(case: ShardingCase, cause: str) -> Status:
    """By a deciding test where one decided, else by ``open_status``, lowered where a test speaks against it."""
    tested = case.tested_as(cause)
    if tested is not None:
        return tested
    found = open_status(case)
    if case.arithmetic.verdict is Split.ONE_RANK:
        return found
    if case.contradiction(cause) or (found is Status.SUPPORTED and case.sibling_refuted(cause)):
        return Status.UNDECIDED
    return found


def open_status(case: ShardingCase) -> Status:
    """How far "each rank trains on the whole dataset" is established without a deciding test.

    Counting supports it where the length of an epoch is exactly the unsplit one and the batch surely is a rank's, and refutes
    it where it is exactly the split one. A source that splits beside an unsplit printed length is a contradiction: undecided.
    Source text alone never does more than leave it open.
    """
    found = case.arithmetic
    if found.verdict is Split.ONE_RANK:
        return Status.REFUTED
    if found.verdict in (Split.ONCE, Split.TWICE):
        return Status.REFUTED
    if found.verdict is Split.NONE:
        if case.layout_doubt or case.source in ("once", "twice"):
            return Status.UNDECIDED
        return Status.SUPPORTED if found.sure or case.source == "none" else Status.UNDECIDED
    if found.ranks is not None and (case.source == "none" or case.live or Split.NONE in found.open_readings):
        return Status.UNDECIDED
    return Status.NOT_TESTABLE


def hours_if_split(evidence: Evidence) -> HoursWon | None:
    """Hours that one split of the data would win, with the interval of the rate; None where it cannot be computed."""
    won, run = evidence.calculation("hours_won_if_split"), evidence.calculation("run_hours")
    total = value(evidence, "run_hours")
    point = value(evidence, "hours_won_if_split")
    if won is not None and point is not None:
        low, high = (won.interval.low, won.interval.high) if won.interval else (point, point)
        how = won.note or "fewer steps at today's time per step; later bottlenecks and the time of a step stay as they are"
        return HoursWon(low, high, how, total)
    whole, split = value(evidence, "reading_unsplit_hours"), value(evidence, "reading_split_hours")
    if run is not None and total is None and whole is not None and split is not None and whole > split:
        return HoursWon(0.0, whole - split, "between the rival readings: nothing if the loader is split already", whole)
    return None


def numbers(case: ShardingCase) -> dict[str, Value]:
    """Every number of the card."""
    found = calculated_numbers(case.evidence, CARD_NUMBERS)
    if case.ranks is not None:
        found["data_parallel_ranks"] = case.ranks
    if "batches_per_epoch" not in found and case.arithmetic.length.value:
        found["batches_per_epoch"] = case.arithmetic.length.value
    if "batch_size_per_rank" not in found and case.arithmetic.batch.size.value:
        found["batch_size_per_rank"] = int(case.arithmetic.batch.size.value)
    order = case.evidence.fact("order_by_source")
    if order is not None:
        found["order_by_source"] = order.fact.value
    for end in ("", "_low", "_high"):
        if f"hours_won_if_split{end}" in found:
            found[f"hours_won{end}"] = found[f"hours_won_if_split{end}"]
    return found


def second_fault(evidence: Evidence) -> Reason | None:
    """That the time of a step is a fault of its own, if one GPU alone does about as many samples."""
    made = evidence.calculation("speedup_over_one_gpu")
    return reason(made.note, made) if made is not None and "second fault" in made.note else None
