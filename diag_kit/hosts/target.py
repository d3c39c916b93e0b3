"""One name for whatever there is to ask: a folder, a recording, this machine, or a host."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from diag_kit.errors import HostUnreachable
from diag_kit.hosts.protocol import Host


def open_target(target: str) -> Host:
    """A folder of pasted outputs, a recording (shipped name or file), ``local``, or a host to connect to, in this order."""
    from diag_kit.hosts.files import files
    from diag_kit.hosts.recorded import replay, shipped_recordings

    if Path(target).is_dir():
        return files(target)
    if target in shipped_recordings() or target.endswith(".diag.zip") or Path(target).is_file():
        return replay(target)
    if target == "local":
        from diag_kit.hosts.local import local

        return local()
    from diag_kit.hosts.connection import connect

    try:
        return connect(target)
    except HostUnreachable as error:
        meant = get_close_matches(target, shipped_recordings(), n=1)
        if not meant:
            raise
        step = f"{error.next_step}; or is the recording {meant[0]} meant?"
        raise HostUnreachable(error.what, where=error.where, next_step=step) from None
