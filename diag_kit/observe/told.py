"""What the user tells the kit: a fact like any other, with its source said."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import ClassVar

from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.observe.probe import probe
from diag_kit.records import CommandResult, Cost, Fact, Parsed, Value


@probe
@dataclass(frozen=True)
class Told:
    """A fact that nothing on the host states, such as the step rate of an earlier run on one GPU. Contacts nothing.

    Equivalent: nothing to run. ``source`` says who says so and stands beside every number that follows from it.
    """

    fact: str
    value: Value
    unit: str = ""
    source: str = "told by the user"

    name: ClassVar[str] = "told"
    cost: ClassVar[Cost] = Cost.READ_ONLY
    equivalent: ClassVar[str] = ""

    @property
    def budget_s(self) -> float:
        return 0.0

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        return ()

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        return Parsed(
            summary=f"{self.fact} = {_plain(self.value)} {self.unit}".strip(),
            facts=(Fact(self.fact, self.value, self.source, self.unit),),
        )


def _plain(value: Value) -> str:
    """A whole number without its .0, with thousands apart."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
