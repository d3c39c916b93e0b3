"""mypy and ruff, as tests, with the project's own settings."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from project_files import ROOT


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)


def needs(module: str) -> None:
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is missing: pip install {module}")


def test_types_are_complete_and_right() -> None:
    needs("mypy")
    answer = run("mypy", "--strict", "diag_kit")
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-2000:]


def test_the_linter_has_nothing_to_say() -> None:
    needs("ruff")
    answer = run("ruff", "check", "--output-format", "concise", "diag_kit", "tests")
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-2000:]
