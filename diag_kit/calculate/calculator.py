"""What a calculator is, and the list of all of them.

A calculator is a frozen dataclass. Its fields are the inputs that somebody may want to set by hand, all None by default
(then taken from the evidence); ``compute`` returns calculations without ids, each with formula, inputs and assumptions.
``dataclasses.replace(calculator, field=value)`` is how a board changes an assumption.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, ClassVar, Protocol, TypeVar

from diag_kit.evidence import Evidence
from diag_kit.records import Calculation


class Calculator(Protocol):
    """Pure: evidence in, calculations out. What cannot be known has value None and a note that says what is missing."""

    name: ClassVar[str]

    def compute(self, evidence: Evidence) -> tuple[Calculation, ...]: ...


C = TypeVar("C")
_CALCULATORS: dict[str, type[Any]] = {}


def calculator(cls: type[C]) -> type[C]:
    """Class decorator that enters a calculator in the list."""
    _CALCULATORS[cls.name] = cls  # type: ignore[attr-defined]
    return cls


def all_calculators() -> dict[str, type[Any]]:
    """Every calculator class by name; imports all modules of this folder on first use."""
    import diag_kit.calculate as package

    for module in pkgutil.iter_modules(package.__path__, prefix="diag_kit.calculate."):
        importlib.import_module(module.name)
    return dict(sorted(_CALCULATORS.items()))
