"""From what was read of a log to facts and the tidy frame: ``read_log``. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from diag_kit.observe.logs.pieces import Piece, pieces
from diag_kit.observe.logs.reading import Reading, understand
from diag_kit.observe.logs.stamps import date_times_of_day, date_without_year
from diag_kit.records import CommandResult, Fact, NotUnderstood, Parsed

if TYPE_CHECKING:
    import pandas as pd

BAR_COLUMNS = ("file", "line", "rank", "description", "n", "total", "elapsed_s", "rate_per_s")
MAX_BARS = 5000


def read_log(results: tuple[CommandResult, ...], *, metrics: bool = True, skip: int = 1) -> Parsed:
    """Facts, and with ``metrics`` the table of that name, of logs fetched by a probe or pasted (``cat FILE``)."""
    found: list[Piece] = []
    problems: list[str] = []
    for result in results:
        some, why = pieces(result, skip)
        found += some
        problems += why
    reading = understand(found, metrics=metrics)
    missed = _missed(reading, found)
    if not metrics:
        facts = reading.startup.facts
        said = ", ".join(f"{fact.name} {fact.value}" for fact in facts[:6]) or "no start-up facts found"
        return Parsed(said, facts, {}, missed, tuple(problems))
    table, clock = _table(reading, found)
    facts = (*reading.startup.facts, *_facts(reading, table, clock))
    tables = {"metrics": table, "bars": _bars(reading, found)}
    return Parsed(_summary(reading, table, tables["bars"]), facts, tables, missed, tuple(problems))


def _table(reading: Reading, found: Sequence[Piece]) -> tuple[pd.DataFrame, str]:
    """The frame ``metrics``, and what its clock is ("" without times)."""
    times, kinds = _times(reading, found)
    hosts = [piece.host for piece in found]
    numbered = [piece.first_line is not None or piece.numbers is not None for piece in found]
    table = reading.rows.frame(times, [piece.file for piece in found], hosts, numbered)
    if kinds & {"naive", "no year", "time of day"}:
        return table, "the host's clock, zone not stated, labelled UTC"
    return table, "UTC" if kinds & {"utc", "container"} else ""


def _times(reading: Reading, found: Sequence[Piece]) -> tuple[list[int | None], set[str]]:
    rows = reading.rows
    times: list[int | None] = list(rows.stamps)
    for index, piece in enumerate(found):
        of_day = [i for i, where in enumerate(rows.pieces) if where == index and rows.kinds[i] == "time of day"]
        if of_day:
            dated, _ = date_times_of_day([rows.stamps[i] for i in of_day], piece.reference_us)
            for i, us in zip(of_day, dated, strict=True):
                times[i] = us
    for i, kind in enumerate(rows.kinds):
        us = times[i]
        if kind == "no year" and us is not None:
            times[i] = date_without_year(us, found[rows.pieces[i]].reference_us)
    return times, set(rows.kinds) - {""}


def _facts(reading: Reading, table: pd.DataFrame, clock: str) -> list[Fact]:
    facts: list[Fact] = []
    frameworks = Counter({name: 0 for name, _ in reading.forms})
    for (name, _), count in reading.forms.items():
        frameworks[name] += count
    frameworks.pop("", None)
    if frameworks:
        facts.append(Fact("framework", frameworks.most_common(1)[0][0], "form of its metric records"))
    if clock:
        facts.append(Fact("clock", clock, "time stamps of the log"))
    if reading.rank_kinds:
        facts.append(Fact("rank_tag_kind", reading.rank_kinds.most_common(1)[0][0], "rank tags of the log"))
    stated = {fact.name for fact in reading.startup.facts}
    names = {"step of epoch": "batches_per_epoch", "step": "total_steps", "epoch": "epochs"}
    totals = Counter(kind for kind, _ in reading.totals)
    for (kind, total), where in reading.totals.items():
        if totals[kind] == 1 and names[kind] not in stated:
            facts.append(Fact(names[kind], total, f"{where}: printed behind the {kind.split()[0]}"))
    if len(table):
        facts.append(Fact("metric_records", len(table), "counted in the log", "records"))
    return facts


def _bars(reading: Reading, found: Sequence[Piece]) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (
            found[state.piece].file,
            state.line.last,
            state.line.rank,
            state.bar.description.strip(),
            state.bar.n,
            state.bar.total,
            state.bar.elapsed_s,
            state.bar.rate_per_s,
        )
        for state in reading.bars[-MAX_BARS:]
    ]
    table = pd.DataFrame(rows, columns=list(BAR_COLUMNS))
    types = {"line": "Int64", "rank": "Int64", "file": "str", "description": "str"}
    floats = dict.fromkeys(("n", "total", "elapsed_s", "rate_per_s"), "Float64")
    return table.astype({**types, **floats})


def _missed(reading: Reading, found: Sequence[Piece]) -> tuple[NotUnderstood, ...]:
    missed = list(reading.missed)
    if reading.missed_count > len(missed):
        rest = reading.missed_count - len(missed)
        missed.append(NotUnderstood("the log", f"{rest} more lines like these", "look like metrics, but no known form"))
    for piece in found:
        if piece.left_out:
            text = f"{piece.left_out} bytes between its head and its tail were not read"
            missed.append(NotUnderstood(piece.file, text, "larger than max_mib"))
    return tuple(missed)


def _summary(reading: Reading, table: pd.DataFrame, bars: pd.DataFrame) -> str:
    if not len(table):
        return f"no metric records in {reading.lines} lines" + (f", {len(bars)} bar states" if len(bars) else "")
    train = int((table["split"] == "train").sum())
    said = [f"{train} train records"]
    if train < len(table):
        said.append(f"{len(table) - train} validation records")
    ranks = table["rank"].dropna().nunique()
    if ranks:
        said.append(f"{ranks} ranks tagged")
    (framework, form), _ = reading.forms.most_common(1)[0]
    return f"{', '.join(said)} ({f'{framework}, ' if framework else ''}{form} form)"
