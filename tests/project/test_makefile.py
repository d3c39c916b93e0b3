"""The commands that a newcomer types: they exist, and a wrong Python gives one sentence."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from programs import find_program
from project_files import ROOT

TARGETS = ("demo", "lab", "test")


def make(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    if find_program("make") is None:
        pytest.skip("make is missing: apt-get install make")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON"))}
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=cwd,
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A folder that has never seen the project: the Makefile and what it looks at, no environment."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


@pytest.mark.parametrize("target", TARGETS)
def test_the_targets_exist(target: str, fresh: Path) -> None:
    answer = make("-n", target, cwd=fresh)
    assert answer.returncode == 0, answer.stderr
    assert "venv" in answer.stdout


def one_sentence(answer: subprocess.CompletedProcess[str]) -> str:
    """What make says itself ("make: *** ... Error 1") is not counted."""
    said = [line for line in (answer.stdout + answer.stderr).splitlines() if not line.startswith("make")]
    assert answer.returncode != 0
    assert "Traceback" not in answer.stdout + answer.stderr
    assert len(said) == 1, said
    return said[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["environment", "argument"])
def test_a_python_that_is_not_there_gives_one_sentence(target: str, how: str, fresh: Path) -> None:
    answer = (
        make(target, "PYTHON=/nonexistent", cwd=fresh) if how == "argument" else make(target, cwd=fresh, PYTHON="/nonexistent")
    )
    sentence = one_sentence(answer)
    assert "Python 3.11 or newer" in sentence and "/nonexistent" in sentence
    assert not (fresh / ".venv").exists()


@pytest.mark.parametrize(("script", "said"), [("exit 1", "3.11"), ("case $* in *version_info*) exit 0;; esac; exit 1", "venv")])
def test_an_old_python_or_one_without_venv_gives_one_sentence(script: str, said: str, fresh: Path, tmp_path: Path) -> None:
    """A stand-in that fails the question for its version, or the one for its venv module."""
    python = tmp_path / "python-of-old"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    sentence = one_sentence(make("demo", f"PYTHON={python}", cwd=fresh))
    assert said in sentence and str(python) in sentence


def test_the_readme_names_the_targets() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert all(f"make {target}" in text for target in TARGETS)


def test_the_top_of_the_project_holds_only_what_it_should() -> None:
    from project_files import tracked_files

    tops = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    allowed = {
        "README.md",
        "requirements.txt",
        "pyproject.toml",
        "Makefile",
        "LICENSE",
        ".gitignore",
        "binder",
        "notebooks",
        "diag_kit",
        "tests",
        ".ci",
    }
    assert tops - allowed == set()


@pytest.mark.parametrize("path", ["binder/postBuild", ".ci/run"])
def test_scripts_can_be_run(path: str) -> None:
    script = ROOT / path
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
