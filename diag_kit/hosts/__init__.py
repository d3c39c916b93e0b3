"""Where commands run: a live host over SSH, this machine, a recording, or a folder of pasted outputs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from diag_kit.public_names import win_over_submodules

if TYPE_CHECKING:
    from diag_kit.hosts.connection import connect as connect
    from diag_kit.hosts.recorded import replay as replay
    from diag_kit.hosts.target import open_target as open_target

    files: Any
    local: Any

__all__ = ["connect", "files", "local", "open_target", "replay"]

_HOME = {
    "connect": "diag_kit.hosts.connection",
    "files": "diag_kit.hosts.files",
    "local": "diag_kit.hosts.local",
    "open_target": "diag_kit.hosts.target",
    "replay": "diag_kit.hosts.recorded",
}


win_over_submodules(__name__, lambda name, module: name in _HOME)


def __getattr__(name: str) -> Any:
    """Each kind of host loads with its first use: a recording needs no SSH library."""
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'diag_kit.hosts' has no attribute {name!r}")
