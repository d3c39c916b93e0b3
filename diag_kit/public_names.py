"""Packages whose public names win over submodules of the same name.

``dk.observe.memory`` is the probe, although ``diag_kit/observe/memory.py`` is a module as well: importing a submodule binds it
as an attribute of its package, which would hide the probe. ``from diag_kit.observe.memory import Memory`` works as always.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_is_public: dict[str, Callable[[str, ModuleType], bool]] = {}


class PublicNames(ModuleType):
    """A package that refuses to bind a submodule under a public name; its ``__getattr__`` gives the public object."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and _is_public[self.__name__](name, value):
            return
        super().__setattr__(name, value)


def win_over_submodules(package: str, is_public: Callable[[str, ModuleType], bool]) -> None:
    """Make the names for which ``is_public(name, submodule)`` holds stay public in that package."""
    _is_public[package] = is_public
    sys.modules[package].__class__ = PublicNames
