"""What a caller hands to an investigation, checked before any work: each slip is one sentence with the call that was meant."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from diag_kit.calculate.calculator import Calculator, all_calculators
from diag_kit.errors import BadInput
from diag_kit.hosts.protocol import Host
from diag_kit.hypothesize.catalogue import all_causes
from diag_kit.observe.probe import Probe, all_probes

SHORTEST_S, LONGEST_S = 0.1, 3600.0
"""Bounds of a sampling window: shorter ones hold no two samples, longer ones are a monitoring system's work."""
MAY_BE_NOTHING = frozenset({"lines", "records", "elapsed_s", "gathers"})
"""Assumptions that may be 0: nothing was written, or sent, in that time."""
RECORDING, POSTMORTEM = (".diag.zip",), (".md", ".markdown", ".html", ".htm")


def meant(given: str, known: Iterable[str], otherwise: str) -> str:
    """``is X meant?`` with the nearest names, or what to say where nothing is near."""
    near = get_close_matches(given, list(known), n=3, cutoff=0.6)
    return f"is {' or '.join(near)} meant?" if near else otherwise


def host_or_refuse(host: Any) -> Host:
    """A host, not its name."""
    if isinstance(host, str | os.PathLike):
        name = os.fspath(host)
        raise BadInput(
            f"{name!r} names a host, a recording or a folder; an investigation wants it opened",
            next_step=f"dk.Investigation(dk.open_target({name!r})); a host over SSH is dk.connect({name!r})",
        )
    if isinstance(host, type) or not callable(getattr(host, "run", None)) or not hasattr(host, "name"):
        raise BadInput(
            f"{_shown(host)} is no host",
            next_step='give one of dk.connect("trainbox"), dk.local(), dk.replay("eagle3-35h"), dk.files("folder/")',
        )
    return host  # type: ignore[no-any-return]


def probe_or_refuse(probe: Any) -> Probe:
    """A probe, not its name, and not its class."""
    if _is_made(probe, "collect"):
        if getattr(probe, "seconds", None) is not None:
            seconds_or_refuse(probe.seconds)
        return probe  # type: ignore[no-any-return]
    raise _not_made(probe, "probe", "observe")


def calculator_or_refuse(calculator: Any) -> Calculator:
    """A calculator, not its name, and not its class."""
    if _is_made(calculator, "compute"):
        for field in dataclasses.fields(calculator) if dataclasses.is_dataclass(calculator) else ():
            _assumption_or_refuse(field.name, str(field.type), getattr(calculator, field.name))
        return calculator  # type: ignore[no-any-return]
    raise _not_made(calculator, "calculator", "calculate")


def _assumption_or_refuse(name: str, kind: str, value: Any) -> None:
    """A number that can be: a count or a size set by hand to nothing, or below it, would give hours below zero."""
    if value is None or not kind.startswith(("int", "float")):
        return
    number = isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)
    whole = "a whole number" if kind.startswith("int") else "a number"
    least = "at least" if name in MAY_BE_NOTHING else "above"
    enough = number and (value > 0 or (value == 0 and name in MAY_BE_NOTHING))
    if not enough or (kind.startswith("int") and value != int(value)):
        raise BadInput(f"{name}={value!r} cannot be: it is {whole} {least} 0", next_step=f"None leaves {name} as it was observed")


def _is_made(given: Any, method: str) -> bool:
    """One of the kit's, or one of the caller's own that has the same method."""
    return not isinstance(given, type) and callable(getattr(given, method, None))


def _not_made(given: Any, kind: str, verb: str) -> BadInput:
    known, others = all_probes(), all_calculators()
    other_kind, other_verb = "calculator", "calculate"
    if kind == "calculator":
        known, others, other_kind, other_verb = others, known, "probe", "observe"
    name = given if isinstance(given, str) else getattr(given, "name", None)
    if isinstance(name, str) and name in known:
        slip = f"the name of a {kind}" if isinstance(given, str) else f"the class of a {kind}: the parentheses are missing"
        return BadInput(f"{_shown(given)} is {slip}", next_step=f"inv.{verb}(dk.{verb}.{name}())")
    if isinstance(name, str) and name in others:
        right = f"inv.{other_verb}(dk.{other_verb}.{name}())"
        return BadInput(f"{_shown(given)} is a {other_kind}, not a {kind}", next_step=right)
    if isinstance(given, str):
        what = meant(given, known, f"there are {', '.join(known)}")
        return BadInput(f"no {kind} is called {given!r}", next_step=f"inv.{verb}(dk.{verb}.NAME()); {what}")
    return BadInput(f"{_shown(given)} is no {kind}", next_step=f"inv.{verb}(dk.{verb}.{next(iter(known))}()), for example")


def seconds_or_refuse(seconds: Any) -> float:
    """A window in seconds that can be waited for."""
    plain = isinstance(seconds, int | float) and not isinstance(seconds, bool) and math.isfinite(seconds)
    if not plain or not SHORTEST_S <= seconds <= LONGEST_S:
        raise BadInput(
            f"seconds={seconds!r} is no sampling window",
            next_step=f"give a number from {SHORTEST_S:g} to {LONGEST_S:g}, such as seconds=20",
        )
    return float(seconds)


def pid_or_refuse(pid: Any) -> int | None:
    """The number of a process, or None."""
    if pid is None or (isinstance(pid, int) and not isinstance(pid, bool) and pid > 0):
        return pid
    raise BadInput(f"pid={pid!r} is no process id", next_step="give a whole number above 0, as ps prints it, such as pid=4711")


def path_or_refuse(path: Any, suffixes: tuple[str, ...], what: str) -> Path:
    """Where ``what`` can be written: the suffix fits, the folder is there and may be written to. Nothing is created."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise BadInput(f"{path!r} is no path for {what}", next_step=f"give a name that ends in {' or '.join(suffixes)}")
    try:
        target = Path(path).expanduser()
    except RuntimeError:  # ~nobody
        target = Path(path)
    if not target.name.lower().endswith(suffixes) or target.name.lower() in suffixes:
        raise BadInput(f"{target} cannot hold {what}", next_step=f"end its name in {' or '.join(suffixes)}")
    parent = target.parent
    if not parent.is_dir():
        what = f"there is no folder {parent} to write {target.name} in"
        raise BadInput(what, next_step=f"make it (mkdir -p {parent}), or name another")
    if target.is_dir():
        raise BadInput(f"{target} is a folder", next_step=f"give the name of a file for {what}")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise BadInput(f"the folder {parent} cannot be written to", next_step="name another folder")
    return target


def cause_or_refuse(cause: Any, tests: Iterable[str]) -> str:
    """A cause that has a deciding test."""
    known = sorted(tests)
    if isinstance(cause, str) and cause in known:
        return cause
    name = cause if isinstance(cause, str) else getattr(cause, "cause", "")
    listed = f"tests are there for {', '.join(known)}"
    if isinstance(name, str) and name in known:
        raise BadInput(f"{_shown(cause)} is a finding, not the id of a cause", next_step=f'inv.verify("{name}")')
    if isinstance(name, str) and name in all_causes():
        raise BadInput(f"there is no deciding test for {name}", next_step=listed)
    raise BadInput(
        f"no cause is called {name!r}" if name else f"{_shown(cause)} is no cause", next_step=meant(str(name), known, listed)
    )


def _shown(given: Any) -> str:
    """Short, whatever it is."""
    if isinstance(given, type):
        return f"{given.__module__.removeprefix('diag_kit.')}.{given.__qualname__}"
    text = repr(given)
    return text if len(text) <= 80 else f"{text[:79]}…"
