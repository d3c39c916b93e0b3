"""The live board: ipywidgets that show an investigation and follow it while it grows.

Cards are ``<details>`` inside HTML widgets, so that they open without the kernel, by mouse or keyboard, also while a cell runs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as w
from markupsafe import Markup

from diag_kit.calculate.standard import standard_calculators
from diag_kit.observe.probe import all_probes
from diag_kit.progress import Progress
from diag_kit.records import Entry, Value
from diag_kit.show.assume import tell_row
from diag_kit.show.columns import Columns, set_html
from diag_kit.show.format import visible
from diag_kit.show.html import fill
from diag_kit.show.html import trouble as as_html
from diag_kit.show.offers import Offer
from diag_kit.show.page import answer, foot, head
from diag_kit.show.style import STYLE
from diag_kit.show.summary import Summary, summarise
from diag_kit.show.work import TICK_S, Running, Trouble, Worker, trouble_of

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation

DIAGNOSE_S = 20


class View:
    """One live board. ``box`` is the widget; ``refresh`` draws the ledger as it is now."""

    def __init__(self, inv: Investigation) -> None:
        self.inv = inv
        self.prefix = f"dk{id(inv) % 10**8}-"
        self._lock = threading.RLock()
        self._timer_lock = threading.Lock()  # apart: whoever enters a record must never wait for a drawing
        self._dismissed: set[str] = set()
        self._timer: threading.Timer | None = None
        self._layout = w.Layout(width="100%", margin="0")
        self.running = Running()
        self.worker = Worker(self._later)
        self.trouble: Trouble | None = None
        self._build()
        self._unsubscribe = inv.subscribe(self._heard)
        self.refresh()

    # -- the parts -------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.head, self.answer, self.foot = (self._html() for _ in range(3))
        self.decides = w.HTML(layout=w.Layout(flex="1 1 320px", min_width="0"))
        self.errors = w.HTML(layout=w.Layout(width="100%"))
        self.run = self._button("Run", "Run this probe now", self._run_next, "primary")
        self.later = self._button("Not now", "Show the next best probe instead", self._not_now)
        self.ask = w.HBox([self.run, self.later, self.decides])
        self.consent_text = w.HTML(layout=w.Layout(flex="1 1 320px", min_width="0"))
        self.consent = w.HBox(
            [
                self._button("Yes, run it", "Run although it pauses or loads something", self._consented, "warning"),
                self._button("No", "Do not run it", self._declined),
                self.consent_text,
            ]
        )
        self._asked: Offer | None = None
        self.bar = w.FloatProgress(value=0.0, min=0.0, max=1.0, layout=w.Layout(width="160px"))
        self.doing = w.HTML(layout=w.Layout(flex="1 1 240px", min_width="0"))
        self.cancel = self._button("Cancel", "Stop; what has been seen is kept", self._cancel, "danger")
        self.progress = w.HBox([self.cancel, self.bar, self.doing])
        self.columns = Columns(self.prefix, self._change, lambda given: self._guard(lambda: self.ask_or_run(given)))
        for part in (self.ask, self.consent, self.progress):
            part.layout = w.Layout(width="100%", flex_flow="row wrap", align_items="center")
        self.box = w.VBox(
            [
                w.HTML(STYLE, layout=w.Layout(display="none")),
                *(self.head, self.answer, self.ask, self.consent, self.progress, self.errors),
                *(self.columns.grid, self.foot, tell_row(self._told)),
            ],
            layout=w.Layout(width="100%"),
        )
        self.box.add_class("dk-board")

    def _html(self) -> w.HTML:
        return w.HTML(layout=self._layout)

    def _button(self, text: str, tip: str, act: Callable[[], None], kind: str = "") -> w.Button:
        button = w.Button(description=text, tooltip=tip, button_style=kind, layout=w.Layout(width="auto"))
        button.on_click(lambda _: self._guard(act))
        return button

    def _guard(self, act: Callable[[], None]) -> None:
        """Errors of a callback are shown in the panel: a notebook shows them nowhere."""
        try:
            self.trouble = None
            act()
        except Exception as error:
            self.trouble = trouble_of(error)
        self.refresh()

    # -- what the user does ------------------------------------------------------------------------------------------

    def _offered(self, told: Summary) -> Offer | None:
        return next((p for p in told.next_probes if p.line not in self._dismissed), None)

    def _run_next(self) -> None:
        told = summarise(self.inv)
        if not told.observations:
            self._start(lambda: self.inv.diagnose(seconds=DIAGNOSE_S), "the whole loop", 0.0)
            return
        given = self._offered(told)
        if given is not None:
            self.ask_or_run(given)

    def ask_or_run(self, given: Offer) -> None:
        """Run a read-only probe; ask before a careful one; never run one that changes the host."""
        if not given.run:
            return
        if given.careful:
            self._asked = given
        else:
            self._start(lambda: self._look(given), given.probe.title, given.probe.budget_s)

    def _look(self, given: Offer) -> None:
        """Run what a next probe names: a single probe, then everything that follows from it; or the deciding test."""
        if not given.probe.probe:
            self.inv.verify(given.cause, careful=given.careful)
            return
        self.inv.observe(all_probes()[given.probe.probe]())
        self.inv.calculate(*standard_calculators(self.inv.evidence))
        self.inv.hypothesize()

    def _consented(self) -> None:
        given, self._asked = self._asked, None
        if given is not None:
            self._start(lambda: self._look(given), given.probe.title, given.probe.budget_s)

    def _declined(self) -> None:
        self._asked = None

    def _not_now(self) -> None:
        given = self._offered(summarise(self.inv))
        if given is not None:
            self._dismissed.add(given.line)

    def _cancel(self) -> None:
        self.inv.cancel()

    def _start(self, work: Callable[[], object], doing: str, budget_s: float) -> None:
        self.inv.stop.clear()

        def run() -> None:
            self.running.feed(Progress(doing, budget_s))
            try:
                work()
            finally:
                self.running.feed(Progress(doing, budget_s, done=True))

        if self.worker.start(run):
            self._later()

    def _change(self, id: str, name: str, value: Value) -> None:
        self.inv.recalculate(id, **{name: value})
        self.inv.hypothesize()
        self.refresh()

    def _told(self, name: str, value: Value, unit: str) -> None:
        self.inv.tell(name, value, unit)
        self.inv.calculate(*standard_calculators(self.inv.evidence))
        self.inv.hypothesize()
        self.refresh()

    # -- what the investigation does -----------------------------------------------------------------------------------

    def _heard(self, event: Progress | Entry) -> None:
        if isinstance(event, Progress):
            self.running.feed(event)
        self._later()

    def _later(self) -> None:
        """Draw soon, and again while something runs: many events become one drawing."""
        with self._timer_lock:
            if self._timer is None:
                self._timer = threading.Timer(TICK_S / 2, self._tick)
                self._timer.daemon = True
                self._timer.start()

    def _tick(self) -> None:
        with self._timer_lock:
            self._timer = None
        self.refresh()
        if self.running.busy or self.worker.busy:
            self._later()

    def close(self) -> None:
        self._unsubscribe()
        self.box.close()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Set every part that changed. Drawn from threads too, so an error is shown in the panel: nobody would see a raise."""
        with self._lock:
            try:
                self._draw(summarise(self.inv))
            except Exception as error:
                set_html(self.errors, as_html(trouble_of(error)))
                _show(self.errors, True)

    def _draw(self, told: Summary) -> None:
        set_html(self.head, head(told))
        set_html(self.answer, answer(told))
        set_html(self.foot, foot(told, self.prefix))
        self._show_offer(told)
        self._show_progress()
        self._show_trouble()
        self.columns.show(told, self.running.busy or self.worker.busy)

    def _show_offer(self, told: Summary) -> None:
        given = self._offered(told)
        busy = self.running.busy or self.worker.busy
        if not told.observations:
            set_html(self.decides, fill("Look at everything cheap, about {seconds} s, read-only.", seconds=DIAGNOSE_S))
            self.run.description, self.later.layout.display = "Diagnose", "none"
        elif given is not None:
            set_html(self.decides, _offer(given))
            self.run.description, self.later.layout.display = "Run", ""
        self.run.disabled = busy
        self.run.layout.display = "none" if given is not None and not given.run else ""
        _show(self.ask, not told.observations or given is not None)
        asked = self._asked
        _show(self.consent, asked is not None)
        if asked is not None:
            set_html(
                self.consent_text,
                fill(
                    "<b>{title}</b> is careful: it pauses a process or adds load on {host} for about {seconds} s. Run it?",
                    title=asked.probe.title,
                    host=self.inv.host.name,
                    seconds=f"{asked.probe.budget_s:.0f}",
                ),
            )

    def _show_progress(self) -> None:
        line, fraction = self.running.state()
        _show(self.progress, bool(line))
        if line:
            stopping = "stopping… " if self.inv.stop.is_set() else ""
            in_cell = "" if self.worker.busy else " (runs in a cell: the notebook's stop button ■ ends it)"
            set_html(self.doing, fill("{stopping}{line}{in_cell}", line=line, stopping=stopping, in_cell=in_cell))
            self.bar.value = fraction

    def _show_trouble(self) -> None:
        trouble = self.trouble or self.worker.trouble
        if trouble is not None:
            set_html(self.errors, as_html(trouble))
        elif self.worker.cancelled:
            set_html(
                self.errors, fill('<div role="status">{what}</div>', what="Cancelled. What had been seen until then is kept.")
            )
        else:
            set_html(self.errors, Markup(""))
        _show(self.errors, bool(self.errors.value))


def _offer(given: Offer) -> Markup:
    what = given.probe.what_it_decides if given.run else given.by_hand
    return fill("Decides next: <b>{line}</b>{what}", line=given.line, what=f" ({visible(what, 160)})" if what else "")


def _show(part: Any, yes: bool) -> None:
    display = "" if yes else "none"
    if part.layout.display != display:
        part.layout.display = display
