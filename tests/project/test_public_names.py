"""The public names: they are what they say, however often and in whatever order the modules behind them were loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest
from project_files import ROOT


def fresh_python(code: str) -> str:
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    return answer.stdout.strip() if answer.returncode == 0 else answer.stderr.strip().splitlines()[-1]


@pytest.mark.parametrize("name", ["connect", "files", "local", "open_target", "replay", "Investigation"])
@pytest.mark.parametrize("before", ["", "import diag_kit.hosts.files, diag_kit.hosts.local, diag_kit.hosts.recorded"])
def test_a_name_stays_callable(name: str, before: str) -> None:
    """``diag_kit.hosts.local`` is a module and ``dk.local`` a function: the first use must not turn one into the other."""
    code = f"import diag_kit as dk\n{before}\ndk.{name}; print(callable(dk.{name}), callable(dk.{name}))"
    assert fresh_python(code) == "True True"


@pytest.mark.parametrize("before", ["", "import diag_kit.sweep", "from diag_kit.observe.probe import all_probes; all_probes()"])
def test_every_probe_is_found_under_its_name(before: str) -> None:
    """``diag_kit.observe.memory`` is a module too: ``dk.observe.memory`` must be the probe all the same, first and later."""
    code = (
        f"import diag_kit as dk\n{before}\n"
        "from diag_kit.observe.probe import all_probes\n"
        "wrong = [name for _ in (1, 2) for name, cls in all_probes().items() if getattr(dk.observe, name) is not cls]\n"
        "print('wrong:', *wrong)"
    )
    assert fresh_python(code) == "wrong:"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert "has no attribute 'nonsense'" in fresh_python("import diag_kit as dk\ndk.nonsense")
