"""The deciding test for unsplit data in a running job: who opens which files, rung by rung, and what follows.

Rungs: the arithmetic of the log (nothing is run); files open per rank, polled, and opens of the data folder seen by inotify;
bytes read per rank; and, only when the user agrees, tracing the opens for some seconds.
"""

from __future__ import annotations

import math

from diag_kit.calculate.inputs import calculated, known, number_of
from diag_kit.calculate.parallel import data_parallel
from diag_kit.calculate.split_arithmetic import Split, SplitArithmetic, split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.observe.probe import Probe
from diag_kit.records import Status, Value, Verification
from diag_kit.verify.decide import DecidingTest, deciding_test
from diag_kit.verify.opened_window import Reads, read_window
from diag_kit.verify.read_bytes import predictions, read_bytes
from diag_kit.verify.shared_reads import reads_needed_per_rank

DUPLICATED, SAME_ORDER, DOUBLE = "data.dup_no_sampler", "data.same_order", "data.double_shard"
SPLIT = (Split.ONCE, Split.TWICE)
ERROR_RATES = (
    "a split run called unsplit: 0 of 3,600 simulated windows (shared reads must need more epoch ends than the window can hold, "
    "and came no nearer than one below that); the other readings are refuted at a chance of 1 in 10,000; missed opens only "
    "lower the power"
)


def judge_duplicated(evidence: Evidence) -> Verification:
    """data.dup_no_sampler: every rank reads the whole dataset, in its own order.

    Shared files confirm it only beside a count that says the same: several samples in a file, ranks that read all
    and keep a part, and model-parallel ranks share files as well.
    """
    reads, sums = read_window(evidence), split_arithmetic(evidence)
    status, why = _duplicated(reads, sums)
    return _verdict(DUPLICATED, evidence, reads, sums, status, why)


def _duplicated(reads: Reads, sums: SplitArithmetic) -> tuple[Status, str]:
    counted = sums.verdict is Split.NONE
    if reads.same_order:
        return Status.REFUTED, "the ranks read the same files at the same time"
    if reads.unsplit:
        why = "ranks read each other's files within an epoch"
        return (Status.CONFIRMED, why) if counted else (Status.UNDECIDED, _doubt(sums))
    if reads.split or sums.verdict in SPLIT:
        return Status.REFUTED, "no rank reads what another reads" if reads.split else sums.reason
    if not counted:
        return _open_status(reads, sums), sums.reason
    if sums.seen and reads.own_order:
        return Status.CONFIRMED, "more steps than a split epoch has, and the ranks do not read the same files together"
    if sums.seen and reads.not_independent:
        return Status.REFUTED, "whole dataset on each rank, not in its own order"
    return Status.SUPPORTED, sums.reason


def judge_same_order(evidence: Evidence) -> Verification:
    """data.same_order: every rank reads the same files at the same time. Confirmed only beside a count, as above."""
    reads, sums = read_window(evidence), split_arithmetic(evidence)
    status, why = _same_order(reads, sums)
    return _verdict(SAME_ORDER, evidence, reads, sums, status, why)


def _same_order(reads: Reads, sums: SplitArithmetic) -> tuple[Status, str]:
    counted = sums.verdict is Split.NONE
    if reads.same_order:
        why = "the ranks read the same files at the same time"
        return (Status.CONFIRMED, why) if counted else (Status.UNDECIDED, _doubt(sums))
    if reads.unsplit:
        return Status.REFUTED, "the ranks do not read the same files at the same time"
    if reads.split or sums.verdict in SPLIT:
        return Status.REFUTED, "the data are split over the ranks"
    if not counted:
        return _open_status(reads, sums), sums.reason
    if sums.seen and reads.own_order:
        return Status.REFUTED, "the ranks read the whole, each in its own order"
    return Status.UNDECIDED, f"{sums.reason}; own or same order is open"


def _doubt(sums: SplitArithmetic) -> str:
    return (
        "the ranks share files, which ranks that hold several samples a file, read all and keep a part, or share a model do too; "
        f"counting does not say that nothing splits the data: {sums.reason}"
    )


def judge_double(evidence: Evidence) -> Verification:
    """data.double_shard: each rank sees 1/N^2 of the data. Opened files alone cannot tell it from a single split."""
    reads, sums = read_window(evidence), split_arithmetic(evidence)
    if sums.verdict is Split.TWICE and not (reads.unsplit or reads.same_order):
        status = Status.CONFIRMED if sums.seen else Status.SUPPORTED
        return _verdict(DOUBLE, evidence, reads, sums, status, sums.reason)
    if reads.unsplit or reads.same_order or sums.verdict in (Split.NONE, Split.ONCE):
        return _verdict(
            DOUBLE,
            evidence,
            reads,
            sums,
            Status.REFUTED,
            sums.reason if sums.verdict is not Split.CANNOT_TELL else "the ranks share files",
        )
    return _verdict(DOUBLE, evidence, reads, sums, _open_status(reads, sums), sums.reason)


