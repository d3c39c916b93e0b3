"""Fixtures and marks that every test may use.

``@pytest.mark.needs("sshd", ...)``: skipped with the program's name and how to install it; an error under CI=true.
``sshd``: a real server for the whole session. ``sshd_variant(...)``: another one, made differently, for one test.
``lab_python``: an interpreter that can import torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import find_program, how_to_install, missing
from real_sshd import Sshd, have_namespaces


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for program in mark.args:
            if find_program(program) is None:
                missing(program, how_to_install(program))


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """A real sshd on the loopback interface; ``connect("trainbox", config=sshd.config)`` logs in to it."""
    if find_program("sshd") is None:
        missing("sshd", how_to_install("sshd"))
    server = Sshd(tmp_path_factory.mktemp("sshd")).start()
    yield server
    server.stop()


@pytest.fixture
def sshd_variant(tmp_path: Path) -> Iterator[Callable[..., Sshd]]:
    """Start servers that differ: ``sshd_variant(options={"MaxSessions": "1"}, login_shell="/usr/bin/fish", ...)``."""
    if find_program("sshd") is None:
        missing("sshd", how_to_install("sshd"))
    started: list[Sshd] = []

    def start(**differences: Any) -> Sshd:
        server = Sshd(tmp_path / f"sshd{len(started)}", **differences)
        if server.changed_accounts and not have_namespaces():
            pytest.skip("changing the login shell or password of a test server needs root and mount namespaces")
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.stop()


def _can_import_torch(python: str) -> bool:
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, timeout=60, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="session")
def lab_python() -> str:
    """The interpreter for the lab's trainings: DIAG_KIT_LAB_PYTHON, or this one if it can import torch."""
    named = os.environ.get("DIAG_KIT_LAB_PYTHON", "")
    for python in filter(None, (named, sys.executable)):
        if _can_import_torch(python):
            return python
    missing("an interpreter with torch", "set DIAG_KIT_LAB_PYTHON to one (pip install torch, CPU build)")
    raise AssertionError("unreachable")
