"""Which reader takes which kind of pasted text, and how probes of this folder use them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from diag_kit.hosts.kinds import kind_of
from diag_kit.observe.raw import show, why_cut_short
from diag_kit.observe.system.found import Found
from diag_kit.observe.tool_errors import tool_errors
from diag_kit.records import CommandResult

Reader: TypeAlias = Callable[[CommandResult, Found], None]


def read_pasted(result: CommandResult, readers: Mapping[str, Reader], found: Found) -> None:
    """One text by the reader of its kind. An error text instead of output is said as a problem."""
    kind = kind_of(result.stdout, command=result.command)
    reader = readers.get(kind)
    if reader is None:
        found.problems.extend(tool_errors(result.text) or [f"{show(result.command)}: nothing that this probe reads"])
    else:
        reader(result, found)
        if not any(found.rows.values()) and not found.facts:
            found.problems.extend(tool_errors(result.text))
    if cut := why_cut_short(result):
        found.problems.append(cut)
