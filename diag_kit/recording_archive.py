"""The container of a recording: a zip of named members with a manifest that gives the SHA-256 of each.

Reading is for files from strangers: bounded in size, no path outside, no link, nothing executed, every byte checked against
the manifest. Writing is deterministic (fixed times, sorted names) and atomic (a temporary file beside the target, then rename).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import stat
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diag_kit.errors import BadInput

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
MAX_MEMBERS = 100_000
MAX_MEMBER_BYTES = 128 * 2**20
MAX_TOTAL_BYTES = 1024 * 2**20
_FIXED_TIME = (1980, 1, 1, 0, 0, 0)
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)*")


def pack(manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> bytes:
    """The bytes of the zip. Equal content gives equal bytes."""
    total = sum(len(data) for data in members.values())
    largest = max((len(data) for data in members.values()), default=0)
    if len(members) >= MAX_MEMBERS or largest > MAX_MEMBER_BYTES or total > MAX_TOTAL_BYTES:
        raise BadInput(
            f"too much for one recording: {len(members)} parts, {total / 2**20:.0f} MiB in all, "
            f"the largest {largest / 2**20:.0f} MiB",
            next_step=f"record less at once (limits: {MAX_TOTAL_BYTES // 2**20} MiB in all, "
            f"{MAX_MEMBER_BYTES // 2**20} MiB a part)",
        )
    hashes = {name: hashlib.sha256(members[name]).hexdigest() for name in sorted(members)}
    head = json.dumps({**manifest, "members": hashes}, indent=1, allow_nan=False).encode("ascii") + b"\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in [(MANIFEST, head), *((name, members[name]) for name in sorted(members))]:
            info = zipfile.ZipInfo(name, _FIXED_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, data, compresslevel=6)
    return buffer.getvalue()


def write_atomic(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``, or leave it as it was."""
    target = path.resolve()
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            if target.exists():
                os.fchmod(file.fileno(), stat.S_IMODE(target.stat().st_mode))
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as problem:
        raise BadInput(
            f"could not save: {problem.strerror or problem}",
            where=str(path),
            next_step="nothing was changed; choose a folder that exists and can be written",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def unpack(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest and all members, checked. Raises BadInput, one sentence, for anything that is not as it must be."""
    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > MAX_TOTAL_BYTES:
                raise _refused(f"it is larger than {MAX_TOTAL_BYTES // 2**20} MiB", path)
            return _unpack(file, path)
    except FileNotFoundError:
        raise BadInput("there is no such recording", where=str(path), next_step="check the path") from None
    except OSError as problem:
        raise BadInput(f"cannot read it: {problem.strerror or problem}", where=str(path)) from None


def _unpack(file: Any, path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    starts_like_zip = file.read(2) == b"PK"
    try:
        with zipfile.ZipFile(file) as archive:
            infos = _checked_infos(archive, path)
            if MANIFEST not in infos:
                raise BadInput(
                    "this zip is not a recording: it has no manifest.json", where=str(path), next_step="see `inv.save()`"
                )
            manifest = _manifest(_read(archive, infos.pop(MANIFEST), path), path)
            return manifest, _members(archive, infos, manifest, path)
    except zipfile.BadZipFile:
        what = "the file is cut off or damaged" if starts_like_zip else "this is not a recording (not a zip file)"
        raise BadInput(what, where=str(path), next_step="copy it again, or check the path") from None
    except (zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, UnicodeError, KeyError) as problem:
        if isinstance(problem, BadInput):
            raise
        raise _refused(f"its zip structure is damaged ({str(problem)[:100]})", path) from None


def _checked_infos(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    infos: dict[str, zipfile.ZipInfo] = {}
    listed = archive.infolist()
    if len(listed) > MAX_MEMBERS:
        raise _refused(f"it has more than {MAX_MEMBERS} members", path)
    for info in listed:
        name = info.filename
        if name in infos:
            raise _refused(f"it holds {name!r} twice", path)
        if len(name) > 200 or not _SAFE_NAME.fullmatch(name):
            raise _refused(f"the member name {name[:80]!r} leads outside or is not a plain name", path)
        if (kind := info.external_attr >> 16) and not stat.S_ISREG(kind) and stat.S_IFMT(kind):
            raise _refused(f"the member {name!r} is a link or another special file", path)
        if info.flag_bits & 0x1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _refused(f"the member {name!r} is encrypted or packed in another way", path)
        if info.file_size > MAX_MEMBER_BYTES:
            raise _refused(f"the member {name!r} would unpack to {info.file_size / 2**20:.0f} MiB", path)
        infos[name] = info
    if (total := sum(info.file_size for info in listed)) > MAX_TOTAL_BYTES:
        raise _refused(f"it would unpack to {total / 2**20:.0f} MiB", path)
    return infos


def _manifest(data: bytes, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        raise _refused("its manifest.json is not JSON", path) from None
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format_version"), int):
        raise BadInput("this zip is not a recording: its manifest.json names no format_version", where=str(path))
    if manifest["format_version"] > FORMAT_VERSION:
        writer = str(manifest.get("kit_version", "unknown"))[:40]
        raise BadInput(
            f"this recording has format {manifest['format_version']}, written by diag_kit {writer}; "
            f"this diag_kit reads formats up to {FORMAT_VERSION}",
            where=str(path),
            next_step=f"pip install 'diag-kit>={writer}'",
        )
    return manifest


def _members(
    archive: zipfile.ZipFile, infos: Mapping[str, zipfile.ZipInfo], manifest: Mapping[str, Any], path: Path
) -> dict[str, bytes]:
    hashes = manifest.get("members")
    if not isinstance(hashes, dict):
        raise _refused("its manifest.json does not list the members", path)
    if missing := sorted(set(hashes) - set(infos)):
        raise _refused(f"the member {missing[0][:100]!r} is missing", path)
    if unlisted := sorted(set(infos) - set(hashes)):
        raise _refused(f"the member {unlisted[0]!r} is not in the manifest", path)
    members = {}
    for name, info in infos.items():
        members[name] = _read(archive, info, path)
        digest = hashlib.sha256(members[name]).hexdigest()
        stem = name.partition("/")[2].partition(".")[0]
        if digest != hashes[name] or (name.startswith(("raw/", "tables/")) and stem != digest):
            raise _changed(name, path)
    return members


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> bytes:
    """At most the size that was declared: a member that unpacks to more is refused before it is held."""
    try:
        with archive.open(info) as member:
            data = member.read(info.file_size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise _changed(info.filename, path) from None
    if len(data) != info.file_size:
        raise _changed(info.filename, path)
    return data


def _changed(name: str, path: Path) -> BadInput:
    return BadInput(
        f"the recording was changed or damaged: {name} does not have the bytes (SHA-256) that were recorded",
        where=f"{path}: {name}",
        next_step="nothing in it can be relied on; get the original file",
    )


def _refused(why: str, path: Path) -> BadInput:
    return BadInput(f"this recording is refused: {why}", where=str(path), next_step="get it from its author again")
