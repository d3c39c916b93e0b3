"""The typed records that every layer shares: what was asked, seen, computed, claimed and tested.

All are frozen; a change makes a new record (``dataclasses.replace``). Ids are given by the ledger (O1, C1, H1, V1), stay for
ever, and are empty until then. Times are aware UTC datetimes; tables are pandas frames with units in their column names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

Value: TypeAlias = int | float | str | bool | None
"""What a fact or a number on a card may be. ``None`` means "not known", never zero."""


class Cost(StrEnum):
    """What a probe does to the host. The kit runs only read-only ones on its own."""

    READ_ONLY = "read-only"
    CAREFUL = "careful"  # pauses a process or adds load: asks first
    STATE_CHANGING = "state-changing"  # printed for the user to run, never run by the kit


class Status(StrEnum):
    """How far a hypothesis has come."""

    CONFIRMED = "confirmed"
    SUPPORTED = "supported"
    UNDECIDED = "undecided"
    REFUTED = "refuted"
    NOT_TESTABLE = "not testable here"


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One command on one host, and what came back.

    ``command`` is the text as sent, quoted by the runner. ``exit_status`` is None when the command did not end by itself
    (timed out, cancelled, connection lost). ``stdout``/``stderr`` are bounded; ``truncated`` says that more came.
    """

    host: str
    command: str
    stdout: bytes
    stderr: bytes
    exit_status: int | None
    started: datetime
    duration_s: float
    truncated: bool = False
    timed_out: bool = False

    def __repr__(self) -> str:
        """Short, and without the bytes: a plain terminal prints it."""
        status = "did not end" if self.exit_status is None else f"exit status {self.exit_status}"
        return f"<CommandResult of {self.host}: {status}, {len(self.stdout)} bytes, {self.duration_s:.1f} s>"

    @property
    def ok(self) -> bool:
        return self.exit_status == 0

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def error_text(self) -> str:
        return self.stderr.decode("utf-8", "replace").strip()

    @property
    def sha256(self) -> str:
        """Of the raw standard output: ties a claim to the bytes behind it."""
        return hashlib.sha256(self.stdout).hexdigest()


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that a source states: ``batches_per_epoch = 35446``, "train.log line 12".

    ``strength``: 2 a plain statement (a process's environment, an argument, ``world_size=4``), 1 a reading of words that may mean
    something else ("Using 4 GPUs"). A weak one holds where nothing else speaks, and never contradicts a plain one.
    """

    name: str
    value: Value
    source: str
    unit: str = ""
    strength: int = 2


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Input that a parser could not read: kept, counted and shown, never dropped silently."""

    where: str
    text: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a probe's pure parser makes of raw bytes.

    ``tables`` by name (see ``observe``), ``facts``, what it did not understand, a one-line ``summary`` for the card, and
    ``problems``: sentences on what could not be observed and why ("iostat is not installed: ...").
    """

    summary: str
    facts: tuple[Fact, ...] = ()
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    not_understood: tuple[NotUnderstood, ...] = ()
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Parsed: {_short(self.summary)}; {len(self.facts)} facts, tables {', '.join(self.tables) or 'none'}, "
            f"{len(self.problems)} problems, {len(self.not_understood)} not understood>"
        )


@dataclass(frozen=True, slots=True)
class Observation:
    """A probe, its parameters, the raw results, and what they say."""

    probe: str
    parameters: Mapping[str, Any]
    equivalent: str
    results: tuple[CommandResult, ...]
    parsed: Parsed
    cost: Cost = Cost.READ_ONLY
    id: str = ""

    def __repr__(self) -> str:
        problems = "".join(f"; could not be seen: {_short(each)}" for each in self.parsed.problems[:3])
        return f"<{self.id or 'Observation'} {self.probe}: {_short(self.parsed.summary)}{problems}>"

    @property
    def ok(self) -> bool:
        return not self.parsed.problems

    @property
    def facts(self) -> tuple[Fact, ...]:
        return self.parsed.facts

    def table(self, name: str) -> pd.DataFrame | None:
        return self.parsed.tables.get(name)


@dataclass(frozen=True, slots=True)
class Interval:
    """A closed interval and the level at which it is meant to cover (0.95 unless said)."""

    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class Assumption:
    """An input of a calculation that somebody may want to change. ``source`` is a fact's source, or "assumed"."""

    name: str
    value: Value
    source: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Calculation:
    """A number with its formula in words, its inputs (ids), interval and assumptions.

    ``calculator`` and ``parameters`` name the function that made it, so that changing an assumption makes a new one that
    ``supersedes`` this. ``value`` None with a ``note``: it cannot be known from what was seen (the kit abstains).
    """

    name: str
    formula: str
    value: Value
    unit: str
    inputs: tuple[str, ...] = ()
    interval: Interval | None = None
    assumptions: tuple[Assumption, ...] = ()
    calculator: str = ""
    parameters: Mapping[str, Value] = field(default_factory=dict)
    supersedes: str = ""
    note: str = ""
    id: str = ""

    def __repr__(self) -> str:
        value = f"{self.value:.6g}" if isinstance(self.value, float) else "not known" if self.value is None else str(self.value)
        span = f" ({self.interval.low:.4g}-{self.interval.high:.4g})" if self.interval else ""
        return f"<{self.id or 'Calculation'} {self.name}: {value}{span} {self.unit}".rstrip() + ">"


@dataclass(frozen=True, slots=True)
class Reason:
    """One sentence for or against a claim, with the ids of the cards behind it."""

    text: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HoursWon:
    """Lower bound (only this is repaired) and upper bound (the rest already is), of ``total_hours``; and how they were got."""

    low: float
    high: float
    how: str
    total_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A cause, how far it is established here, and the evidence on both sides."""

    cause: str
    title: str
    claim: str
    status: Status
    evidence_for: tuple[Reason, ...] = ()
    evidence_against: tuple[Reason, ...] = ()
    numbers: Mapping[str, Value] = field(default_factory=dict)
    hours_won: HoursWon | None = None
    fix: str = ""
    next_probe: str = ""
    id: str = ""

    def __repr__(self) -> str:
        return f"<{self.id or 'Hypothesis'} {self.cause}: {self.status}, {_short(self.claim or self.title)}>"


@dataclass(frozen=True, slots=True)
class Verification:
    """A deciding test: what each rival predicted, what was measured, and the verdict for the hypothesis tested."""

    cause: str
    test: str
    predicted: Mapping[str, str]
    measured: str
    verdict: Status
    reason: str
    inputs: tuple[str, ...] = ()
    numbers: Mapping[str, Value] = field(default_factory=dict)
    error_rates: str = ""
    id: str = ""

    def __repr__(self) -> str:
        return f"<{self.id or 'Verification'} {self.cause}: {self.verdict}, {_short(self.reason)}>"


@dataclass(frozen=True, slots=True)
class Note:
    """A line of the timeline that is not a card: what the user told the kit, a cancel, a failed probe."""

    text: str
    at: datetime


Entry: TypeAlias = Observation | Calculation | Hypothesis | Verification | Note


def _short(text: str, limit: int = 160) -> str:
    """One line, for a repr."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
