"""The known log formats: one module each, found by name, tried in the order of their ``order``.

A module defines ``FORMAT``, an object with the members of ``Format``. Formats look anywhere in a message (whatever stood
in front of it is gone); what one claims is not offered to the next. Adding a framework is adding a module here, with a
folder of raw logs and expected rows under ``tests/data/logs``.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

from diag_kit.observe.logs.found import Found
from diag_kit.observe.logs.line import Line


class Format(Protocol):
    """One way to print metrics.

    ``framework``: what prints like that ("" for generic forms); ``order``: small numbers are asked first.
    """

    @property
    def name(self) -> str: ...

    @property
    def framework(self) -> str: ...

    @property
    def order(self) -> int: ...

    def find(self, text: str, line: Line) -> Sequence[Found]:
        """All records of this form in the text, left to right, not overlapping. Pure; never raises."""
        ...


@lru_cache(maxsize=1)
def all_formats() -> tuple[Format, ...]:
    """Every format, in order."""
    found: list[Format] = []
    for module in pkgutil.iter_modules(__path__, prefix=f"{__name__}."):
        known = getattr(importlib.import_module(module.name), "FORMAT", None)
        if known is not None:
            found.append(known)
    return tuple(sorted(found, key=lambda known: (known.order, known.name)))


@lru_cache(maxsize=1)
def gated_formats() -> tuple[tuple[str, Format], ...]:
    """Every format, in order, with a substring without which it finds nothing ("" where it says none): the cheap test."""
    return tuple((max(getattr(known, "gate", ()) or ("",), key=len), known) for known in all_formats())
