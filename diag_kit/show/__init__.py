"""What a person sees: the screen, the board, cards and charts. Finished data in, display out; nothing here asks a host.

Importing this loads neither altair nor ipywidgets; each comes with its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diag_kit.show.board import Board as Board
    from diag_kit.show.charts import hours_won as hours_won
    from diag_kit.show.charts import machine as machine
    from diag_kit.show.charts import readings as readings
    from diag_kit.show.charts import steps as steps
    from diag_kit.show.charts import who_read_what as who_read_what
    from diag_kit.show.display import register as register
    from diag_kit.show.picture import show as show
    from diag_kit.show.text import screen as screen

_HOME = {
    "Board": "board",
    "hours_won": "charts",
    "machine": "charts",
    "readings": "charts",
    "register": "display",
    "screen": "text",
    "show": "picture",
    "steps": "charts",
    "who_read_what": "charts",
}
__all__ = ["Board", "hours_won", "machine", "readings", "register", "screen", "show", "steps", "who_read_what"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"diag_kit.show.{_HOME[name]}"), name)
    raise AttributeError(f"module 'diag_kit.show' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
