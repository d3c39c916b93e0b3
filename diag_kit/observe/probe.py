"""What a probe is, and the list of all of them.

A probe is a frozen dataclass: its fields are its parameters (JSON values, so that a saved observation names them), its
``collect`` asks a host, its ``read`` is a pure parser from raw results to typed rows. Adding one means adding a module
under ``observe/`` whose class carries ``@probe``; nothing else has to change.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import threading
from collections.abc import Iterable
from typing import Any, ClassVar, Protocol, TypeVar

from diag_kit.errors import BadInput, Cancelled, DiagError
from diag_kit.evidence import Evidence
from diag_kit.hosts.protocol import Host
from diag_kit.records import CommandResult, Cost, Entry, Observation, Parsed


class Probe(Protocol):
    """One thing that can be looked at."""

    name: ClassVar[str]
    cost: ClassVar[Cost]
    equivalent: ClassVar[str]
    """The shell command that a person would type, for the card, the docs and the list of probes."""

    @property
    def budget_s(self) -> float:
        """Seconds this may take, its sampling window included."""
        ...

    def collect(self, host: Host, known: Evidence, stop: threading.Event | None = None) -> tuple[CommandResult, ...]:
        """Ask the host. ``known`` gives what earlier probes found (a log's path, the ranks' pids) where a parameter is
        not set. Raises NothingToObserve when there is nothing to ask for."""
        ...

    def read(self, results: tuple[CommandResult, ...]) -> Parsed:
        """Pure: bytes in, facts and tables out. Never raises on any bytes; what it cannot read goes to ``not_understood``."""
        ...


P = TypeVar("P")
_PROBES: dict[str, type[Any]] = {}


def probe(cls: type[P]) -> type[P]:
    """Class decorator that enters a probe in the list."""
    name = cls.name  # type: ignore[attr-defined]
    there = _PROBES.get(name)
    if there is not None and (there.__module__, there.__qualname__) != (cls.__module__, cls.__qualname__):
        raise BadInput(f"two probes are called {name}", where=cls.__module__, next_step="rename one")
    _PROBES[name] = cls
    return cls


def all_probes() -> dict[str, type[Any]]:
    """Every probe class by name; imports all modules under ``observe/`` on first use."""
    import diag_kit.observe as package

    for module in pkgutil.walk_packages(package.__path__, prefix="diag_kit.observe."):
        importlib.import_module(module.name)
    return dict(sorted(_PROBES.items()))


def parameters_of(asked: Probe) -> dict[str, Any]:
    """The probe's parameters as JSON values."""
    return dataclasses.asdict(asked)  # type: ignore[call-overload, no-any-return]


def observe(asked: Probe, host: Host, known: Evidence, stop: threading.Event | None = None) -> Observation:
    """Ask, parse, and bind both into an observation (without id)."""
    results = asked.collect(host, known, stop)
    return Observation(
        probe=asked.name,
        parameters=parameters_of(asked),
        equivalent=asked.equivalent,
        results=results,
        parsed=read_safely(asked, results),
        cost=asked.cost,
    )


def not_observed(asked: Probe, error: DiagError) -> Observation:
    """The card of a probe that could not be asked: it says why."""
    parsed = Parsed(summary="not observed", problems=(str(error),))
    return Observation(asked.name, parameters_of(asked), asked.equivalent, (), parsed, asked.cost)


CUT = "stopped by the user before its end"


def as_far_as_it_came(seen: Observation) -> Observation:
    """What a stop left of it. Samples of a window are samples, however many; half of a list would pass for all of it.

    Raises Cancelled where nothing had come.
    """
    if all(result.exit_status is not None for result in seen.results):
        return seen
    if not any(result.stdout for result in seen.results):
        raise Cancelled(f"{seen.probe} was {CUT}; nothing had come")
    if "seconds" in seen.parameters:
        said = any("stopped before" in problem for problem in seen.parsed.problems)
        more = () if said else (f"{CUT}: what came until then is kept",)
        parsed = dataclasses.replace(seen.parsed, problems=(*seen.parsed.problems, *more))
    else:
        parsed = Parsed(CUT, problems=(f"{CUT}: the raw output is kept and was not read",))
    return dataclasses.replace(seen, parsed=parsed)


def from_recording(asked: Probe, recorded: Iterable[Entry], turn: int = 0) -> Observation | None:
    """What a recording's ledger holds for this probe with these parameters, read by the parser of today; None if nothing.

    Commands change between versions of the kit; the raw results that a card rests on stay with the card.
    """
    observed = (entry for entry in recorded if isinstance(entry, Observation))
    held = [(entry, then) for entry in observed if (then := _asked_then(asked, entry)) is not None]
    same = [each for each in held if each[1] == asked] or [each for each in held if _but_for_the_window(each[1], asked)]
    if not same:
        return None
    entry, then = same[min(turn, len(same) - 1)]
    parsed = read_safely(then, entry.results)
    return Observation(asked.name, parameters_of(then), asked.equivalent, entry.results, parsed, asked.cost)


WINDOW = frozenset({"seconds", "interval_s"})
"""Parameters that say how long and how often was looked: a recording answers with the window that it holds, and says which."""


def _asked_then(asked: Probe, entry: Observation) -> Probe | None:
    """The probe as it was asked for that entry; None if the entry is of another probe, holds nothing, or is too old to say."""
    if entry.probe != asked.name or not entry.results:
        return None
    try:
        then: Probe = type(asked)(**entry.parameters)
    except TypeError:
        return None
    return then


def _but_for_the_window(then: Probe, asked: Probe) -> bool:
    old, new = parameters_of(then), parameters_of(asked)
    return {n: v for n, v in old.items() if n not in WINDOW} == {n: v for n, v in new.items() if n not in WINDOW}


def read_safely(asked: Probe, results: tuple[CommandResult, ...]) -> Parsed:
    """``read``, which never raises; should it, a fault of one parser must not hide what the others saw."""
    try:
        return asked.read(results)
    except Exception as error:
        why = f"{asked.name} could not read its output ({type(error).__name__}: {error})"
        return Parsed(summary="not read", problems=(f"diag_kit's own fault: {why}; the raw output is kept",))
