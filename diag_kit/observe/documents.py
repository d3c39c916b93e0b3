"""A pasted file read by the parser of its kind. Probes say which kinds they read in ``reads``; the rest is listed, not dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from diag_kit.observe.probe import all_probes, parameters_of
from diag_kit.records import NotUnderstood, Observation, Parsed

if TYPE_CHECKING:
    from diag_kit.hosts.files import Document


def observe_document(document: Document) -> Observation:
    """The observation (without id) that the probe for this kind of document makes of it."""
    result = document.as_result()
    for name, cls in all_probes().items():
        if document.kind in getattr(cls, "reads", ()):
            asked = cls()
            return Observation(
                probe=name,
                parameters=parameters_of(asked),
                equivalent=result.command,
                results=(result,),
                parsed=asked.read((result,)),
                cost=asked.cost,
            )
    listed = NotUnderstood(document.name, document.kind, "no parser for this kind yet")
    return Observation(
        probe="document",
        parameters={"name": document.name, "kind": document.kind},
        equivalent=result.command,
        results=(result,),
        parsed=Parsed(summary=f"{document.name}: {document.kind}, not read", not_understood=(listed,)),
    )
