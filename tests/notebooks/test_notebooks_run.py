"""Every shipped notebook runs from top to bottom on its recording, offline, and shows what was committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from notebook_runs import Run, code_cells, faults_of_committed, outputs, plain, red, run, shipped, texts

NOTEBOOKS = shipped()
each_notebook = pytest.mark.parametrize(
    "path",
    NOTEBOOKS or [pytest.param(None, marks=pytest.mark.skip(reason="no notebooks yet: notebooks/*.ipynb"))],
    ids=[path.stem for path in NOTEBOOKS] or ["none"],
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Each notebook is run once for all tests of this module; one that fails fails each of them, with its message."""
    done: dict[Path, Run | str] = {}

    def get(path: Path) -> Run:
        if path not in done:
            try:
                done[path] = run(path, tmp_path_factory.mktemp(path.stem))
            except CellExecutionError as error:
                done[path] = plain(str(error))
        found = done[path]
        if isinstance(found, str):
            pytest.fail(found, pytrace=False)
        return found

    return get


@each_notebook
def test_it_runs_without_red_output(path: Path, runs: Any) -> None:
    assert red(runs(path).notebook) == []


@each_notebook
def test_it_asks_nothing_of_the_network(path: Path, runs: Any) -> None:
    assert runs(path).attempts == ()


@each_notebook
def test_widgets_have_something_to_show_without_a_kernel(path: Path, runs: Any) -> None:
    """Opened and not run, a notebook shows the HTML beside each widget: every widget output needs it."""
    for place, output in outputs(runs(path).notebook):
        data = output.get("data", {})
        if "application/vnd.jupyter.widget-view+json" in data:
            assert len(data.get("text/html", "")) > 200, f"code cell {place}"


@each_notebook
def test_nothing_is_loaded_from_elsewhere(path: Path, runs: Any) -> None:
    for place, output in outputs(runs(path).notebook):
        html = "".join(output.get("data", {}).get("text/html", ""))
        assert "<script" not in html, f"code cell {place}"
        assert 'src="http' not in html and 'href="http' not in html, f"code cell {place}"
        assert not {"image/svg+xml", "application/javascript"} & set(output.get("data", {})), f"code cell {place}"


@each_notebook
def test_what_is_committed_is_clean(path: Path) -> None:
    assert faults_of_committed(nbformat.read(path, as_version=4)) == []


@each_notebook
def test_what_is_committed_is_what_it_says_today(path: Path, runs: Any) -> None:
    """The text of every cell, times apart. Tag a cell "varies" to leave it out."""
    committed, fresh = texts(nbformat.read(path, as_version=4)), texts(runs(path).notebook)
    assert len(committed) == len(fresh)
    for (place, before), (_, now) in zip(committed, fresh, strict=True):
        assert now == before, f"code cell {place}"


@each_notebook
def test_it_has_a_title_that_asks_or_says_and_short_cells(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    assert notebook.cells[0].cell_type == "markdown" and notebook.cells[0].source.startswith("# ")
    assert max(len(cell.source.splitlines()) for cell in code_cells(notebook)) <= 15
    assert len({cell.get("id") for cell in notebook.cells}) == len(notebook.cells)
