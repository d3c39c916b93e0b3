"""What can be looked at. Each name is a probe: ``inv.observe(dk.observe.iostat(seconds=10))``.

The names come from the probes themselves (their ``name``): adding a module with a ``@probe`` class adds a name here.
"""

from __future__ import annotations

from difflib import get_close_matches
from types import ModuleType
from typing import Any

from diag_kit.public_names import win_over_submodules


def _holds_probe(name: str, module: ModuleType) -> bool:
    """Whether the submodule defines the probe of its own name."""
    return any(isinstance(each, type) and getattr(each, "name", None) == name for each in vars(module).values())


win_over_submodules(__name__, _holds_probe)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    from diag_kit.observe.probe import all_probes

    probes = all_probes()
    if name in probes:
        return probes[name]
    near = " or ".join(get_close_matches(name, probes, n=2))
    meant = f"is {near} meant? " if near else ""
    raise AttributeError(f"there is no probe called {name!r}; {meant}there are {', '.join(probes)}")


def __dir__() -> list[str]:
    from diag_kit.observe.probe import all_probes

    return list(all_probes())
