"""Binder's files: a flat list that covers the project's, a Python that pandas takes, and the start notebook from it alone."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from project_files import ROOT

BINDER = ROOT / "binder"
NOTEBOOK = Path("notebooks") / "00_start_here.ipynb"


def requirements(path: Path) -> dict[str, str]:
    """Project name -> version ranges, comments left out."""
    lines = [line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines()]
    found = [re.fullmatch(r"([A-Za-z0-9][\w.-]*(?:\[[\w,-]+\])?)\s*(.*)", line) for line in lines if line]
    assert all(found), f"{path}: a line is no plain requirement (no -r, -e, -c, no path)"
    return {match[1].lower().replace("_", "-"): match[2].replace(" ", "") for match in found if match}


def test_the_list_is_flat_and_covers_the_projects() -> None:
    assert requirements(BINDER / "requirements.txt") == requirements(ROOT / "requirements.txt")


def test_python_is_named_and_new_enough() -> None:
    """Without runtime.txt Binder takes Python 3.10, on which pandas 3 does not install (it needs 3.11)."""
    match = re.fullmatch(r"python-3\.(\d+)\s*", (BINDER / "runtime.txt").read_text("utf-8"))
    assert match and 11 <= int(match[1]) <= 14
    needed = re.search(r'requires-python\s*=\s*">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert needed and int(match[1]) >= int(needed[1])


def test_there_is_one_folder_for_binder_and_nothing_that_overrules_it() -> None:
    assert not (ROOT / ".binder").exists()
    assert not [name for name in ("environment.yml", "Dockerfile", "Pipfile", "setup.py") if (BINDER / name).exists()]


def test_post_build_stops_at_the_first_failure() -> None:
    text = (BINDER / "postBuild").read_text("utf-8")
    assert text.startswith("#!/bin/bash\n") and "\nset -eux\n" in text
    assert "--no-deps -e ." in text


def copy_project(folder: Path) -> None:
    """What a clone holds, without environments and caches."""
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info", ".ipynb_checkpoints")
    for name in ("diag_kit", "binder", "notebooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    for name in ("pyproject.toml", "requirements.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)


def checked(command: list[str], **options: object) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, **options)  # type: ignore[call-overload]
    assert answer.returncode == 0, (answer.stdout + answer.stderr)[-6000:]


def without_network() -> list[str]:
    """A prefix that runs a command with only the loopback interface; empty where the kernel does not allow it."""
    for flags in ("-n", "-rn"):
        prefix = ["unshare", flags, sys.executable, __file__, "loopback"]
        if shutil.which("unshare") and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0:
            return prefix
    return []


@pytest.mark.slow
def test_the_start_notebook_runs_in_an_environment_made_from_the_list_alone(tmp_path: Path) -> None:
    """As Binder builds it: a fresh environment, the flat list, postBuild; then the notebook headless and offline."""
    if not (ROOT / NOTEBOOK).exists():
        pytest.skip(f"{NOTEBOOK} is not there yet: nothing to run")
    project, environment = tmp_path / "project", tmp_path / "environment"
    project.mkdir()
    copy_project(project)
    checked([sys.executable, "-m", "venv", str(environment)])
    bin_folder = environment / "bin"
    checked([str(bin_folder / "python"), "-m", "pip", "install", "--quiet", "-r", str(project / "binder" / "requirements.txt")])
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "JUPYTER"))}
    own |= {"PATH": f"{bin_folder}:/usr/bin:/bin", "HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
    checked(["bash", "binder/postBuild"], cwd=project, env=own)
    assert "fetchNews" in (environment / "share" / "jupyter" / "lab" / "settings" / "overrides.json").read_text()
    offline = without_network()
    own |= {} if offline else dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
    options = ["--to", "notebook", "--execute", "--ExecutePreprocessor.timeout=300", "--output-dir", str(tmp_path / "run")]
    checked([*offline, str(bin_folder / "jupyter"), "nbconvert", *options, str(NOTEBOOK)], cwd=project, env=own)
    assert (tmp_path / "run" / NOTEBOOK.name).stat().st_size > 1000


def bring_loopback_up() -> None:
    """A new network namespace has its loopback interface down; the kernel of a notebook is reached through it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh", b"lo", 0x1 | 0x40)  # IFF_UP, IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, request)  # SIOCSIFFLAGS


if __name__ == "__main__" and sys.argv[1:2] == ["loopback"]:
    bring_loopback_up()
    os.execvp(sys.argv[2], sys.argv[2:])
