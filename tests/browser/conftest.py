"""JupyterLab in a real Chromium, without network but loopback. Screenshots go to ``test-output/browser/`` (ignored by git)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "notebooks"))  # notebook_runs is shared with that folder

from lab_browser import LabBrowser
from lab_server import LabServer
from programs import find_program

SHOTS = Path(__file__).resolve().parents[2] / "test-output" / "browser"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab of its own; notebooks go into ``lab.folder``."""
    with LabServer(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def browser(lab: LabServer) -> Iterator[LabBrowser]:
    """A Chromium that reaches nothing but this machine. Ends with the module: other tests need the event loop back."""
    with LabBrowser(lab, find_program("chromium") or "chromium", SHOTS) as opened:
        yield opened
