"""Pasted text read by the parser of its kind. Probes say which kinds they read in ``reads``; the rest is listed, not dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diag_kit.observe.probe import all_probes, parameters_of, read_safely
from diag_kit.records import CommandResult, NotUnderstood, Observation, Parsed

if TYPE_CHECKING:
    from diag_kit.hosts.files import Document


def observe_document(document: Document) -> tuple[Observation, ...]:
    """One observation (without id) for each part of the document."""
    if len(document.parts) <= 1:
        return (observe_text(document.name, document.kind, document.as_result()),)
    return tuple(
        observe_text(f"{document.name} from line {part.line}", part.kind, document.as_result(part))
        for part in document.parts
    )


def observe_text(name: str, kind: str, result: CommandResult) -> Observation:
    """What the probe for this kind of text makes of it."""
    for probe_name, cls in all_probes().items():
        if kind in getattr(cls, "reads", ()):
            asked = cls()
            return Observation(
                probe=probe_name,
                parameters=parameters_of(asked),
                equivalent=result.command,
                results=(result,),
                parsed=read_safely(asked, (result,)),
                cost=asked.cost,
            )
    return Observation(
        probe="document",
        parameters={"name": name, "kind": kind},
        equivalent=result.command,
        results=(result,),
        parsed=Parsed(
            summary=f"{name}: {kind}, not read",
            not_understood=(NotUnderstood(name, kind, "no parser for this kind yet"),),
        ),
    )
