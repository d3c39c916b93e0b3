"""What can be computed from what was seen: ``inv.calculate(dk.calculate.projection())``.

The names come from the calculators themselves (their ``name``): adding a module with a ``@calculator`` class adds a name here.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    from diag_kit.calculate.calculator import all_calculators

    calculators = all_calculators()
    if name in calculators:
        return calculators[name]
    near = " or ".join(get_close_matches(name, calculators, n=2))
    meant = f"is {near} meant? " if near else ""
    raise AttributeError(f"there is no calculator called {name!r}; {meant}there are {', '.join(calculators)}")


def __dir__() -> list[str]:
    from diag_kit.calculate.calculator import all_calculators

    return list(all_calculators())
