"""What a deciding test is, and the list of all of them: which probes to run for a cause, and how to judge their outcome."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from diag_kit.evidence import Evidence
from diag_kit.observe.probe import Probe
from diag_kit.records import Verification


@dataclass(frozen=True, slots=True)
class DecidingTest:
    """``probes`` gives the rungs of the ladder, cheapest first, given what is known; ``judge`` is pure.

    The kit runs rungs in order and judges after each, until the verdict is confirmed or refuted. Careful rungs are run only with
    the user's consent (``inv.verify(cause, careful=True)``).
    """

    cause: str
    title: str
    probes: Callable[[Evidence], tuple[Probe, ...]]
    judge: Callable[[Evidence], Verification]


_TESTS: dict[str, DecidingTest] = {}


def deciding_test(test: DecidingTest) -> DecidingTest:
    """Enter a test in the list."""
    _TESTS[test.cause] = test
    return test


def all_tests() -> dict[str, DecidingTest]:
    """Every deciding test by cause id; imports all modules of this folder on first use."""
    import diag_kit.verify as package

    for module in pkgutil.iter_modules(package.__path__, prefix="diag_kit.verify."):
        importlib.import_module(module.name)
    return dict(sorted(_TESTS.items()))
