"""What a postmortem is made of: an investigation at one moment, redacted like a recording, because a report leaves the desk."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from diag_kit.hosts.protocol import Host
from diag_kit.records import Entry, Hypothesis
from diag_kit.redaction import Redactor


class Case(Protocol):
    """What a postmortem needs of an investigation."""

    @property
    def question(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def host(self) -> Host: ...
    @property
    def entries(self) -> tuple[Entry, ...]: ...
    @property
    def findings(self) -> Sequence[Hypothesis]: ...
    @property
    def redactions(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class Snapshot:
    """A case without its host. ``kept`` are kinds of names that somebody chose to leave readable."""

    question: str
    about: str
    host_name: str
    host_kind: str
    entries: tuple[Entry, ...]
    findings: tuple[Hypothesis, ...]
    redactions: Mapping[str, int] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    provenance_text: str = ""
    recorded_by: str = ""


def snapshot(case: Case, redactor: Redactor | None = None) -> Snapshot:
    """The case as it may be shown to others: every secret, name and address replaced as at saving, and counted.

    What a recording has replaced stays as it is, and what it kept readable stays readable. A ``redactor`` with ``keep``
    leaves further kinds of names readable.
    """
    origin = getattr(case.host, "recording", None)
    redactor = redactor if redactor is not None else Redactor(keep=getattr(origin, "kept", ()))
    raw = Snapshot(
        question=case.question,
        about=case.about,
        host_name=case.host.name,
        host_kind=case.host.kind,
        entries=case.entries,
        findings=tuple(case.findings),
        provenance_text=getattr(origin, "provenance_text", ""),
        recorded_by=getattr(origin, "kit_version", ""),
    )
    before = Counter(redactor.counts)
    redactor.learn_record(raw.entries)
    redactor.learn_record((raw.question, raw.provenance_text))
    name = raw.host_name if raw.host_kind in _NAMED_BY_THE_KIT else _host_name(redactor, raw.host_name)
    clean = dataclasses.replace(
        raw,
        question=redactor.text(raw.question),
        about=redactor.text(raw.about),
        host_name=name,
        entries=redactor.record(raw.entries),
        provenance_text=redactor.text(raw.provenance_text),
    )
    counts = Counter(redactor.counts)
    counts.subtract(before)
    counts.update(case.redactions)
    return dataclasses.replace(
        clean,
        findings=_same_findings(raw, clean, redactor),
        redactions={kind: count for kind, count in sorted(counts.items()) if count},
        kept=tuple(sorted(redactor.keep | set(getattr(origin, "kept", ())))),
    )


_NAMED_BY_THE_KIT = {"recorded", "local"}
"""Kinds of hosts whose name is that of a recording, or "local", and so names no machine."""


def _host_name(redactor: Redactor, name: str) -> str:
    redactor.learn_record({"host": name})
    return redactor.target(name)


def _same_findings(raw: Snapshot, clean: Snapshot, redactor: Redactor) -> tuple[Hypothesis, ...]:
    """The findings as they stand in the cleaned ledger, so that each remains the same object as its entry."""
    twins = {id(before): after for before, after in zip(raw.entries, clean.entries, strict=True)}
    found = (twins.get(id(each)) or redactor.record(each) for each in raw.findings)
    return tuple(each for each in found if isinstance(each, Hypothesis))
