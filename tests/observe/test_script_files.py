"""source_of_script on real files: which files the host sends, whatever the folder is called; and the other shells."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from diag_kit.errors import NothingToObserve
from diag_kit.evidence import Evidence
from diag_kit.hosts.local import local
from diag_kit.observe.probe import observe
from diag_kit.observe.remote_script import SCRIPT
from diag_kit.observe.remote_source import SCRIPT as SOURCE_SCRIPT
from diag_kit.observe.script import SourceOfScript
from diag_kit.observe.source import read_sent
from diag_kit.records import Fact, Observation, Parsed


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A script in a folder with a space that imports beside itself, from a package, and from a library."""
    home = tmp_path / "my train"
    (home / "lib").mkdir(parents=True)
    (home / "train.py").write_text(
        "import os, torch\nimport loaders as ld, missing_module\nfrom lib.models import (Net)\nfrom torch.utils.data import *\n"
        "train_loader = ld.make(ds)\n"
    )
    (home / "loaders.py").write_text(
        "from torch.utils.data import DataLoader\nfrom samplers import pick\n"
        "def make(ds):\n    return DataLoader(ds, sampler=pick(ds))\n"
    )
    (home / "samplers.py").write_text(
        "from torch.utils.data import DistributedSampler\ndef pick(ds):\n    return DistributedSampler(ds)\n"
    )
    (home / "lib" / "__init__.py").write_text("")
    (home / "lib" / "models.py").write_text("class Net: pass\n")
    (home / "unrelated.py").write_text("x = 1\n")
    return home


def test_modules_beside_the_script_are_read(project: Path) -> None:
    """Three files deep the sampler is found; what is not imported and what is not there is not sent."""
    seen = observe(SourceOfScript(str(project / "train.py")), local(), Evidence())
    sent = read_sent(seen.results[0].text)
    names = {Path(file.path).name for file in sent.files}
    assert names == {"train.py", "loaders.py", "samplers.py", "models.py"}
    assert [fact.value for fact in seen.facts if fact.name == "split_by_source"] == ["once"]
    assert seen.parsed.problems == ()


def test_module_run_with_m(project: Path) -> None:
    facts = (Fact("script", "-m train", "test"), Fact("working_dir", str(project), "test"), Fact("world_size", 4, "test"))
    known = Evidence([Observation("training_jobs", {}, "", (), Parsed("", facts), id="O1")])
    seen = observe(SourceOfScript(), local(), known)
    assert [fact.value for fact in seen.facts if fact.name == "split_by_source"] == ["once"]


def test_arguments_of_the_running_job(tmp_path: Path) -> None:
    """The command line is read from /proc, so that the branch that runs is the one judged."""
    script = tmp_path / "train.py"
    script.write_text(
        "import argparse, time\np = argparse.ArgumentParser()\np.add_argument('--dist', action='store_true')\n"
        "args = p.parse_args()\ntime.sleep(60)\n"
        "s = DistributedSampler(ds) if args.dist else None\nloader = DataLoader(ds, sampler=s, shuffle=s is None)\n"
    )
    for flags, expected in ((["--dist"], "once"), ([], "none")):
        process = subprocess.Popen([sys.executable, str(script), *flags])
        try:
            ranks = pd.DataFrame({"rank": [0], "pid": [process.pid]}, dtype="Int64")
            facts = (Fact("script", str(script), "test"),)
            known = Evidence([Observation("training_jobs", {}, "", (), Parsed("", facts, {"ranks": ranks}), id="O1")])
            seen = observe(SourceOfScript(), local(), known)
        finally:
            process.kill()
            process.wait()
        assert [fact.value for fact in seen.facts if fact.name == "split_by_source"] == [expected]


def test_missing_and_unnamed_script() -> None:
    seen = observe(SourceOfScript("/no/such.py"), local(), Evidence())
    assert seen.parsed.problems[0].startswith("/no/such.py cannot be read on the host")
    with pytest.raises(NothingToObserve, match="script of the training is not known"):
        observe(SourceOfScript(), local(), Evidence())


@pytest.mark.skipif(shutil.which("busybox") is None, reason="busybox is not installed")
def test_busybox_sends_the_same(project: Path) -> None:
    arguments = ["diag_kit", str(project / "train.py"), str(project), "", "100", "4", "", "1000000"]
    outputs = [
        subprocess.run([*shell, "-c", SCRIPT, *arguments], stdout=subprocess.PIPE, check=True).stdout
        for shell in (["sh"], ["busybox", "sh"])
    ]
    assert outputs[0] == outputs[1]


def test_source_without_any_python(tmp_path: Path) -> None:
    """A host whose python3 is gone: the file is still found below the interpreter's folder, by sh alone."""
    site = tmp_path / "env" / "lib" / "python3.12" / "site-packages"
    (site / "drafter").mkdir(parents=True)
    (site / "drafter" / "trainer.py").write_text("class Trainer:\n    def run(self):\n        return 1\n")
    (site / "drafter-0.3.0.dist-info").mkdir()
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "ls", "head", "sed", "tr", "stat", "printf"):
        (tools / name).symlink_to(str(shutil.which(name)))
    arguments = ["drafter.trainer:Trainer.run", str(tmp_path / "env/bin/python"), "static", "", "", "2000000", "8"]
    command = [str(tools / "sh"), "-c", SOURCE_SCRIPT, "diag_kit", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, env={"PATH": str(tools)}, check=True)
    sent = read_sent(done.stdout.decode())
    assert [file.path for file in sent.files] == [str(site / "drafter" / "trainer.py")]
    assert (sent.value("package"), sent.value("version")) == ("drafter", "0.3.0")
    assert sent.problems[0][0] == "no-interpreter"
