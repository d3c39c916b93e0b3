"""Where a calculation's input comes from: set by hand, told, stated by a source, or assumed; and what contradicts it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from diag_kit.evidence import Evidence
from diag_kit.records import Assumption, Calculation, Fact, Interval, Value

ASSUMED = "assumed"
BY_HAND = "set by hand"


@dataclass(frozen=True, slots=True)
class Known:
    """A number, who says so, the cards behind it, and a sentence where another source says something else."""

    name: str
    value: float | None
    source: str = ""
    ids: tuple[str, ...] = ()
    unit: str = ""
    conflict: str = ""

    @property
    def assumed(self) -> bool:
        return self.source == ASSUMED

    @property
    def assumption(self) -> Assumption:
        return Assumption(self.name, tidy(self.value), self.source or "not known", self.unit)


def tidy(value: float | None) -> int | float | None:
    """A whole number as int."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def known(evidence: Evidence, name: str, by_hand: float | None = None, default: float | None = None, unit: str = "") -> Known:
    """The fact ``name``: by hand first, then what a user told, then the newest plain statement, then the newest weak one, then
    the default as an assumption. Only statements as strong as the one taken can contradict it.
    """
    if by_hand is not None:
        return Known(name, float(by_hand), BY_HAND, (), unit)
    stated = [
        (observation.probe == "told", fact, observation.id)
        for observation in evidence.observations
        for fact in observation.facts
        if fact.name == name and is_number(fact.value)
    ]
    if not stated:
        return Known(name, default, ASSUMED if default is not None else "", (), unit)
    told = [each for each in stated if each[0]]
    strongest = max(fact.strength for _, fact, _ in stated)
    plain = [each for each in stated if each[1].strength == strongest]
    _, fact, card = (told or plain)[-1]
    value = _float(fact)
    others = [f"{tidy(_float(f))} ({f.source})" for _, f, _ in plain if _float(f) != value]
    conflict = f"{name}: {tidy(value)} ({fact.source}), but also {', '.join(dict.fromkeys(others))}" if others else ""
    return Known(name, value, fact.source, (card,) if card else (), fact.unit or unit, conflict)


def _float(stated: Fact) -> float:
    return float(stated.value or 0)


def text_fact(evidence: Evidence, name: str) -> str:
    """The newest statement of a fact as text; empty when there is none."""
    found = evidence.fact(name)
    return "" if found is None else str(found.fact.value)


def calculated(evidence: Evidence, name: str) -> Calculation | None:
    """The standing calculation of that name, if it has a numeric value."""
    found = evidence.calculation(name)
    return found if found is not None and is_number(found.value) else None


def number_of(made: Calculation | None) -> float | None:
    """The numeric value of a calculation."""
    return float(made.value or 0) if made is not None and is_number(made.value) else None


def ids_of(*sources: Known | Calculation | None) -> tuple[str, ...]:
    """The ids behind inputs, in order, once each."""
    found: list[str] = []
    for source in sources:
        if isinstance(source, Known):
            found += source.ids
        elif source is not None and source.id:
            found.append(source.id)
    return tuple(dict.fromkeys(each for each in found if each))


def parameters(calculator: Any) -> Mapping[str, Value]:
    """A calculator's fields as the parameters of what it makes."""
    return {field.name: getattr(calculator, field.name) for field in fields(calculator)}


def scaled(interval: Interval | None, factor: float) -> Interval | None:
    """The interval of factor x value."""
    return None if interval is None else Interval(interval.low * factor, interval.high * factor, interval.level)


def inverse(interval: Interval | None, numerator: float = 1.0) -> Interval | None:
    """The interval of numerator / value; None if the value may be zero."""
    if interval is None or interval.low <= 0:
        return None
    return Interval(numerator / interval.high, numerator / interval.low, interval.level)


def sentences(*parts: str) -> str:
    """Notes joined; empty ones left out."""
    return "; ".join(part for part in parts if part)
