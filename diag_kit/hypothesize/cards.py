"""Reading cards for the rules: values of calculations, numbers for a card, reasons with the ids behind them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from diag_kit.calculate.inputs import known, number_of, tidy
from diag_kit.evidence import Evidence
from diag_kit.figures import figure
from diag_kit.records import Calculation, Reason, Value

if TYPE_CHECKING:
    import pandas as pd


def value(evidence: Evidence, name: str) -> float | None:
    """The standing calculation of that name, or the fact, as a number."""
    found = number_of(evidence.calculation(name))
    return found if found is not None else known(evidence, name).value


def calculated_numbers(evidence: Evidence, names: Iterable[str]) -> dict[str, Value]:
    """Numbers of calculations and facts under their names, intervals as NAME_low and NAME_high; unknown ones left out."""
    found: dict[str, Value] = {}
    for name in names:
        made = evidence.calculation(name)
        number = number_of(made)
        if made is None or number is None:
            number = known(evidence, name).value
            made = None
        if number is None:
            continue
        found[name] = tidy(number)
        if made is not None and made.interval is not None:
            found[f"{name}_low"], found[f"{name}_high"] = made.interval.low, made.interval.high
    return found


def ids(*sources: Calculation | str | None) -> tuple[str, ...]:
    """Ids of calculations and ids as they are, once each, empty ones left out."""
    found = [each if isinstance(each, str) else each.id for each in sources if each is not None]
    return tuple(dict.fromkeys(each for each in found if each))


def reason(text: str, *sources: Calculation | str | None) -> Reason:
    return Reason(text, ids(*sources))


def mean(table: pd.DataFrame | None, column: str) -> float | None:
    """Mean of a column; None where it is missing or holds nothing."""
    if table is None or column not in table:
        return None
    values = table[column].dropna()
    return float(values.astype("float64").mean()) if len(values) else None


def bytes_per_s(mb_per_s: float) -> str:
    """``3 kB/s``, ``1.2 MB/s``, ``0.70 GB/s``."""
    if mb_per_s >= 500:
        return f"{figure(mb_per_s / 1000, 2)} GB/s"
    if mb_per_s >= 1:
        return f"{figure(mb_per_s)} MB/s"
    return f"{figure(mb_per_s * 1000, 2)} kB/s"
