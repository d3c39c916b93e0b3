"""The live board: ipywidgets that show an investigation and follow it while it grows.

Cards are ``<details>`` inside HTML widgets, so that they open without the kernel, by mouse or keyboard, also while a cell runs.
A card's widget is made once and its value set only when it changed: what the reader has opened stays open.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ipywidgets as w
from markupsafe import Markup

from diag_kit.calculate.standard import standard_calculators
from diag_kit.observe.probe import all_probes
from diag_kit.progress import NextProbe, Progress
from diag_kit.records import Calculation, Cost, Entry, Value
from diag_kit.show.assume import fields, tell_row
from diag_kit.show.cards import calculation_card, hypothesis_card, observation_card, verification_card
from diag_kit.show.format import visible
from diag_kit.show.html import fill
from diag_kit.show.html import trouble as as_html
from diag_kit.show.page import answer, column_count, foot, head, in_order, nothing_yet, probe_card
from diag_kit.show.style import STYLE
from diag_kit.show.summary import Summary, how_to_run, probe_line, summarise
from diag_kit.show.work import TICK_S, Running, Trouble, Worker, trouble_of

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation

COLUMNS = ("Observe", "Calculate", "Hypothesize", "Verify")
DIAGNOSE_S = 20


class View:
    """One live board. ``box`` is the widget; ``refresh`` draws the ledger as it is now."""

    def __init__(self, inv: Investigation) -> None:
        self.inv = inv
        self.prefix = f"dk{id(inv) % 10**8}-"
        self._lock = threading.RLock()
        self._cards: dict[str, w.Widget] = {}
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
        self._asked: NextProbe | None = None
        self.bar = w.FloatProgress(value=0.0, min=0.0, max=1.0, layout=w.Layout(width="160px"))
        self.doing = w.HTML(layout=w.Layout(flex="1 1 240px", min_width="0"))
        self.cancel = self._button("Cancel", "Stop; what has been seen is kept", self._cancel, "danger")
        self.progress = w.HBox([self.cancel, self.bar, self.doing])
        self.columns = {name: w.VBox([], layout=w.Layout(width="100%", min_width="0")) for name in COLUMNS}
        self.column_heads = {name: self._html() for name in COLUMNS}
        grid = w.GridBox(
            [w.VBox([self.column_heads[name], self.columns[name]], layout=w.Layout(min_width="0")) for name in COLUMNS],
            layout=w.Layout(
                width="100%",
                grid_template_columns="repeat(auto-fit, minmax(245px, 1fr))",
                grid_gap="8px",
                align_items="flex-start",
            ),
        )
        for part in (self.ask, self.consent, self.progress):
            part.layout = w.Layout(width="100%", flex_flow="row wrap", align_items="center")
        self.box = w.VBox(
            [
                w.HTML(STYLE, layout=w.Layout(display="none")),
                *(self.head, self.answer, self.ask, self.consent, self.progress, self.errors),
                *(grid, self.foot, tell_row(self._told)),
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

    def _offered(self, told: Summary) -> NextProbe | None:
        return next((p for p in told.next_probes if p.cause not in self._dismissed), None)

    def _run_next(self) -> None:
        told = summarise(self.inv)
        if not told.observations:
            self._start(lambda: self.inv.diagnose(seconds=DIAGNOSE_S), "the whole loop", 0.0)
            return
        probe = self._offered(told)
        if probe is not None:
            self.ask_or_run(probe)

    def ask_or_run(self, probe: NextProbe) -> None:
        """Run a read-only probe; ask before a careful one; never run one that changes the host."""
        if not how_to_run(probe):
            return
        if probe.cost is Cost.CAREFUL:
            self._asked = probe
        else:
            self._start(lambda: self._look(probe), probe.title, probe.budget_s)

    def _look(self, probe: NextProbe) -> None:
        """Run what a next probe names: a single probe, then everything that follows from it; or the deciding test."""
        if not probe.probe:
            self.inv.verify(probe.cause, careful=probe.cost is Cost.CAREFUL)
            return
        self.inv.observe(all_probes()[probe.probe]())
        self.inv.calculate(*standard_calculators(self.inv.evidence))
        self.inv.hypothesize()

    def _consented(self) -> None:
        probe, self._asked = self._asked, None
        if probe is not None:
            self._start(lambda: self._look(probe), probe.title, probe.budget_s)

    def _declined(self) -> None:
        self._asked = None

    def _not_now(self) -> None:
        probe = self._offered(summarise(self.inv))
        if probe is not None:
            self._dismissed.add(probe.cause)

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
        with self._lock:
            if self._timer is None:
                self._timer = threading.Timer(TICK_S / 2, self._tick)
                self._timer.daemon = True
                self._timer.start()

    def _tick(self) -> None:
        with self._lock:
            self._timer = None
        self.refresh()
        if self.running.busy or self.worker.busy:
            self._later()

    def close(self) -> None:
        self._unsubscribe()
        self.box.close()

    # -- drawing -------------------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Set every part that changed."""
        with self._lock:
            told = summarise(self.inv)
            _set(self.head, head(told))
            _set(self.answer, answer(told))
            _set(self.foot, foot(told, self.prefix))
            self._show_offer(told)
            self._show_progress()
            self._show_trouble()
            self._show_columns(told)

    def _show_offer(self, told: Summary) -> None:
        probe = self._offered(told)
        busy = self.running.busy or self.worker.busy
        if not told.observations:
            _set(self.decides, fill("Look at everything cheap, about {seconds} s, read-only.", seconds=DIAGNOSE_S))
            self.run.description, self.later.layout.display = "Diagnose", "none"
        elif probe is not None:
            _set(self.decides, _offer(probe))
            self.run.description, self.later.layout.display = "Run", ""
        self.run.disabled = busy
        self.run.layout.display = "none" if probe is not None and not how_to_run(probe) else ""
        _show(self.ask, not told.observations or probe is not None)
        asked = self._asked
        _show(self.consent, asked is not None)
        if asked is not None:
            _set(
                self.consent_text,
                fill(
                    "<b>{title}</b> is careful: it pauses a process or adds load on {host} for about {seconds} s. Run it?",
                    title=asked.title,
                    host=self.inv.host.name,
                    seconds=f"{asked.budget_s:.0f}",
                ),
            )

    def _show_progress(self) -> None:
        line, fraction = self.running.state()
        _show(self.progress, bool(line))
        if line:
            stopping = "stopping… " if self.inv.stop.is_set() else ""
            in_cell = "" if self.worker.busy else " (runs in a cell: the notebook's stop button ■ ends it)"
            _set(self.doing, fill("{stopping}{line}{in_cell}", line=line, stopping=stopping, in_cell=in_cell))
            self.bar.value = fraction

    def _show_trouble(self) -> None:
        trouble = self.trouble or self.worker.trouble
        if trouble is not None:
            _set(self.errors, as_html(trouble))
        elif self.worker.cancelled:
            _set(self.errors, fill('<div role="status">{what}</div>', what="Cancelled. What had been seen until then is kept."))
        else:
            _set(self.errors, Markup(""))
        _show(self.errors, bool(self.errors.value))

    def _show_columns(self, told: Summary) -> None:
        made: dict[str, list[w.Widget]] = {
            "Observe": [self._card(seen.id, observation_card(seen, self.prefix)) for seen in told.observations],
            "Calculate": self._calculations(told),
            "Hypothesize": [self._card(each.id, hypothesis_card(each, self.prefix)) for each in told.hypotheses],
            "Verify": [self._card(each.id, verification_card(each, self.prefix)) for each in told.verifications]
            + [self._probe(each) for each in told.next_probes],
        }
        for name, cards in made.items():
            _set(
                self.column_heads[name],
                fill(
                    '<div class="dk-column" role="heading" aria-level="3"><b>{name}</b> {n}</div>',
                    name=name,
                    n=column_count(told, name),
                ),
            )
            children = tuple(cards) or (self._card(f"none {name}", nothing_yet(name)),)
            if self.columns[name].children != children:
                self.columns[name].children = children

    def _card(self, key: str, value: Markup) -> w.HTML:
        card = self._cards.get(key)
        if card is None:
            card = self._cards[key] = w.HTML(str(value), layout=self._layout)
        _set(card, value)
        return card

    def _calculations(self, told: Summary) -> list[w.Widget]:
        return [self._calculation(made, by) for made, by in in_order(told)]

    def _calculation(self, made: Calculation, by: str) -> w.Widget:
        card = self._card(f"html {made.id}", calculation_card(made, self.prefix, by))
        key = f"{made.id} {'gone' if by else 'stands'}"
        if key not in self._cards:
            box = None if by else fields(made, self._change)
            self._cards[key] = w.VBox([card, box] if box else [card], layout=self._layout)
            self._cards[key].add_class("dk-card-box")
        return self._cards[key]

    def _probe(self, probe: NextProbe) -> w.Widget:
        key = f"probe {probe.cause} {probe.title}"
        card = self._card(f"html {key}", probe_card(probe))
        if not how_to_run(probe):
            return card
        if key not in self._cards:
            button = self._button("Run", f"Run: {probe_line(probe)}", lambda: self.ask_or_run(probe))
            button.layout.align_self = "flex-start"
            self._cards[key] = w.VBox([card, button], layout=self._layout)
        button = self._cards[key].children[1]
        button.disabled = self.running.busy or self.worker.busy
        return self._cards[key]


def _offer(probe: NextProbe) -> Markup:
    what = f" ({visible(probe.what_it_decides, 160)})" if probe.what_it_decides else ""
    return fill("Decides next: <b>{line}</b>{what}", line=probe_line(probe), what=what)


def _set(part: w.HTML, value: Markup) -> None:
    if part.value != str(value):
        part.value = str(value)


def _show(part: Any, yes: bool) -> None:
    display = "" if yes else "none"
    if part.layout.display != display:
        part.layout.display = display
