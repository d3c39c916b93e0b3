"""Pasted text read by the parser of its kind. Probes say which kinds they read in ``reads``; the rest is listed, not dropped.

``also_reads`` names kinds in which a probe finds lines of its own beside the reader of that kind.

Logs of one run, one file for each rank, are read together; several logs that are no such family are read one by one, the one with
most metric records last, so that it is the one that calculations take.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from diag_kit.observe.logs.file_ranks import ranks_of_files
from diag_kit.observe.probe import all_probes, parameters_of, read_safely
from diag_kit.records import CommandResult, NotUnderstood, Observation, Parsed

if TYPE_CHECKING:
    from diag_kit.hosts.files import Document

LOG, PLAIN = "training_log", "text"


def observe_documents(documents: Iterable[Document]) -> tuple[Observation, ...]:
    """Observations (without ids) of all documents: everything else first, logs last."""
    pieces = [piece for document in documents for piece in _pieces(document)]
    logs = [(name, result) for name, kind, result in pieces if kind == LOG]
    others = [_read(name, kind, (result,)) for name, kind, result in pieces if kind != LOG]
    others += [seen for _, kind, result in pieces for seen in _read_also(kind, result)]
    ranks = ranks_of_files([name for name, _ in logs])
    if len(logs) > 1 and all(rank is not None for rank in ranks) and len(set(ranks)) == len(ranks):
        return (*others, _read(f"{len(logs)} logs, one for each rank", LOG, tuple(result for _, result in logs)))
    read = [_read(name, LOG, (result,)) for name, result in logs]
    return (*others, *sorted(read, key=_records))


def _records(seen: Observation) -> int:
    table = seen.table("metrics")
    return 0 if table is None else len(table)


def _pieces(document: Document) -> list[tuple[str, str, CommandResult]]:
    """(name, kind, result) of a document, or of each part of a terminal session."""
    if len(document.parts) <= 1:
        return [(document.name, document.kind, document.as_result())]
    return [(f"{document.name} from line {part.line}", part.kind, document.as_result(part)) for part in document.parts]


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
    listed = NotUnderstood(name, kind, "no parser for this kind yet")
    summary = f"{name}: {kind}, not read"
    return Observation(
        "document",
        {"name": name, "kind": kind},
        results[0].command,
        results,
        Parsed(summary, not_understood=(listed,)),
    )
