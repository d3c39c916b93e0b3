"""Pasted text read by the parser of its kind. Probes say which kinds they read in ``reads``; the rest is listed, not dropped.

``also_reads`` names kinds in which a probe finds lines of its own beside the reader of that kind.

Logs of one run (one file for each rank, the files of one attempt, the parts of a rotated log) are read together; several logs
that are no such family are read one by one, the newest attempt and then the one with most metric records last, so that it is
the one that calculations take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from diag_kit.observe.logs.file_families import families_of_files
from diag_kit.observe.probe import all_probes, parameters_of, read_safely
from diag_kit.observe.raw import show
from diag_kit.observe.tool_errors import tool_errors
from diag_kit.records import CommandResult, NotUnderstood, Observation, Parsed

if TYPE_CHECKING:
    from diag_kit.hosts.files import Document
    from diag_kit.hosts.kinds import Part

LOG, PLAIN = "training_log", "text"


def observe_documents(documents: Iterable[Document]) -> tuple[Observation, ...]:
    """Observations (without ids) of all documents: everything else first, logs last."""
    pieces = [piece for document in documents for piece in _pieces(document)]
    logs = [(name, result) for name, kind, result in pieces if kind == LOG]
    others = [_read(name, kind, (result,)) for name, kind, result in pieces if kind != LOG]
    others += [seen for _, kind, result in pieces for seen in _read_also(kind, result)]
    families = families_of_files([name for name, _ in logs])
    read = [(family.attempt, _read(family.label, LOG, tuple(logs[i][1] for i in family.members))) for family in families]
    return (*others, *(seen for _, seen in sorted(read, key=lambda pair: (pair[0], _records(pair[1])))))


def _records(seen: Observation) -> int:
    table = seen.table("metrics")
    return 0 if table is None else len(table)


def _pieces(document: Document) -> list[tuple[str, str, CommandResult]]:
    """(name, kind, result) of a document, or of each part of a terminal session."""
    if len(document.parts) <= 1 and not any(part.command for part in document.parts):
        return [(document.name, document.kind, document.as_result())]
    return [(_part_name(document, part), part.kind, document.as_result(part)) for part in document.parts]


def _part_name(document: Document, part: Part) -> str:
    return part.command if part.is_file else f"{document.name} from line {part.line}"


def _read_also(kind: str, result: CommandResult) -> list[Observation]:
    """What other probes find among lines that are not their kind (NCCL's in a training log); nothing when they find nothing."""
    seen = []
    for probe_name, cls in all_probes().items():
        if kind in getattr(cls, "also_reads", ()):
            asked = cls()
            parsed = read_safely(asked, (result,))
            if parsed.facts or any(len(table) for table in parsed.tables.values()):
                seen.append(Observation(probe_name, parameters_of(asked), result.command, (result,), parsed, asked.cost))
    return seen


def _read(name: str, kind: str, results: tuple[CommandResult, ...]) -> Observation:
    """What the probe for this kind of text makes of it; plain text is tried as a log, and kept as one if that says something."""
    wanted = LOG if kind == PLAIN else kind
    for probe_name, cls in all_probes().items():
        if wanted in getattr(cls, "reads", ()):
            asked = cls()
            parsed = read_safely(asked, results)
            if kind == PLAIN and not (parsed.facts or any(len(table) for table in parsed.tables.values())):
                break
            command = "; ".join(result.command for result in results)
            return Observation(probe_name, parameters_of(asked), command, results, parsed, asked.cost)
    if kind == "empty":
        nothing = Parsed(f"{name}: {show(results[0].command)} printed nothing")
        return Observation("document", {"name": name, "kind": kind}, results[0].command, results, nothing)
    if kind == "tool_missing":
        problems = tuple(tool_errors(results[0].text)) or (f"{name} holds an error text, no output: {show(results[0].text)}",)
        said = Parsed(problems[0], problems=problems)
        return Observation("document", {"name": name, "kind": kind}, results[0].command, results, said)
    listed = NotUnderstood(name, kind, "no parser for this kind yet")
    summary = f"{name}: {kind}, not read"
    return Observation(
        "document",
        {"name": name, "kind": kind},
        results[0].command,
        results,
        Parsed(summary, not_understood=(listed,)),
    )
