"""What can be looked at. Each name is a probe: ``inv.observe(dk.observe.iostat(seconds=10))``.

The names come from the probes themselves (their ``name``): adding a module with a ``@probe`` class adds a name here.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    from diag_kit.observe.probe import all_probes

    probes = all_probes()
    if name in probes:
        return probes[name]
    raise AttributeError(f"there is no probe called {name!r}; there are {', '.join(probes)}")


def __dir__() -> list[str]:
    from diag_kit.observe.probe import all_probes

    return list(all_probes())
