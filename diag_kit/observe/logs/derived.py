"""What the rows of a log say about how it was printed: clock, framework, logging interval, rank tags, printed totals."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from functools import reduce
from math import gcd

import pandas as pd

from diag_kit.observe.logs.formats import all_formats
from diag_kit.observe.logs.meaning import UNKNOWN, Meaning
from diag_kit.observe.logs.reading import Reading
from diag_kit.observe.logs.stamps import DAY_US, date_times_of_day, date_without_year
from diag_kit.records import Fact

HOST_CLOCK = "host clock, zone not stated"
_CLOCKS = {
    "container": "container clock, UTC",
    "utc": "clock with its zone stated in the log",
    "naive": HOST_CLOCK,
    "no year": HOST_CLOCK,
    "time of day": HOST_CLOCK,
}
_TAGS = {
    "global": "global ranks",
    "local": "local ranks of a launcher, which repeat on every node",
    "task": "Slurm task ids, ranks only if one task drives one GPU",
    "device": "device numbers, local to a node",
    "file": "numbers in the file names",
}


def row_times(reading: Reading) -> tuple[list[int | None], int]:
    """Microseconds (UTC label) per row, and the midnights counted in times of day."""
    rows = reading.rows
    times: list[int | None] = list(rows.stamps)
    midnights = 0
    later: dict[tuple[str, str], int] = {}
    for index in range(len(reading.pieces) - 1, -1, -1):
        piece = reading.pieces[index]
        here = [i for i, of in enumerate(rows.pieces) if of == index] if len(reading.pieces) > 1 else range(rows.count)
        reference = later.get((piece.host, piece.file), piece.reference_us)
        clocks = [i for i in here if rows.kinds[i] == "time of day"]
        if clocks:
            dated, passed = date_times_of_day([rows.stamps[i] for i in clocks], reference)
            midnights += passed
            back = DAY_US if (piece.host, piece.file) in later and (dated[-1] or 0) > reference else 0
            for i, us in zip(clocks, dated, strict=True):
                times[i] = None if us is None else us - back
        for i in here:
            stamp = rows.stamps[i]
            if rows.kinds[i] == "no year" and stamp is not None:
                times[i] = date_without_year(stamp, reference)
        first = next((times[i] for i in here if times[i] is not None), None)
        if first is not None:
            later[piece.host, piece.file] = first
    return times, midnights


def derived_facts(reading: Reading, metrics: pd.DataFrame, midnights: int) -> list[Fact]:
    """Facts from the rows, weaker statements first."""
    files = ", ".join(dict.fromkeys(piece.file for piece in reading.pieces))
    facts = _totals(reading, metrics)
    facts += _clock(reading, midnights)
    facts += _forms(reading, metrics, files)
    facts += reading.learned
    if reading.rows.learned and not reading.forms:
        facts.append(Fact("log_form", "keys and numbers, learned from the log", f"lines that repeat in {files}"))
    train = metrics[metrics["split"] == "train"]
    every = log_every_steps(train)
    if every:
        facts.append(Fact("log_every_steps", every, f"differences of the steps printed in {files}", "steps"))
    restarts = _restarts(train, max((total for what, total in reading.totals if what == "step of epoch"), default=None))
    if restarts is not None:
        facts.append(Fact("step_restarts_each_epoch", restarts, f"steps against epochs in {files}"))
    return facts


def _clock(reading: Reading, midnights: int) -> list[Fact]:
    kinds = Counter(kind for kind in reading.rows.kinds if kind)
    if not kinds:
        return []
    kind = kinds.most_common(1)[0][0]
    source = {
        "time of day": f"lines carry a time of day only; dated from the file's last write, {midnights} midnight(s) passed",
        "no year": "lines carry no year; dated from the file's last write",
        "naive": "lines carry a date without a zone",
        "container": "stamps of the container runtime",
        "utc": "stamps with a zone",
    }[kind]
    return [Fact("clock", _CLOCKS[kind], source)]


def _forms(reading: Reading, metrics: pd.DataFrame, files: str) -> list[Fact]:
    facts: list[Fact] = []
    main = reading.rows.main_level
    forms = Counter({key: count for key, count in reading.forms.items() if key[2] <= main}) or reading.forms
    by_framework = next(
        (known for known in (_frameworks(forms), _frameworks(reading.forms), reading.bar_frameworks) if known), None
    )
    if by_framework:
        framework, count = by_framework.most_common(1)[0]
        facts.append(Fact("framework", framework, f"form of {count} records in {files}"))
    if forms:
        (framework, form, _), count = forms.most_common(1)[0]
        rich = ", wrapped by a rich console" if reading.rich_records > count / 2 else ""
        facts.append(Fact("log_form", f"{form}{rich}{_release(framework, metrics)}", f"{count} records in {files}"))
        if framework == "speculators" and rich and not _repeats(metrics):
            facts.append(
                Fact("rank_filter", "rank 0 only", "the library's own console prints rank 0 (to 0.6.0: rank 0 of each node)")
            )
        facts += meaning_facts(framework, form)
    elif by_framework:
        facts += meaning_facts(by_framework.most_common(1)[0][0])
    if reading.counts:
        level, counts = min(reading.counts, key=lambda key: (key[0], -reading.counts[key]))
        if level < 9 or reading.rows.bars_only:
            facts.append(Fact("step_counts", counts, f"form of {reading.counts[level, counts]} records in {files}"))
    if reading.rank_kinds:
        kind, count = reading.rank_kinds.most_common(1)[0]
        facts.append(Fact("rank_tags", _TAGS.get(kind, kind), f"{count} records in {files}"))
    return facts


def meaning_facts(framework: str, form: str = "") -> list[Fact]:
    """Where the counter of the log's main form begins, who prints, what its speeds are: as the framework's source says."""
    fitting = [
        known for known in all_formats() if known.framework == framework and isinstance(getattr(known, "meaning", None), Meaning)
    ]
    if not framework or not fitting:
        return []
    meaning: Meaning = getattr(next((known for known in fitting if known.name == form), fitting[0]), "meaning", UNKNOWN)
    source = f"how {framework} prints ({meaning.source})" if meaning.source else f"how {framework} prints"
    facts = [Fact("step_starts_at", meaning.starts_at, source)] if meaning.starts_at is not None else []
    if meaning.printed_by:
        facts.append(Fact("log_printed_by", meaning.printed_by, source))
    if meaning.speed:
        facts.append(Fact("printed_speed", meaning.speed, source))
    return facts


def _frameworks(forms: Mapping[tuple[str, str, int], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (framework, _, _), count in forms.items():
        if framework:
            found[framework] += count
    return found


def _release(framework: str, metrics: pd.DataFrame) -> str:
    """Which releases of speculators print these columns."""
    if framework != "speculators":
        return ""
    names = set(metrics.columns)
    if any(name.startswith("memory_mb/") for name in names):
        return ", as speculators 0.9.0 prints"
    if "error_records" in names:
        return ", as speculators 0.8.0 or later prints"
    if any(name.startswith("profile/") for name in names):
        return ", as speculators 0.7.0 or later prints"
    if metrics["step"].notna().any():
        return ", as speculators 0.5.0 or later prints"
    return ", as speculators 0.3.0 or 0.4.0 prints"


def _repeats(metrics: pd.DataFrame) -> bool:
    """Whether several records share a step or a learning rate."""
    train = metrics[metrics["split"] == "train"]
    steps = train["step"].dropna()
    if len(steps):
        return bool(steps.duplicated().mean() > 0.4)
    rates = train["lr_text"].dropna()
    return bool(rates.duplicated().mean() > 0.4) if len(rates) and rates.nunique() > 2 else False


def log_every_steps(train: pd.DataFrame) -> int | None:
    """Greatest common divisor of the distances between distinct steps; None below three distances."""
    distances: list[int] = []
    for _, group in train.groupby(["file", "epoch"], dropna=False, observed=True):
        steps = sorted(set(group["step"].dropna().astype("int64")))
        if len(steps) > 3 and steps[0] == 1 and steps[1] % (steps[2] - steps[1]) == 0:
            del steps[0]  # many print the first step besides every n-th
        distances += [b - a for a, b in itertools.pairwise(steps)]
    counted = Counter(distances)
    if len(distances) < 3:
        return None
    usual, times = counted.most_common(1)[0]
    return usual if times >= 0.8 * len(distances) else reduce(gcd, distances)


def _restarts(train: pd.DataFrame, of_epoch: int | None = None) -> bool | None:
    """Whether the step counter begins again with each epoch; None when no epoch ended in what was read.

    ``of_epoch``: the total printed behind a step of an epoch: a counter that never passes it in two epochs began again.
    """
    known = train.dropna(subset=["step", "epoch"])
    if known["epoch"].nunique() < 2 or not (known["epoch"] == known["epoch"].round()).all():
        return None
    if of_epoch and known["step"].max() <= of_epoch and known.groupby("epoch")["step"].max().gt(of_epoch / 2).sum() > 1:
        return True
    first = known.groupby("epoch")["step"].agg(["min", "max"]).sort_index()
    return bool((first["min"].iloc[1:].to_numpy() < first["max"].iloc[:-1].to_numpy()).all())


def _totals(reading: Reading, metrics: pd.DataFrame) -> list[Fact]:
    """Totals printed beside a counter: "step 17/8862" is of the epoch when an epoch stands beside it."""
    facts: list[Fact] = []
    stated = {(fact.name, fact.value) for fact in reading.startup.facts()}
    for (what, total), where in reading.totals.items():
        name, unit = {
            "step of epoch": ("batches_per_epoch", "batches"),
            "step": ("total_steps", "steps"),
            "epoch": ("epochs", ""),
            "samples": ("train_samples", "samples"),
        }[what]
        if name == "batches_per_epoch" and ("total_steps", total) in stated:
            name, unit = "total_steps", "steps"
        if len(reading.totals) <= 12 and (name, total) not in stated:
            facts.append(Fact(name, total, f"{where}: printed behind the {what.split()[0]}", unit))
    return facts


def progress_frame(reading: Reading) -> pd.DataFrame:
    """Progress bars as records: host file line rank t description n total elapsed_s left_s rate_per_s."""
    pieces = reading.pieces
    dated = {"utc", "naive", "container"}
    rows = [
        (
            pieces[state.piece].host,
            pieces[state.piece].file,
            state.line.last,
            state.line.rank,
            state.line.stamp_us if state.line.stamp_kind in dated else None,
            state.bar.description,
            state.bar.n,
            state.bar.total,
            state.bar.elapsed_s,
            state.bar.left_s,
            state.bar.rate_per_s,
        )
        for state in reading.bars
    ]
    names = ["host", "file", "line", "rank", "t", "description", "n", "total", "elapsed_s", "left_s", "rate_per_s"]
    frame = pd.DataFrame(rows, columns=names)
    stamps = pd.array(frame["t"].tolist(), dtype="Int64")
    frame["t"] = pd.Series(pd.to_datetime(pd.Series(stamps), unit="us", utc=True)).astype("datetime64[us, UTC]")
    for name in ("line", "rank"):
        frame[name] = frame[name].astype("Int64")
    for name in ("n", "total", "elapsed_s", "left_s", "rate_per_s"):
        frame[name] = frame[name].astype("float64")
    for name in ("host", "file", "description"):
        frame[name] = frame[name].astype("str")
    return frame
