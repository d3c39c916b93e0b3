"""The catalogue of causes: one module per family, each cause one plain function from evidence to a hypothesis.

Adding a cause means adding a function with ``@cause`` in a module of this folder; its docstring becomes its page: signature,
thresholds with their source, look-alikes, and the case in which it is wrong.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from diag_kit.evidence import Evidence
from diag_kit.records import Hypothesis

Rule = Callable[[Evidence], Hypothesis]


@dataclass(frozen=True, slots=True)
class Cause:
    """A stable id (public API), a title, whether it is a fault, and the rule."""

    id: str
    title: str
    rule: Rule
    is_fault: bool = True


_CAUSES: dict[str, Cause] = {}


def cause(id: str, title: str, *, is_fault: bool = True) -> Callable[[Rule], Rule]:
    """Decorator that enters a rule in the catalogue."""

    def enter(rule: Rule) -> Rule:
        _CAUSES[id] = Cause(id, title, rule, is_fault)
        return rule

    return enter


def all_causes() -> dict[str, Cause]:
    """Every cause by id; imports all modules of this folder on first use."""
    import diag_kit.hypothesize as package

    for module in pkgutil.iter_modules(package.__path__, prefix="diag_kit.hypothesize."):
        importlib.import_module(module.name)
    return dict(sorted(_CAUSES.items()))
