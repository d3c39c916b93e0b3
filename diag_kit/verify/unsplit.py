"""The deciding test for unsplit data in a running job: who opens which files, rung by rung, and what follows.

Rungs: the arithmetic of the log (nothing is run); files open per rank, polled, and opens of the data folder seen by inotify;
bytes read per rank; and, only when the user agrees, tracing the opens for some seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from diag_kit.calculate.inputs import calculated, known, number_of
from diag_kit.calculate.parallel import data_parallel
from diag_kit.calculate.split_arithmetic import Split, SplitArithmetic, split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.observe.probe import Probe
from diag_kit.records import Status, Value, Verification
from diag_kit.verify.decide import DecidingTest, deciding_test
from diag_kit.verify.read_bytes import predictions, read_bytes
from diag_kit.verify.shared_reads import Overlap, attributed_overlap, reads_needed_per_rank, unattributed_overlap

DUPLICATED, SAME_ORDER, DOUBLE = "data.dup_no_sampler", "data.same_order", "data.double_shard"
SPLIT = (Split.ONCE, Split.TWICE)
MIN_DISTINCT = 12
"""Fewer different files than this say nothing: the data are in a few large files, or hardly any open was caught."""
ERROR_RATES = (
    "a split run called unsplit: 0 of 3,600 simulated windows (shared reads must need more epoch ends than the window can hold, "
    "and came no nearer than one below that); the other readings are refuted at a chance of 1 in 10,000; missed opens only "
    "lower the power"
)


@dataclass(frozen=True, slots=True)
class Reads:
    """What the window of opened files showed; ``same_order``/``unsplit``/``split``: which readings it establishes."""

    overlaps: tuple[Overlap, ...] = ()
    same_order: bool = False
    unsplit: bool = False
    not_independent: bool = False
    simultaneous_share: float | None = None
    why_blind: str = ""
    id: str = ""

    @property
    def own_order(self) -> bool:
        """Files were read by two ranks, but not at the same time, as often as independent orders predict."""
        return not self.same_order and any(
            o.attributed and o.shared - o.together >= 5 and not o.refutes_independent for o in self.overlaps
        )

    @property
    def split(self) -> bool:
        """No file was read by two ranks although independent orders would have shown many, and not at once either."""
        share = self.simultaneous_share
        apart = share is not None and share > 0.75
        attributed = any(o.attributed and o.refutes_independent and o.together == 0 for o in self.overlaps)
        return self.not_independent and not self.same_order and not self.unsplit and (attributed or apart)

    @property
    def told(self) -> str:
        if not self.overlaps:
            return self.why_blind or "no opened files were observed"
        return "; ".join(_says(each) for each in self.overlaps)


def _says(seen: Overlap) -> str:
    how = "opens polled by rank" if seen.attributed else "opens of the folder"
    return (
        f"{seen.reads} {how} in {seen.window_s:.0f} s, {seen.distinct} different files, {seen.shared} read by a second rank or "
        f"again ({seen.together} of them within {seen.together_s:.1f} s); independent orders predict "
        f"{seen.expected_independent:.1f}"
    )


def read_window(evidence: Evidence) -> Reads:
    """The statistics of the newest window of opened files."""
    sourced = evidence.sourced_table("opens")
    if sourced is None:
        seen = evidence.observed("opened_files")
        problems = "; ".join(seen.parsed.problems) if seen else ""
        return Reads(why_blind=problems or "the files open per rank have not been observed")
    opens, card = sourced
    samples = known(evidence, "train_samples").value
    ranks = data_parallel(evidence).size
    if samples is None or ranks is None or ranks < 2:
        return Reads(why_blind="the dataset's size or the number of ranks is not known", id=card)
    if opens["path"].nunique() < MIN_DISTINCT:
        few = f"only {opens['path'].nunique()} different data files were seen open: too few to tell"
        return Reads(why_blind=few, id=card)
    return _judge_window(evidence, opens, max(int(samples), opens["path"].nunique()), ranks, card)


def _judge_window(evidence: Evidence, opens: pd.DataFrame, files: int, ranks: int, card: str) -> Reads:
    times = pd.to_datetime(opens["t"], utc=True)
    window_s = max(number_of_fact(evidence, "opens_window_s"), (times.max() - times.min()).total_seconds(), 1e-3)
    table = opens.assign(t_s=(times - times.min()).dt.total_seconds())
    together_s, slack_s = _windows(evidence)
    together_s = min(together_s, window_s / 5)
    by_rank = table[table["rank"].notna()]
    by_folder = table[table["via"] == "inotify"]
    seen: list[Overlap] = []
    if by_rank["rank"].nunique() >= 2 and by_rank["path"].nunique() >= MIN_DISTINCT:
        seen.append(attributed_overlap(by_rank, files, ranks, window_s, together_s, slack_s))
    if by_folder["path"].nunique() >= MIN_DISTINCT:
        seen.append(unattributed_overlap(by_folder, files, ranks, window_s, together_s, slack_s))
    possible = epoch_ends_possible(evidence, files, ranks, window_s, seen)
    # Without ranks, a rank's own second epoch looks like another's read, and the epochs of data split twice are short.
    shortest = epoch_ends_possible(evidence, max(files // ranks, 1), ranks, window_s, seen)
    share = _simultaneous_share(evidence, seen, window_s)
    independent_refuted = any(each.refutes_independent for each in seen)
    together = any(each.shows_same_order for each in seen)
    shared_rate = share is not None and share < 0.75 / math.sqrt(ranks) and independent_refuted
    return Reads(
        overlaps=tuple(seen),
        same_order=together or bool(shared_rate),
        unsplit=any(each.refutes_split(possible if each.attributed else shortest) for each in seen),
        not_independent=independent_refuted,
        simultaneous_share=share,
        why_blind="" if seen else "too few opens were caught on two ranks to compare them",
        id=card,
    )


def number_of_fact(evidence: Evidence, name: str) -> float:
    """The newest numeric value of a fact, 0 when there is none."""
    return evidence.number(name) or 0.0


def _windows(evidence: Evidence) -> tuple[float, float]:
    """(reads that count as simultaneous, slack around an epoch's end), in seconds, from step time and the loader's depth."""
    step_s = number_of(calculated(evidence, "step_time")) or 0.5
    workers = known(evidence, "num_workers").value
    depth = 2 * workers + 1 if workers is not None else 5
    return min(max(2 * step_s, 0.5), 2.0), min(depth * step_s, 10.0)


def epoch_ends_possible(evidence: Evidence, files: int, ranks: int, window_s: float, seen: list[Overlap]) -> int:
    """The most epochs of a run split once that can end in the window, from its step rate or from the reads themselves."""
    rate = number_of(calculated(evidence, "step_rate"))
    batch = split_arithmetic(evidence).batch.size.value or 1
    by_rate = window_s * rate * batch * ranks / files if rate else 0.0
    by_reads = max((each.reads / files for each in seen), default=0.0)
    return math.ceil(1.2 * max(by_rate, by_reads)) + 1


def _simultaneous_share(evidence: Evidence, seen: list[Overlap], window_s: float) -> float | None:
    """Different reads of the folder over the samples that all ranks consumed: 1 when each reads its own, 1/K when all read
    the same. None without a complete count of opens, or without a rate that rests on counted ranks."""
    complete = next((each for each in seen if not each.attributed), None)
    samples_per_s = number_of(calculated(evidence, "samples_per_s"))
    if complete is None or not samples_per_s or split_arithmetic(evidence).batch.size.value is None:
        return None
    return complete.reads / (samples_per_s * window_s)


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
