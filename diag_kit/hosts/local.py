"""This machine, behind the same protocol and the same bounds as a remote one."""

from __future__ import annotations

import os

from diag_kit.hosts.base import ShellHost
from diag_kit.hosts.process_stream import ProcessStream
from diag_kit.hosts.runner import local_arguments
from diag_kit.hosts.shell import Stream


class LocalHost(ShellHost):
    """Runs commands here, through the same runner as a remote host."""

    kind = "local"

    def _open_stream(self) -> Stream:
        return ProcessStream(local_arguments(self.use_agent), environment={**os.environ, "LC_ALL": "C"})

    def _lost_sentence(self) -> tuple[str, str]:
        return "the shell that ran the command was killed", "run it again; if it repeats, look for memory limits (dmesg)"


def local(name: str = "this machine") -> LocalHost:
    """The machine that this Python runs on. No connection, no login; bounds and quoting as everywhere."""
    return LocalHost(name)
