"""System programs that some tests need, where they hide, and how to install them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

ROOT_OF_PROJECT = Path(__file__).resolve().parents[1]
PROGRAMS: dict[str, tuple[tuple[str, ...], str]] = {
    # name in a `needs` mark: (names it goes by, Debian package)
    "sshd": (("sshd",), "openssh-server"),
    "ssh": (("ssh",), "openssh-client"),
    "iostat": (("iostat",), "sysstat"),
    "chromium": (("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"), "chromium"),
    "strace": (("strace",), "strace"),
    "bash": (("bash",), "bash"),
    "busybox": (("busybox",), "busybox"),
    "csh": (("tcsh", "csh"), "tcsh"),
    "fish": (("fish",), "fish"),
    "ksh": (("ksh",), "ksh"),
    "zsh": (("zsh",), "zsh"),
}
_MORE_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/sbin")


def find_program(name: str) -> str | None:
    """Full path of a program, also where a user's PATH does not look; None if it is missing."""
    names = PROGRAMS.get(name, ((name,), name))[0]
    path = os.pathsep.join([os.environ.get("PATH", ""), *_MORE_FOLDERS])
    return next((found for called in names if (found := shutil.which(called, path=path))), None)


def how_to_install(name: str) -> str:
    return f"apt-get install {PROGRAMS.get(name, ((), name))[1]}"


def in_ci() -> bool:
    """Under CI=true nothing may be skipped because something is missing."""
    return os.environ.get("CI", "").lower() in ("true", "1")


def missing(what: str, how: str) -> None:
    """Skip by name; under CI=true fail instead."""
    message = f"{what} is missing: {how}"
    if in_ci():
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
