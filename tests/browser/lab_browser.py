"""Driving JupyterLab as a reader does: open a notebook, run all, look, click; and seeing what went wrong."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Any

from lab_server import LabServer
from playwright.sync_api import Locator, Page, sync_playwright

OPEN_TIMEOUT_MS = 120_000
RUN_TIMEOUT_MS = 300_000
RED = ", ".join(f".jp-OutputArea [data-mime-type='application/vnd.jupyter.{kind}']" for kind in ("stderr", "error"))
NOTEBOOK = ".jp-NotebookPanel:not(.lm-mod-hidden)"
TALLEST_PX = 12_000

_STATE = """() => {
    const panel = window.jupyterapp && window.jupyterapp.shell.currentWidget;
    if (!panel || !panel.content || !panel.content.model) return 'opening';
    const session = panel.context.sessionContext.session;
    if (!session || !session.kernel) return 'no kernel';
    let waiting = 0;
    for (const cell of panel.content.model.cells) {
        if (cell.type !== 'code' || !cell.sharedModel.getSource().trim()) continue;
        const outputs = cell.outputs;
        for (let i = 0; i < outputs.length; i++) if (outputs.get(i).type === 'error') return 'error';
        if (cell.executionCount === null) waiting += 1;
    }
    return waiting ? `${waiting} cells to run` : session.kernel.status;
}"""


class LabBrowser:
    """A Chromium in front of one server. ``open(name)`` gives a page with that notebook."""

    def __init__(self, lab: LabServer, chromium: str, shots: Path) -> None:
        self.lab, self.chromium, self.shots = lab, chromium, shots

    def __enter__(self) -> LabBrowser:
        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(
            executable_path=self.chromium,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._browser.close()
        self._playwright.stop()

    def open(self, name: str, width: int = 1400, height: int = 1000) -> OpenNotebook:
        page = self._browser.new_context(viewport={"width": width, "height": height}).new_page()
        return OpenNotebook(page, self.lab, name, self.shots)


class OpenNotebook:
    """One notebook in one tab. What the page asked for outside this machine is in ``outside``."""

    def __init__(self, page: Page, lab: LabServer, name: str, shots: Path) -> None:
        self.page, self.lab, self.name, self.shots = page, lab, name, shots
        self.outside: list[str] = []
        self.console: list[str] = []
        page.on("request", lambda request: self._asked(request.url))
        page.on("console", lambda said: self.console.append(f"{said.type}: {said.text}") if said.type == "error" else None)
        page.set_default_timeout(OPEN_TIMEOUT_MS)
        page.goto(f"{lab.url}/lab/workspaces/{Path(name).stem}/tree/{name}?reset")
        page.wait_for_selector(f"{NOTEBOOK} .jp-Cell")
        self.panel = page.locator(NOTEBOOK)
        page.wait_for_function("() => window.jupyterapp && window.jupyterapp.shell.currentWidget?.context?.isReady")
        self.fold_sidebars()

    def _asked(self, url: str) -> None:
        if not url.startswith((self.lab.url, self.lab.url.replace("http", "ws"), "data:", "blob:", "about:")):
            self.outside.append(url)

    def fold_sidebars(self) -> None:
        """More room for what is looked at."""
        self.page.evaluate(
            """async () => { const app = window.jupyterapp; await app.restored;
                            app.shell.collapseLeft(); app.shell.collapseRight(); }"""
        )

    # -- running -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        return str(self.page.evaluate(_STATE))

    def wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget.context.sessionContext.session?.kernel?.status === 'idle'",
            timeout=OPEN_TIMEOUT_MS,
        )

    def run_all(self) -> str:
        """Run > Run All Cells, by mouse; returns "idle" when every cell ran, "error" as soon as one failed."""
        self.wait_for_kernel()
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$")).click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
        self.page.wait_for_function(f"() => ['idle', 'error'].includes(({_STATE})())", timeout=RUN_TIMEOUT_MS, polling=500)
        self.settle()
        return self.state

    def settle(self, quiet_ms: int = 1500) -> None:
        """Wait until the page has not changed for a moment: pictures decoded, widgets drawn."""
        self.page.evaluate(
            """async (quiet) => {
                const end = Date.now() + 30000;
                let last = Date.now();
                const watcher = new MutationObserver(() => { last = Date.now(); });
                watcher.observe(document.body, {subtree: true, childList: true, attributes: true, characterData: true});
                while (Date.now() < end && Date.now() - last < quiet) await new Promise(done => setTimeout(done, 100));
                watcher.disconnect();
                await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
            }""",
            quiet_ms,
        )

    def save(self) -> None:
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")

    def theme(self, name: str) -> None:
        self.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
        self.settle()

    # -- looking -----------------------------------------------------------------------------------------------------

    def red(self) -> list[str]:
        """Everything that a reader sees in red: errors, standard error, widgets that could not be drawn."""
        found = [text[:500] for text in self.panel.locator(RED).all_inner_texts()]
        words = re.findall(r"(?:Error displaying widget|Loading widget|model not found)[^\n]*", self.output_text())
        return found + words

    def output_text(self) -> str:
        """What the outputs show, without the sources of the cells."""
        return "\n".join(self.panel.locator(".jp-Cell-outputArea").all_inner_texts())

    def pictures(self) -> list[dict[str, Any]]:
        """Each picture in an output: its alternative text, its size, and its natural width (0: not drawn)."""
        return list(
            self.page.evaluate(
                """panel => [...document.querySelectorAll(panel + ' .jp-OutputArea img')].map(
                    image => ({alt: image.alt, drawn: image.complete ? image.naturalWidth : 0, width: image.clientWidth}))""",
                NOTEBOOK,
            )
        )

    def board(self) -> Locator:
        """The live board, scrolled into view."""
        found = self.panel.locator(".dk-board").first
        found.scroll_into_view_if_needed()
        return found

    def overflow(self, inside: Locator) -> int:
        """Pixels by which something is wider than the place it has."""
        return int(inside.evaluate("element => Math.max(0, element.scrollWidth - element.clientWidth)"))

    def shot(self, label: str, whole: bool = False) -> Path:
        """A screenshot in ``test-output/browser/``; ``whole``: the window grows to show the notebook from top to bottom."""
        self.shots.mkdir(parents=True, exist_ok=True)
        path = self.shots / f"{Path(self.name).stem}-{label}.png"
        before = self.page.viewport_size
        if whole and before:
            tall = self.panel.locator(".jp-WindowedPanel-outer").first.evaluate("element => element.scrollHeight")
            self.page.set_viewport_size({"width": before["width"], "height": min(TALLEST_PX, int(tall) + 250)})
            self.panel.locator(".jp-WindowedPanel-outer").first.evaluate("element => { element.scrollTop = 0; }")
            self.settle(500)
        self.page.screenshot(path=path)
        if whole and before:
            self.page.set_viewport_size(before)
        return path

    def close(self) -> None:
        self.page.evaluate("async () => { await window.jupyterapp.shell.currentWidget?.context?.sessionContext?.shutdown?.(); }")
        self.page.context.close()
