"""``read_log``: raw logs in, facts and tables out. Pure; what the probes and the folder of pasted files share."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from diag_kit.observe.logs.derived import derived_facts, progress_frame, row_times
from diag_kit.observe.logs.learned import learn_clock, learn_step
from diag_kit.observe.logs.pace import pace_facts
from diag_kit.observe.logs.pieces import Piece, pieces
from diag_kit.observe.logs.reading import Reading, understand
from diag_kit.records import CommandResult, Fact, NotUnderstood, Parsed


def read_log(results: tuple[CommandResult, ...]) -> Parsed:
    """Everything that logs say: start-up facts, the tables ``metrics`` and ``progress``, facts derived from the rows.

    Takes the results of ``LogMetrics`` or ``LogFacts``, or of a plain ``cat FILE`` each. Several files (one per rank) make
    one table with the column ``file``.
    """
    found, problems = gather(results)
    reading = understand(found)
    metrics, midnights = metrics_frame(reading)
    facts = all_facts(reading, metrics, midnights)
    return Parsed(
        summary=summarise(reading, metrics, facts),
        facts=tuple(facts),
        tables=tables_of(reading, metrics),
        not_understood=tuple(not_understood(reading)),
        problems=(*problems, *left_out(found)),
    )


def all_facts(reading: Reading, metrics: pd.DataFrame, midnights: int) -> list[Fact]:
    """Derived and start-up facts; a framework guessed from a banner is weaker than one told from the form of the records."""
    started = reading.startup.facts()
    guessed = [fact for fact in started if fact.name == "framework"]
    rest = [fact for fact in started if fact.name != "framework"]
    return [*guessed, *derived_facts(reading, metrics, midnights), *pace_of(reading, metrics), *rest]


def pace_of(reading: Reading, metrics: pd.DataFrame) -> list[Fact]:
    """Figures of the printed columns; only where all columns were read."""
    files = ", ".join(dict.fromkeys(piece.file for piece in reading.pieces))
    return pace_facts(metrics[metrics["split"] == "train"], [state.bar for state in reading.bars], files)


def gather(results: tuple[CommandResult, ...], skip: int = 1) -> tuple[list[Piece], list[str]]:
    """The pieces of all results, and what could not be read."""
    found: list[Piece] = []
    problems: list[str] = []
    for result in results:
        some, said = pieces(result, skip)
        found += some
        problems += said
    return found, problems


def metrics_frame(reading: Reading) -> tuple[pd.DataFrame, int]:
    """The table ``metrics`` and the midnights counted in its clock."""
    times, midnights = row_times(reading)
    frame = _frame(reading, times)
    reading.learned = learn_step(frame)
    reading.learned += learn_clock(frame, {piece.file: piece.reference_us for piece in reading.pieces})
    return frame, midnights


def _frame(reading: Reading, times: list[int | None], beside: bool = False) -> pd.DataFrame:
    return reading.rows.frame(
        times,
        [piece.file for piece in reading.pieces],
        [piece.host for piece in reading.pieces],
        [piece.first_line is not None or piece.numbers is not None for piece in reading.pieces],
        beside,
    )


def tables_of(reading: Reading, metrics: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """``metrics``, ``timings`` (records beside the main ones) and ``progress``: those that hold rows."""
    beside = _frame(reading, row_times(reading)[0], beside=True) if reading.rows.has_beside else metrics.iloc[:0]
    tables = {"metrics": metrics, "timings": beside, "progress": progress_frame(reading)}
    return {name: table for name, table in tables.items() if len(table)}


def not_understood(reading: Reading) -> list[NotUnderstood]:
    """Lines that look like metrics and fit no form; at most some of them, then their number."""
    shown = list(reading.missed)
    if reading.missed_count > len(shown):
        shown.append(NotUnderstood("log", "", f"and {reading.missed_count - len(shown)} more lines of that kind"))
    return shown


def left_out(found: Sequence[Piece]) -> list[str]:
    """A sentence for each file of which the middle was not read."""
    return [
        f"{piece.file}: {_size(piece.left_out)} in the middle were not read (head and tail only); ask with a larger max_mib"
        for piece in found
        if piece.left_out > 0
    ]


def _size(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size / 2**10:,.1f} KiB"


def summarise(reading: Reading, metrics: pd.DataFrame, facts: Sequence[Fact]) -> str:
    """One line for the card."""
    names = list(dict.fromkeys(piece.file.rsplit("/", 1)[-1] for piece in reading.pieces))
    where = names[0] if len(names) == 1 else f"{len(names)} files"
    if not reading.pieces:
        return "no log could be read"
    if not len(metrics):
        bars = f", {len(reading.bars):,} progress bar states" if reading.bars else ""
        return f"no metric records in {reading.lines:,} lines of {where}{bars}; {len(facts)} facts"
    train = metrics[metrics["split"] == "train"]
    steps, ranks = train["step"].nunique(), train["rank"].nunique()
    parts = [f"{len(train):,} train records"]
    if len(metrics) > len(train):
        parts.append(f"{len(metrics) - len(train):,} validation records")
    if steps:
        parts.append(f"{steps:,} distinct steps")
    if ranks:
        parts.append(f"{ranks} ranks tagged")
    text = f"{', '.join(parts)} in {where}"
    times = metrics["t"].dropna()
    return f"{text}, {times.min():%Y-%m-%d %H:%M:%S} to {times.max():%H:%M:%S}" if len(times) else text
