"""The harness on a small notebook of its own: it sees what is drawn, what is red, what is asked of the network."""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path

import nbformat
import pytest
from lab_browser import LabBrowser
from lab_server import LabServer
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

pytestmark = [pytest.mark.browser, pytest.mark.needs("chromium")]
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}

BOARD = """
import ipywidgets as w
card = w.HTML("<details><summary>O1 training job</summary><pre>torchrun, 4 ranks</pre></details>")
run, said = w.Button(description="Run"), w.HTML("not run")
run.on_click(lambda _: setattr(said, "value", "it ran"))
box = w.VBox([card, run, said])
box.add_class("dk-board")

class Board:
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {**box._repr_mimebundle_(), "text/html": "<p>the board as HTML</p>", "text/plain": "the board as text"}

Board()
"""


def png(width: int = 60, height: int = 20) -> bytes:
    """A grey rectangle."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\x00" + b"\x80" * width) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


PICTURE = f"""
from IPython.display import HTML, Image, display
import base64
data = "{base64.b64encode(png()).decode()}"
display(Image(base64.b64decode(data)))
HTML(f'<img alt="chart" src="data:image/png;base64,{{data}}">')
"""


def put(lab: LabServer, name: str, *sources: str) -> str:
    cells = [new_markdown_cell("# Made up"), *map(new_code_cell, sources)]
    nbformat.write(new_notebook(cells=cells, metadata=KERNEL), lab.folder / name)
    return name


def test_a_good_notebook_is_seen_as_good(lab: LabServer, browser: LabBrowser) -> None:
    opened = browser.open(put(lab, "good.ipynb", BOARD, PICTURE))
    assert opened.run_all() == "idle"
    assert opened.red() == []
    assert [picture["drawn"] for picture in opened.pictures()] == [60, 60]
    board = opened.board()
    board.locator("summary").first.click()
    assert board.locator("details[open] pre").inner_text() == "torchrun, 4 ranks"
    board.get_by_role("button", name="Run").click()
    board.get_by_text("it ran").wait_for()
    assert opened.overflow(board) == 0
    assert "the board as HTML" not in opened.output_text()
    assert opened.outside == []
    assert lab.attempts() == ()
    assert opened.shot("run", whole=True).stat().st_size > 5000
    opened.close()


def test_an_error_ends_the_wait_and_is_red(lab: LabServer, browser: LabBrowser) -> None:
    opened = browser.open(put(lab, "bad.ipynb", "import sys; print('careful', file=sys.stderr)", "1 / 0", "print('never')"))
    assert opened.run_all() == "error"
    red = opened.red()
    assert any("careful" in each for each in red) and any("ZeroDivisionError" in each for each in red)
    opened.close()


def test_what_a_page_asks_of_the_network_is_seen_and_refused(lab: LabServer, browser: LabBrowser) -> None:
    source = 'from IPython.display import HTML\nHTML(\'<img alt="outside" src="http://example.invalid/x.png">\')'
    opened = browser.open(put(lab, "asks.ipynb", source))
    assert opened.run_all() == "idle"
    assert set(opened.outside) == {"http://example.invalid/x.png"}
    assert [picture["drawn"] for picture in opened.pictures()] == [0]
    opened.close()


def test_opened_and_not_run_shows_the_html_beside_a_widget(lab: LabServer, browser: LabBrowser) -> None:
    data = {
        "application/vnd.jupyter.widget-view+json": {"model_id": "0" * 32, "version_major": 2, "version_minor": 0},
        "text/html": "<p>the board as HTML</p>",
        "text/plain": "the board as text",
    }
    cell = new_code_cell("Board()", execution_count=1, outputs=[new_output("execute_result", data=data, execution_count=1)])
    nbformat.write(new_notebook(cells=[cell], metadata=KERNEL), lab.folder / "unrun.ipynb")
    opened = browser.open("unrun.ipynb")
    opened.settle()
    assert "the board as HTML" in opened.output_text()
    assert opened.red() == []
    opened.close()


def test_widget_state_is_not_stored(lab: LabServer, browser: LabBrowser) -> None:
    opened = browser.open(put(lab, "saved.ipynb", BOARD))
    assert opened.run_all() == "idle"
    opened.save()
    saved = nbformat.read(Path(lab.folder / "saved.ipynb"), as_version=4)
    assert saved.cells[1].execution_count == 1
    assert "widgets" not in saved.metadata
    opened.close()
