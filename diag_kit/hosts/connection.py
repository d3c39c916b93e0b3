"""``connect``: a name in, a live host out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from diag_kit.errors import BadInput, DiagError

if TYPE_CHECKING:
    from diag_kit.hosts.base import ShellHost
    from diag_kit.hosts.timeouts import Timeouts

Transport = Literal["auto", "paramiko", "openssh"]


def connect(
    target: str,
    *,
    transport: Transport = "auto",
    timeouts: Timeouts | None = None,
    password: str | Callable[[], str] | None = None,
    config: str | Path | None = None,
) -> ShellHost:
    """Log in to a host and return it, ready to run commands. Nothing is installed or changed there.

    ``target`` is an alias of ~/.ssh/config, ``user@host``, ``user@host:port`` or ``[ipv6]:port``. Config, agent, keys, jump
    hosts and known_hosts are used as ssh uses them. ``transport``: "paramiko" (in this process), "openssh" (the system's
    ``ssh``: Kerberos, security keys, certificates), or "auto", which takes the second where the first cannot get in.
    ``password`` is a string, or a function that asks for it (``getpass.getpass``); it is asked for at most once, and never
    shown or stored. ``config`` is used instead of ~/.ssh/config, as is the environment variable DIAG_KIT_SSH_CONFIG.

    Raises HostUnreachable, HostKeyRefused, LoginRefused, CommandFailed (no usable shell there), BadInput.
    """
    if transport not in ("auto", "paramiko", "openssh"):
        raise BadInput(
            f"no transport is called {transport!r}", where="connect", next_step='choose "auto", "paramiko" or "openssh"'
        )
    if transport == "openssh":
        from diag_kit.hosts.openssh import OpenSshHost

        if password is not None:
            raise BadInput(
                "the openssh transport takes no password", where=target, next_step='use a key, or transport="paramiko"'
            )
        return OpenSshHost(target, config=config, timeouts=timeouts)

    from diag_kit.hosts.host_key import HostKeyNeedsOpenSsh
    from diag_kit.hosts.login import LoginNeedsOpenSsh
    from diag_kit.hosts.ssh import SshHost
    from diag_kit.hosts.transport import AlgorithmsNeedOpenSsh

    try:
        return SshHost(target, config=config, timeouts=timeouts, password=password)
    except (LoginNeedsOpenSsh, HostKeyNeedsOpenSsh, AlgorithmsNeedOpenSsh) as error:
        if transport != "auto" or password is not None or shutil.which("ssh") is None:
            raise
        first = error
    from diag_kit.hosts.openssh import OpenSshHost

    try:
        return OpenSshHost(target, config=config, timeouts=timeouts)
    except DiagError as second:
        first.next_step += f"\n       (the system's ssh was tried as well: {second.what})"
        raise first from None
