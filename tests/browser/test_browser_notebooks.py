"""Every shipped notebook in JupyterLab, offline: Run All, charts, the board by mouse; and opened again without running."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab_browser import LabBrowser, OpenNotebook
from lab_server import LabServer
from notebook_runs import code_cells, outputs, shipped

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
NOTEBOOKS = shipped()
each_notebook = pytest.mark.parametrize(
    "path",
    NOTEBOOKS or [pytest.param(None, marks=pytest.mark.skip(reason="no notebooks yet: notebooks/*.ipynb"))],
    ids=[path.stem for path in NOTEBOOKS] or ["none"],
)
WIDGET = "application/vnd.jupyter.widget-view+json"


def without_outputs(path: Path, lab: LabServer) -> str:
    notebook = nbformat.read(path, as_version=4)
    for cell in code_cells(notebook):
        cell["outputs"], cell["execution_count"] = [], None
    name = f"{path.stem}-run.ipynb"
    nbformat.write(notebook, lab.folder / name)
    return name


@pytest.fixture(scope="module")
def ran(lab: LabServer, browser: LabBrowser) -> Any:
    """Each notebook opened and run once; the tests look at the same tab, in order."""
    done: dict[Path, OpenNotebook] = {}

    def get(path: Path) -> OpenNotebook:
        if path not in done:
            done[path] = browser.open(without_outputs(path, lab))
            done[path].run_all()
            done[path].shot("light-1400", whole=True)
        return done[path]

    return get


@each_notebook
def test_run_all_shows_nothing_red(path: Path, ran: Any) -> None:
    opened = ran(path)
    assert opened.red() == []
    assert opened.state == "idle"


@each_notebook
def test_charts_are_drawn_with_the_network_off(path: Path, ran: Any, lab: LabServer) -> None:
    opened = ran(path)
    pictures = opened.pictures()
    assert len(pictures) >= 2
    assert [picture for picture in pictures if picture["drawn"] < 100 or picture["width"] < 100] == []
    assert opened.outside == []
    assert lab.attempts() == ()


@each_notebook
def test_a_card_of_the_board_opens_to_its_command(path: Path, ran: Any) -> None:
    opened = ran(path)
    board = opened.board()
    board.wait_for(state="visible")
    card = board.locator("details").first
    assert card.get_attribute("open") is None
    card.locator("summary").first.click()
    card.locator("pre").first.wait_for(state="visible")
    assert len(card.inner_text()) > 80
    opened.shot("card-open")


HALF_WAY = """import diag_kit as dk
from diag_kit.calculate.standard import standard_calculators
inv = dk.Investigation(dk.replay("unsharded-two-gpus"))
for probe in (dk.observe.training_jobs(), dk.observe.log_facts(), dk.observe.log_metrics()):
    inv.observe(probe)
inv.calculate(*standard_calculators(inv.evidence))
inv.hypothesize()
inv.board()"""
"""An investigation that has not looked at the opened files yet, which its recording holds."""


def test_the_next_probe_runs_from_its_button(lab: LabServer, browser: LabBrowser, tmp_path: Path) -> None:
    notebook = tmp_path / "half-way.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(HALF_WAY)], metadata=kernel), notebook)
    opened = browser.open(without_outputs(notebook, lab))
    opened.run_all()
    board = opened.board()
    before = board.inner_text()
    board.get_by_role("button", name="Run", exact=True).first.click()
    opened.page.wait_for_function(
        "before => document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) .dk-board').innerText !== before",
        arg=before,
        timeout=60_000,
    )
    opened.wait_for_kernel()
    opened.settle()
    opened.shot("probe-ran")
    assert opened.red() == []


@each_notebook
def test_the_board_fits_900_pixels_in_light_and_dark(path: Path, ran: Any) -> None:
    opened = ran(path)
    opened.page.set_viewport_size({"width": 900, "height": 1000})
    try:
        for theme in ("JupyterLab Dark", "JupyterLab Light"):
            opened.theme(theme)
            assert opened.overflow(opened.board()) <= 1
            opened.shot(f"{theme.split()[1].lower()}-900")
    finally:
        opened.page.set_viewport_size({"width": 1400, "height": 1000})


@each_notebook
def test_opened_again_without_running_it_shows_the_same_as_html(path: Path, lab: LabServer, browser: LabBrowser) -> None:
    """As committed: a notebook that was not run here is not trusted, so scripts and styles in it do not count."""
    committed = nbformat.read(path, as_version=4)
    widgets = [output for _, output in outputs(committed) if WIDGET in output.get("data", {})]
    assert widgets, "the committed notebook holds no board"
    name = f"{path.stem}-unrun.ipynb"
    shutil.copy(path, lab.folder / name)
    opened = browser.open(name)
    opened.settle()
    opened.shot("unrun", whole=True)
    assert opened.red() == []
    assert opened.panel.locator(".jp-OutputArea .jp-RenderedHTMLCommon details").count() > 5
    assert all(picture["drawn"] >= 100 for picture in opened.pictures())
    assert len(opened.pictures()) >= 2
    assert opened.outside == []
    opened.close()
