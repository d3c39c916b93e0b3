"""A folder of pasted outputs, or one such file, as a host: it runs nothing; the kind of a document is told from its content."""

from __future__ import annotations

import itertools
import os
import shlex
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from diag_kit.errors import BadInput, NotRecorded
from diag_kit.hosts.kinds import Part, kind_of, split_parts
from diag_kit.hosts.protocol import DEFAULT_MAX_BYTES, DEFAULT_TIMEOUT_S
from diag_kit.records import CommandResult

MAX_FILE_BYTES = 64 * 2**20
MAX_TOTAL_BYTES = 512 * 2**20
MAX_FILES = 2000
_NAMED_BY_FILE = ("training_log", "python_source", "config", "table", "text")
"""Kinds whose parsers take the last word of the command for a file's name."""


@dataclass(frozen=True, slots=True)
class Document:
    """One file: ``name`` relative to the folder, its kind ("mixed" when it holds several), its bytes, its parts.

    Text that Windows wrote as UTF-16 is held as UTF-8, so that every parser can read it.
    """

    path: Path
    name: str
    kind: str
    data: bytes
    parts: tuple[Part, ...] = ()
    truncated: bool = False
    modified: datetime = datetime(1970, 1, 1, tzinfo=UTC)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    def as_result(self, part: Part | None = None) -> CommandResult:
        """As if the file, or a part of it, had been printed on a host: what a probe's parser takes.

        The command that was pasted above a part stays, and where it stood: ``free -m`` and ``iostat -y`` say what their output
        alone does not. Parsers that take a file's name find it first: ``cat session.txt # line 12: tail -f train.log``.
        """
        data = self.data if part is None else part.data
        command = shlex.join(["cat", self.name])
        if part is not None and part.is_file:
            command = shlex.join(["cat", part.command])
        elif part is not None and part.command and part.kind in _NAMED_BY_FILE:
            command += f" # line {part.line}: {part.command}"
        elif part is not None and part.command:
            command = f"{part.command} # {self.name}, line {part.line}"
        return CommandResult("files", command, data, b"", 0, self.modified, 0.0, self.truncated)


class FilesHost:
    """The documents of one folder. ``problems`` says what was left out and why."""

    kind = "files"
    about = "pasted files"

    def __init__(self, folder: Path, documents: tuple[Document, ...], problems: tuple[str, ...]) -> None:
        self.folder = folder
        self.name = folder.name or str(folder.resolve())
        self.documents = documents
        self.problems = problems

    def __repr__(self) -> str:
        return f"<{len(self.documents)} pasted files in {self.name}>"

    def of_kind(self, *kinds: str) -> tuple[Document, ...]:
        """The documents of these kinds."""
        return tuple(document for document in self.documents if document.kind in kinds)

    def run(
        self,
        script: str,
        *arguments: str,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        max_bytes: int = DEFAULT_MAX_BYTES,
        stop: threading.Event | None = None,
    ) -> CommandResult:
        raise NotRecorded(
            "a folder of pasted files cannot run commands",
            where=self.name,
            next_step="paste the output into the folder, or connect to the host",
        )

    def close(self) -> None:
        """Nothing is open."""


def files(folder: str | Path) -> FilesHost:
    """Read the files below ``folder``, or the one file that it names, at most 64 MiB each. Raises BadInput when it is neither a
    folder nor a file, or holds nothing that can be read."""
    root = _root(folder)
    documents: list[Document] = []
    problems: list[str] = []
    if root.is_file():
        _take(root.parent, root, MAX_FILE_BYTES, documents, problems, named=True)
    else:
        _take_all(root, documents, problems)
    if not documents:
        raise BadInput(f"{root} holds no readable file", where="; ".join(problems), next_step="put logs and outputs there")
    return FilesHost(root, tuple(documents), tuple(problems))


def _root(folder: str | Path) -> Path:
    step = "give a folder with logs, scripts and pasted outputs, or one such file"
    if not str(folder).strip():
        raise BadInput(f"{str(folder)!r} names no folder", next_step=step)
    try:
        root = Path(folder).expanduser()
        if root.is_dir() or root.is_file():
            return root
        why = "nor a regular file" if root.exists() else "nor a file: nothing is there"
    except (OSError, RuntimeError, ValueError, TypeError):  # no path at all, or ~nobody
        why = "nor a file"
    name = str(folder)[:300]
    raise BadInput(f"{name if name.isprintable() else repr(name)} is not a folder {why}", next_step=step)


def _take_all(root: Path, documents: list[Document], problems: list[str]) -> None:
    visible = (path for path in root.rglob("*") if not any(p.startswith(".") for p in path.relative_to(root).parts))
    paths = sorted(itertools.islice(visible, MAX_FILES + 1))
    room = MAX_TOTAL_BYTES
    for path in paths[:MAX_FILES]:
        room -= _take(root, path, min(room, MAX_FILE_BYTES), documents, problems)
    if len(paths) > MAX_FILES:
        problems.append(f"only {MAX_FILES} files of this folder were read; it holds more")


def _take(root: Path, path: Path, limit: int, documents: list[Document], problems: list[str], *, named: bool = False) -> int:
    """Read one file into ``documents``, or say in ``problems`` why not. Returns how many bytes are held.

    A file that the user ``named`` may be a link to anywhere."""
    name = path.relative_to(root).as_posix()
    try:
        if path.is_dir() and not path.is_symlink():
            return 0
        if not named and not path.resolve().is_relative_to(root.resolve()):
            problems.append(f"{name} is a link out of the folder and was not followed")
            return 0
        if not path.is_file():
            problems.append(f"{name} is not a regular file and was not read")
            return 0
        with path.open("rb") as opened:
            data = opened.read(limit + 1)
            modified = datetime.fromtimestamp(os.fstat(opened.fileno()).st_mtime, UTC)
    except (OSError, RuntimeError, ValueError, OverflowError) as error:  # RuntimeError: a link that leads to itself
        problems.append(f"{name} could not be read: {getattr(error, 'strerror', None) or error}")
        return 0
    if truncated := len(data) > limit:
        problems.append(f"only the first {limit / 2**20:.0f} MiB of {name} were read")
    data = _as_utf8(data[:limit])
    parts = split_parts(data, name)
    kind = parts[0].kind if len(parts) == 1 else "mixed"
    documents.append(Document(path, name, kind if parts else kind_of(data, name), data, parts, truncated, modified))
    return len(data)


def _as_utf8(data: bytes) -> bytes:
    """Without the mark at the start; UTF-16 (PowerShell's ``>``) as UTF-8."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace").encode("utf-8", "replace")
    return data.removeprefix(b"\xef\xbb\xbf")