def _open_status(reads: Reads, sums: SplitArithmetic) -> Status:
    return Status.UNDECIDED if reads.overlaps or sums.ids else Status.NOT_TESTABLE


def _verdict(cause: str, evidence: Evidence, reads: Reads, sums: SplitArithmetic, status: Status, why: str) -> Verification:
    ranks, counted = data_parallel(evidence).size, read_bytes(evidence)
    predicted = {
        "split once": f"no file on two ranks within an epoch; {_printed(evidence, 1)} batches an epoch",
        "own order on each rank": f"n x n / N shared files a pair, at any time; {_printed(evidence, 0)} batches",
        "same order on each rank": f"every file on all ranks at the same time; {_printed(evidence, 0)} batches",
        "split twice": f"no file on two ranks; {_printed(evidence, 2)} batches an epoch",
    }
    if counted is not None:
        for rival, text in predictions(evidence).items():
            predicted[rival] = f"{predicted[rival]}; {text}" if rival in predicted else text
    bytes_told = f" Bytes: {counted.told}." if counted is not None else ""
    return Verification(
        cause=cause,
        test="Files read by each rank, and the loader's length",
        predicted=predicted,
        measured=f"{reads.told}. By arithmetic: {sums.reason}.{bytes_told}{_sampler(evidence)}",
        verdict=status,
        reason=why,
        inputs=tuple(dict.fromkeys(each for each in (reads.id, *sums.ids, counted.id if counted else "") if each)),
        numbers={**_numbers(reads, ranks), **(counted.numbers if counted else {})},
        error_rates=ERROR_RATES if reads.overlaps else "arithmetic only: it is as sure as what the printed length means",
    )


def _sampler(evidence: Evidence) -> str:
    found = evidence.fact("sampler_in_memory")
    replicas = evidence.fact("sampler_num_replicas")
    if found is None:
        return ""
    return f" In memory: {found.fact.value}" + (f" over {replicas.fact.value} ranks." if replicas else ".")


def _printed(evidence: Evidence, times: int) -> str:
    """Batches an epoch when the data are divided ``times`` times."""
    samples, ranks = known(evidence, "train_samples").value, data_parallel(evidence).size
    batch = split_arithmetic(evidence).batch.size.value
    if not samples or not ranks or not batch:
        return "unknown"
    exact = samples / (batch * ranks**times)
    low, high = math.floor(exact), math.ceil(exact)
    return str(low) if low == high else f"{low} or {high}"


def _numbers(reads: Reads, ranks: int | None) -> dict[str, Value]:
    numbers: dict[str, Value] = {"data_parallel_ranks": ranks}
    for seen in reads.overlaps:
        how = "by_rank" if seen.attributed else "in_folder"
        numbers |= {
            f"reads_{how}": seen.reads,
            f"different_files_{how}": seen.distinct,
            f"shared_reads_{how}": seen.shared,
            f"shared_reads_expected_if_own_order_{how}": round(seen.expected_independent, 2),
            f"epoch_ends_needed_{how}": seen.boundaries_needed,
        }
    if reads.simultaneous_share is not None:
        numbers["different_reads_per_sample"] = round(reads.simultaneous_share, 3)
    return numbers


def window_needed_s(evidence: Evidence) -> float:
    """Seconds of watching that would decide, from dataset size, ranks and step rate; between 8 and 30."""
    samples, ranks = known(evidence, "train_samples").value, data_parallel(evidence).size
    rate = number_of(calculated(evidence, "step_rate"))
    batch = split_arithmetic(evidence).batch.size.value or 1
    if not samples or not ranks or not rate or ranks < 2:
        return 10.0
    return min(max(1.5 * reads_needed_per_rank(int(samples), ranks) / (rate * batch), 8.0), 30.0)


def rungs(evidence: Evidence) -> tuple[Probe, ...]:
    """Read-only first, each once; the careful rung last (it runs only when the user agrees)."""
    from diag_kit.observe.opened_files import OpenedFiles
    from diag_kit.observe.rank_io import RankIo
    from diag_kit.observe.stacks import Stacks

    seconds = round(window_needed_s(evidence))
    counters = () if evidence.table("rank_io") is not None else (RankIo(seconds=3),)
    return (OpenedFiles(seconds=seconds), *counters, OpenedFiles(seconds=5, careful=True), Stacks())


TITLE = "files open per rank"
deciding_test(DecidingTest(DUPLICATED, TITLE, rungs, judge_duplicated))
deciding_test(DecidingTest(SAME_ORDER, TITLE, rungs, judge_same_order))
deciding_test(DecidingTest(DOUBLE, TITLE, rungs, judge_double))
