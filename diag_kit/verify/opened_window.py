"""What a window of opened files shows: who shares files, when, and which readings of the split that establishes. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from diag_kit.calculate.inputs import calculated, known, number_of
from diag_kit.calculate.parallel import data_parallel
from diag_kit.calculate.split_arithmetic import split_arithmetic
from diag_kit.evidence import Evidence
from diag_kit.verify.shared_reads import Overlap, attributed_overlap, unattributed_overlap

MIN_DISTINCT = 12
"""Fewer different files than this say nothing: the data are in a few large files, or hardly any open was caught."""


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
