"""The harness itself: it sees errors, red text, network attempts, widget state and paths when they are there."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from notebook_runs import ROOT, faults_of_committed, local_paths, red, run, settled, texts

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}


def made(folder: Path, *sources: str) -> Path:
    notebook = new_notebook(cells=[new_markdown_cell("# Made up"), *map(new_code_cell, sources)], metadata=KERNEL)
    path = folder / "made.ipynb"
    nbformat.write(notebook, path)
    return path


def test_a_good_notebook_passes(tmp_path: Path) -> None:
    path = made(tmp_path, "import ipywidgets, diag_kit\nprint('hello')\nipywidgets.Button()", "1 + 1")
    done = run(path, tmp_path / "run")
    assert red(done.notebook) == []
    assert done.attempts == ()
    assert texts(done.notebook)[1] == (2, "2")
    assert "widgets" not in done.notebook.metadata
    assert faults_of_committed(done.notebook) == []
    assert nbformat.read(path, as_version=4).cells[1].outputs == []


def test_an_error_stops_it(tmp_path: Path) -> None:
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        run(made(tmp_path, "1 / 0"), tmp_path / "run")


def test_red_text_and_network_attempts_are_seen(tmp_path: Path) -> None:
    source = """
import socket, sys, urllib.request
print("careful", file=sys.stderr)
for ask in (lambda: urllib.request.urlopen("http://example.invalid/x", timeout=5),
            lambda: socket.create_connection(("192.0.2.7", 22), timeout=5),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.8", 53))):
    try:
        ask()
    except OSError:
        pass
"""
    ask = "import socket; socket.create_connection(('192.0.2.9', 22), 5)"
    child = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {ask!r}], capture_output=True);"
    done = run(made(tmp_path, source, child), tmp_path / "run")
    assert red(done.notebook) == ["cell 1 on stderr: careful\n"]
    assert done.attempts == ("example.invalid", "192.0.2.7", "192.0.2.8", "192.0.2.9")


def test_faults_of_a_committed_notebook_are_named() -> None:
    outputs = [
        new_output("stream", name="stdout", text=f"{ROOT}/notebooks and {tempfile.gettempdir()}/tmpab12cd_x/page.md"),
        new_output("stream", name="stderr", text="FutureWarning"),
    ]
    notebook = new_notebook(cells=[new_code_cell("x", execution_count=3, outputs=outputs)], metadata={"widgets": {}})
    said = " | ".join(faults_of_committed(notebook))
    for part in ("python3", "widget state", "[3]", "FutureWarning", str(ROOT), "tmpab12cd_x"):
        assert part in said
    assert "it has no outputs" in faults_of_committed(
        new_notebook(cells=[new_code_cell("x", execution_count=1)], metadata=KERNEL)
    )


def test_paths_of_the_recorded_host_are_data() -> None:
    text = "/root/ml-env/bin/python3 /tmp/04_train.py /data/eagle3/logs/train_4gpu.log"
    notebook = new_notebook(cells=[new_code_cell("x", outputs=[new_output("stream", name="stdout", text=text)])])
    assert local_paths(notebook) == set()
    if sys.prefix not in ("/usr", "/usr/local"):
        notebook.cells[0].outputs[0].text = f"{sys.prefix}/lib/x.py"
        assert sys.prefix in local_paths(notebook)  # and the checkout as well, where the environment lies in it


def test_what_varies_is_settled() -> None:
    text = "at 2026-02-14 22:31:05 UTC (22:31 host clock) in 0.25 s, 12.5 kB, /tmp/x1/y.md: 35.2 h, 1.40 steps/s"
    expected = "at DATE (CLOCK host clock) in SECONDS, SIZE, TEMPORARY 35.2 h, 1.40 steps/s"
    assert settled(text.replace("/tmp", tempfile.gettempdir())) == expected
