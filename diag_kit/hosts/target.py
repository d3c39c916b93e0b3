"""One name for whatever there is to ask: a folder or file, a recording, this machine, or a host."""

from __future__ import annotations

import os
from difflib import get_close_matches
from pathlib import Path

from diag_kit.errors import BadInput, HostUnreachable
from diag_kit.hosts.protocol import Host

_OF_FILES = (".log", ".txt", ".out", ".err", ".json", ".jsonl", ".csv", ".zip", ".py")
"""Endings that a mistyped file has and a host name hardly ever."""
_ZIP = b"PK\x03\x04"


def open_target(target: str | os.PathLike[str]) -> Host:
    """A folder of pasted outputs or one such file, a recording (shipped name or file), ``local``, or a host, in this order.

    What looks like a path (it holds a slash, or begins with ``~`` or ``.``) is never taken for a host. Raises BadInput.
    """
    from diag_kit.hosts.files import files
    from diag_kit.hosts.recorded import replay, shipped_recordings

    name = os.fspath(target) if isinstance(target, str | os.PathLike) else target
    if not isinstance(name, str) or not name.strip() or "\0" in name:
        raise BadInput(
            f"{name!r} names nothing to look at",
            next_step="give a host (alias of ~/.ssh/config, user@host[:port]), local, a recording, a folder or a file of outputs",
        )
    path = expanded(name)
    if _is(path, "folder"):
        return files(path)
    if name in shipped_recordings():
        return replay(name)
    if _is(path, "file"):
        return replay(path) if path.name.endswith(".diag.zip") or _is_zip(path) else files(path)
    if looks_like_a_path(name):
        where = f" ({path})" if name.startswith("~") else ""
        raise BadInput(f"there is no file or folder {name}{where}", next_step=_near(path) or "check the path")
    if name.endswith(".diag.zip"):
        return replay(name)  # says that there is none, and which are shipped
    if name == "local":
        from diag_kit.hosts.local import local

        return local()
    return _connect(name, shipped_recordings())


def expanded(name: str) -> Path:
    """With ``~`` and ``~user`` as the home folder, where there is one."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def looks_like_a_path(name: str) -> bool:
    """``./a``, ``../a``, ``~/a``, ``/a``, ``a/b``, ``.``: nobody names a host so, but for ``ssh://host``."""
    return (
        name.startswith(("~", ".")) or (os.sep in name.removesuffix(os.sep) and not name.startswith("ssh://")) or name == os.sep
    )


def _connect(name: str, recordings: tuple[str, ...]) -> Host:
    from diag_kit.hosts.connection import connect

    try:
        return connect(name)
    except HostUnreachable as error:
        meant = get_close_matches(name, recordings, n=1)
        if meant:
            also = f"; or is the recording {meant[0]} meant?"
        elif name.lower().endswith(_OF_FILES):
            also = f"; or is a file meant? There is no {name} in {Path.cwd()}"
        else:
            raise
        raise HostUnreachable(error.what, where=error.where, next_step=f"{error.next_step}{also}") from None


def _is(path: Path, what: str) -> bool:
    """False for what cannot be a path at all, such as a name too long."""
    try:
        return path.is_dir() if what == "folder" else path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False


def _is_zip(path: Path) -> bool:
    try:
        with path.open("rb") as opened:
            return opened.read(4) == _ZIP
    except OSError:
        return False


def _near(path: Path) -> str:
    """Names beside it that are nearly the same; or the part of the path that is missing already."""
    parent = path.parent
    if not _is(parent, "folder"):
        return f"there is no folder {parent} either: check the path"
    try:
        names = sorted(each.name for each in parent.iterdir())
    except OSError:
        return ""
    near = get_close_matches(path.name, names, n=3)
    return f"is {' or '.join(str(parent / each) for each in near)} meant?" if near else ""
