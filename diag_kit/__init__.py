"""diag_kit: why is this training run slow? Observe, calculate, hypothesize, verify, from a notebook.

Importing this package loads neither pandas nor altair nor paramiko; each comes with its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diag_kit import calculate as calculate
    from diag_kit import observe as observe
    from diag_kit import show as show
    from diag_kit.errors import DiagError as DiagError
    from diag_kit.hosts import connect as connect
    from diag_kit.hosts import open_target as open_target
    from diag_kit.hosts import replay as replay
    from diag_kit.hosts.files import files as files
    from diag_kit.hosts.local import local as local
    from diag_kit.investigation import Investigation as Investigation

__version__ = "0.1.0"
__all__ = ["DiagError", "Investigation", "calculate", "connect", "files", "local", "observe", "open_target", "replay", "show"]

_HOME = {
    "DiagError": "diag_kit.errors",
    "Investigation": "diag_kit.investigation",
    "connect": "diag_kit.hosts",
    "files": "diag_kit.hosts",
    "local": "diag_kit.hosts",
    "open_target": "diag_kit.hosts",
    "replay": "diag_kit.hosts",
}


def __getattr__(name: str) -> Any:
    if name in ("calculate", "observe", "show"):
        return importlib.import_module(f"diag_kit.{name}")
    if name in _HOME:
        found = getattr(importlib.import_module(_HOME[name]), name)
        if name == "Investigation":  # from here on there are records to show
            importlib.import_module("diag_kit.show.display").register()
        return found
    raise AttributeError(f"module 'diag_kit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
