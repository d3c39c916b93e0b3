"""Running a notebook as a reader would, in a copy, without network; and what a committed notebook may hold.

``python tests/notebooks/notebook_runs.py notebooks/*.ipynb`` runs notebooks and keeps their outputs, as they are committed.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

ROOT = Path(__file__).resolve().parents[2]
OFFLINE = Path(__file__).parent / "offline"
CELL_TIMEOUT_S = 120
NOT_COMPARED = "varies"
"""Tag of a cell whose text may differ from run to run."""

_VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d| UTC)?"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d(\.\d+)?)?( UTC)?\b"), "CLOCK"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min)\b"), "SECONDS"),
    (re.compile(r"\b\d+(\.\d+)? CPU s\b"), "SECONDS"),
    (re.compile(r"\b\d+(\.\d+)? [kM]?B\b"), "SIZE"),
    (re.compile(r"\b0x[0-9a-f]{6,}\b"), "ADDRESS"),
    (re.compile(r"\b[0-9a-f]{32,64}\b"), "HASH"),
    (re.compile(re.escape(tempfile.gettempdir()) + r"/\S+"), "TEMPORARY"),
    (re.compile(r"[ \t]+$", re.M), ""),
)


def shipped() -> tuple[Path, ...]:
    return tuple(sorted((ROOT / "notebooks").glob("*.ipynb")))


@dataclass(frozen=True)
class Run:
    """A finished run: the notebook with its fresh outputs, and whatever it tried to reach outside this machine."""

    notebook: Any
    attempts: tuple[str, ...]


def offline_environment(folder: Path) -> dict[str, str]:
    """For a kernel or server: this checkout importable, nothing of the user's set-up, no network but loopback."""
    keep = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    own = {
        "PYTHONPATH": os.pathsep.join([str(OFFLINE), str(ROOT)]),
        "OFFLINE_ATTEMPTS": str(folder / "attempts.txt"),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    return {**keep, **own}


def attempts_in(folder: Path) -> tuple[str, ...]:
    noted = folder / "attempts.txt"
    return tuple(noted.read_text(encoding="utf-8").splitlines()) if noted.exists() else ()


def run(path: Path, folder: Path, timeout_s: int = CELL_TIMEOUT_S) -> Run:
    """Run a copy of the notebook in ``folder``, whole, stopping at the first error (which raises CellExecutionError)."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / path.name
    shutil.copy(path, copy)
    notebook = nbformat.read(copy, as_version=4)
    for cell in code_cells(notebook):
        cell["outputs"], cell["execution_count"] = [], None
    client = NotebookClient(
        notebook,
        timeout=timeout_s,
        startup_timeout=120,
        kernel_name="python3",
        store_widget_state=False,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=offline_environment(folder))
    return Run(notebook, attempts_in(folder))


def code_cells(notebook: Any) -> tuple[Any, ...]:
    return tuple(cell for cell in notebook.cells if cell.cell_type == "code")


def outputs(notebook: Any) -> Iterator[tuple[int, Any]]:
    """Number of the code cell, and output."""
    for place, cell in enumerate(code_cells(notebook), 1):
        yield from ((place, output) for output in cell.outputs)


def red(notebook: Any) -> list[str]:
    """Errors and everything on standard error, as a reader would see them in red."""
    found = []
    for place, output in outputs(notebook):
        if output.output_type == "error":
            found.append(f"cell {place}: {output.ename}: {output.evalue}")
        elif output.output_type == "stream" and output.name == "stderr":
            found.append(f"cell {place} on stderr: {output.text[:500]}")
        elif "application/vnd.jupyter.stderr" in output.get("data", {}) or "application/vnd.jupyter.error" in output.get(
            "data", {}
        ):
            found.append(f"cell {place}: an output of an error type")
    return found


def texts(notebook: Any) -> list[tuple[int, str]]:
    """For each code cell that may be compared, the text that its outputs show, without what varies."""
    shown = []
    for place, cell in enumerate(code_cells(notebook), 1):
        if NOT_COMPARED not in cell.metadata.get("tags", ()):
            shown.append((place, settled("".join(_text(output) for output in cell.outputs))))
    return shown


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return "".join(output.get("data", {}).get("text/plain", "")) + "\n"


def plain(text: str) -> str:
    """Without terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def settled(text: str) -> str:
    """The text with times, durations, sizes, addresses and temporary paths replaced."""
    text = plain(text)
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text.strip()


def faults_of_committed(notebook: Any) -> list[str]:
    """What must not be in a committed notebook, and what must: one sentence each."""
    faults = []
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        faults.append("its kernel is not called python3")
    if "widgets" in notebook.metadata:
        faults.append("it stores widget state: turn 'Save Widget State Automatically' off and save again")
    counts = [cell.execution_count for cell in code_cells(notebook) if cell.source.strip()]
    if counts != list(range(1, len(counts) + 1)):
        faults.append(f"its cells were not run once, in order, in a fresh kernel: {counts}")
    if not any(cell.outputs for cell in code_cells(notebook)):
        faults.append("it has no outputs")
    faults += red(notebook)
    faults += [f"it holds a path of the machine it was run on: {found}" for found in sorted(local_paths(notebook))]
    return faults


def local_paths(notebook: Any) -> set[str]:
    """Paths of this checkout, of this interpreter, of temporary folders, of a person's home, in sources or outputs.

    Paths on the recorded host (``/root/ml-env``, ``/data``) are data, so root's home alone is not looked for.
    """
    whole = nbformat.writes(notebook)
    temporary = re.escape(tempfile.gettempdir())
    patterns = [
        re.escape(str(ROOT)),
        re.escape(sys.prefix) + r"(?=/)",
        temporary + r"/tmp[a-z0-9_]{6,}",
        temporary + r"/ipykernel_\d+",
    ]
    if str(Path.home()) not in ("/", "/root"):
        patterns.append(re.escape(str(Path.home())) + r"(?=[/\"\\])")
    if sys.prefix in ("/usr", "/usr/local"):
        patterns.pop(1)
    return {match for pattern in patterns for match in re.findall(pattern, whole)}


def main(names: list[str]) -> int:
    """Run each notebook and write it back with its outputs; one that fails stays as it was."""
    failed = 0
    for name in names:
        path = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            try:
                done = run(path, Path(folder))
            except CellExecutionError as error:
                print(f"{name}: not written\n{plain(str(error))}")
                failed += 1
                continue
        nbformat.write(done.notebook, path)
        print(f"{name}: {'; '.join(faults_of_committed(done.notebook)) or 'written'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
