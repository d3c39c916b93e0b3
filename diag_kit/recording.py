"""A recording (``*.diag.zip``): the ledger, and every command that passed through the host with its raw output.

The file holds ``manifest.json`` (what it is, and the SHA-256 of every other member, of the redacted bytes), ``ledger.jsonl``,
``commands.jsonl`` and ``failures.jsonl`` (what was asked besides the ledger), ``raw/SHA256`` and ``tables/SHA256.json``.
Redaction comes before saving; opening checks every byte and runs no code.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from diag_kit import __version__, errors
from diag_kit.errors import BadInput, DiagError
from diag_kit.recording_archive import FORMAT_VERSION, MAX_TOTAL_BYTES, pack, unpack, write_atomic
from diag_kit.recording_codec import dump_line, entry_from_json, entry_to_json, from_json, load_lines, to_json
from diag_kit.records import CommandResult, Entry, Observation
from diag_kit.redaction import Redactor

__all__ = ["FORMAT_VERSION", "SUFFIX", "FailedCommand", "Recording", "Saved", "open_recording", "save"]

SUFFIX = ".diag.zip"
PROVENANCES = ("live", "reconstruction")
_LEDGER, _COMMANDS, _FAILURES = "ledger.jsonl", "commands.jsonl", "failures.jsonl"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FailedCommand:
    """A command that the host could not run: kept, so that a replay fails in the same way."""

    host: str
    command: str
    error: str
    what: str
    where: str = ""
    next_step: str = ""
    started: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    duration_s: float = 0.0

    def exception(self) -> DiagError:
        """The error as it was raised; a class that this version does not have becomes CommandFailed."""
        cls = getattr(errors, self.error, None)
        if not (isinstance(cls, type) and issubclass(cls, DiagError)):
            cls = errors.CommandFailed
        return cls(self.what, where=self.where, next_step=self.next_step)


@dataclass(frozen=True, slots=True)
class Recording:
    """What is saved and opened. ``extra`` may repeat results of the ledger; saving stores each once.

    ``created`` None means now, at saving. ``hosts`` are the names as the user gave them; saving takes those of the hosts
    that answered, if any did, because a folder of files or a recording has a name but is no host. ``redactions``, ``kept``,
    ``kit_version`` and ``format_version`` are filled by opening.
    """

    entries: tuple[Entry, ...] = ()
    question: str = ""
    title: str = ""
    provenance: str = "live"
    provenance_text: str = ""
    hosts: tuple[str, ...] = ()
    extra: tuple[CommandResult, ...] = ()
    failures: tuple[FailedCommand, ...] = ()
    created: datetime | None = None
    redactions: Mapping[str, int] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    kit_version: str = ""
    format_version: int = FORMAT_VERSION

    @property
    def about(self) -> str:
        """What must be said wherever its content is shown."""
        return "recorded" if self.provenance == "live" else f"recorded ({self.provenance})"

    @property
    def results(self) -> tuple[CommandResult, ...]:
        """Every command with its output, of the ledger and beside it, once each, in the order in which they were started."""
        every = {_identity(result): result for result in [*_ledger_results(self.entries), *self.extra]}
        return tuple(sorted(every.values(), key=lambda result: result.started))


@dataclass(frozen=True, slots=True)
class Saved:
    """What ``save`` wrote. ``recording`` is as it stands in the file, redacted; ``redactions`` counts places, by kind."""

    path: Path
    size_bytes: int
    redactions: Mapping[str, int]
    warnings: tuple[str, ...]
    recording: Recording = field(repr=False)


def save(path: str | Path, recording: Recording, *, redactor: Redactor | None = None) -> Saved:
    """Redact and write; either the whole file is there afterwards or what was there before.

    ``redactor`` None redacts everything that ``Redactor()`` finds. The names in ``recording.hosts`` and of the hosts that
    answered are always treated as host names. Commands beside the ledger that would make the file too large are left out,
    oldest first, with a warning. Raises BadInput if something cannot be saved or the path not written.
    """
    target = Path(path)
    redactor = redactor if redactor is not None else Redactor(keep=recording.kept)
    if recording.provenance not in PROVENANCES:
        raise BadInput(f"unknown provenance {recording.provenance!r}", next_step=f"choose one of {', '.join(PROVENANCES)}")
    extra, left_out = _bounded(_beside_ledger(recording), recording.entries)
    whole = dataclasses.replace(recording, extra=extra, hosts=_hosts(recording), created=recording.created or datetime.now(UTC))
    before = Counter(redactor.counts)
    redactor.learn_record(whole)
    clean = redactor.record(whole)
    counts = Counter(redactor.counts)
    counts.subtract(before)
    counts.update(recording.redactions)
    clean = dataclasses.replace(
        clean,
        redactions={kind: count for kind, count in sorted(counts.items()) if count},
        kept=tuple(sorted(redactor.keep | set(recording.kept))),
        kit_version=__version__,
        format_version=FORMAT_VERSION,
    )
    data = _to_bytes(clean)
    write_atomic(target, data)
    warnings = redactor.warnings
    if left_out:
        warnings += (f"{left_out} commands that no card refers to were left out: the recording would be too large",)
    return Saved(target, len(data), clean.redactions, warnings, clean)


def open_recording(path: str | Path) -> Recording:
    """The recording in that file. Raises BadInput, with one sentence, for a file that is not whole, not one, or too new."""
    source = Path(path)
    manifest, members = unpack(source)
    entries = tuple(entry_from_json(document, members, where) for document, where in _lines(source, _LEDGER, members))
    provenance = manifest.get("provenance")
    provenance = provenance if isinstance(provenance, dict) else {}
    head = {
        "question": manifest.get("question", ""),
        "title": manifest.get("title", ""),
        "created": manifest.get("created"),
        "hosts": manifest.get("hosts", []),
        "redactions": manifest.get("redactions", {}),
        "kept": manifest.get("kept", []),
        "kit_version": manifest.get("kit_version", ""),
        "format_version": manifest["format_version"],
        "provenance": provenance.get("kind", "live"),
        "provenance_text": provenance.get("text", ""),
    }
    opened = from_json(Recording, head, members, f"{source}: manifest.json")
    if opened.provenance not in PROVENANCES:
        raise BadInput(
            f"unknown provenance {opened.provenance[:40]!r}", where=f"{source}: manifest.json", next_step="record again"
        )
    return dataclasses.replace(
        opened,
        entries=entries,
        extra=tuple(from_json(CommandResult, document, members, at) for document, at in _lines(source, _COMMANDS, members)),
        failures=tuple(from_json(FailedCommand, document, members, at) for document, at in _lines(source, _FAILURES, members)),
    )


def _to_bytes(recording: Recording) -> bytes:
    members: dict[str, bytes] = {}
    ledger = b"".join(dump_line(entry_to_json(entry, members)) for entry in recording.entries)
    commands = b"".join(dump_line(to_json(result, members)) for result in recording.extra)
    failures = b"".join(dump_line(to_json(failure, members)) for failure in recording.failures)
    members |= {_LEDGER: ledger, _COMMANDS: commands, _FAILURES: failures}
    created = recording.created.astimezone(UTC).isoformat().replace("+00:00", "Z") if recording.created else None
    manifest = {
        "format": "diag_kit recording",
        "format_version": FORMAT_VERSION,
        "kit_version": recording.kit_version,
        "created": created,
        "question": recording.question,
        "title": recording.title,
        "provenance": {"kind": recording.provenance, "text": recording.provenance_text},
        "hosts": list(recording.hosts),
        "redactions": dict(recording.redactions),
        "kept": list(recording.kept),
        "hashes": "SHA-256 of each member as stored, after redaction",
    }
    return pack(manifest, members)


def _lines(source: Path, name: str, members: Mapping[str, bytes]) -> list[tuple[Any, str]]:
    return load_lines(members.get(name, b""), f"{source}: {name}")


def _ledger_results(entries: tuple[Entry, ...]) -> list[CommandResult]:
    return [result for entry in entries if isinstance(entry, Observation) for result in entry.results]


def _hosts(recording: Recording) -> tuple[str, ...]:
    answered = [result.host for result in recording.results] + [failure.host for failure in recording.failures]
    return tuple(dict.fromkeys(answered)) or recording.hosts


def _beside_ledger(recording: Recording) -> list[CommandResult]:
    """The extra results that are not in the ledger already. A result that was replayed is still the same one."""
    ledger = {_identity(result) for result in _ledger_results(recording.entries)}
    beside = {_identity(result): result for result in recording.extra}
    return [result for identity, result in beside.items() if identity not in ledger]


def _identity(result: CommandResult) -> tuple[Any, ...]:
    return (result.host, result.command, result.started, result.duration_s, result.stdout, result.stderr)


def _bounded(extra: list[CommandResult], entries: tuple[Entry, ...]) -> tuple[tuple[CommandResult, ...], int]:
    """As many of the newest as fit into three quarters of what opening accepts."""
    room = MAX_TOTAL_BYTES * 3 // 4 - sum(len(r.stdout) + len(r.stderr) for r in _ledger_results(entries))
    kept: list[CommandResult] = []
    for result in reversed(extra):
        room -= len(result.stdout) + len(result.stderr) + len(result.command)
        if room < 0:
            break
        kept.append(result)
    return tuple(reversed(kept)), len(extra) - len(kept)
