"""A read-only view over everything in a ledger: what calculators, rules and tests are given. No host, no clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from diag_kit.records import Calculation, Entry, Fact, Observation, Verification

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sourced:
    """A fact together with the id of the observation that states it."""

    fact: Fact
    id: str


class Evidence:
    """All entries of a ledger, newest last. Lookups give the newest, except where they say "all"."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: tuple[Entry, ...] = tuple(entries)

    def _of(self, kind: type[T]) -> Iterator[T]:
        return (entry for entry in self.entries if isinstance(entry, kind))

    @property
    def observations(self) -> tuple[Observation, ...]:
        return tuple(self._of(Observation))

    @property
    def calculations(self) -> tuple[Calculation, ...]:
        """Those that nothing has superseded, oldest first."""
        gone = {entry.supersedes for entry in self._of(Calculation) if entry.supersedes}
        return tuple(entry for entry in self._of(Calculation) if entry.id not in gone)

    @property
    def verifications(self) -> tuple[Verification, ...]:
        return tuple(self._of(Verification))

    def observed(self, probe: str) -> Observation | None:
        """The newest observation of that probe, whether it succeeded or not."""
        found = [entry for entry in self._of(Observation) if entry.probe == probe]
        return found[-1] if found else None

    def facts(self, name: str) -> tuple[Sourced, ...]:
        """All statements of that fact, oldest first: two that differ are a finding."""
        return tuple(Sourced(fact, entry.id) for entry in self._of(Observation) for fact in entry.facts if fact.name == name)

    def fact(self, name: str) -> Sourced | None:
        """The newest statement of that fact whose value is known."""
        known = [sourced for sourced in self.facts(name) if sourced.fact.value is not None]
        return known[-1] if known else None

    def number(self, name: str) -> float | None:
        """The newest numeric value of that fact."""
        known = [s.fact.value for s in self.facts(name) if isinstance(s.fact.value, int | float)]
        return float(known[-1]) if known else None

    def table(self, name: str) -> pd.DataFrame | None:
        """The newest non-empty table of that name."""
        sourced = self.sourced_table(name)
        return sourced[0] if sourced else None

    def sourced_table(self, name: str) -> tuple[pd.DataFrame, str] | None:
        """The newest non-empty table of that name, and the id of its observation."""
        for entry in reversed(self.observations):
            table = entry.table(name)
            if table is not None and len(table):
                return table, entry.id
        return None

    def calculation(self, name: str) -> Calculation | None:
        """The newest standing calculation of that name."""
        found = [entry for entry in self.calculations if entry.name == name]
        return found[-1] if found else None

    def verification(self, cause: str) -> Verification | None:
        found = [entry for entry in self._of(Verification) if entry.cause == cause]
        return found[-1] if found else None
