"""The four columns of the live board. A card's widget is made once and set only when it changed: what is open stays open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ipywidgets as w
from markupsafe import Markup

from diag_kit.records import Calculation, Entry
from diag_kit.show.assume import Change, fields
from diag_kit.show.cards import card_of
from diag_kit.show.format import visible
from diag_kit.show.html import fill
from diag_kit.show.offers import Offer
from diag_kit.show.page import column_count, in_order, nothing_yet, probe_card
from diag_kit.show.summary import Summary

COLUMNS = ("Observe", "Calculate", "Hypothesize", "Verify")


class Columns:
    """``grid`` is the widget. ``change`` recalculates with another assumption, ``run`` runs an offer."""

    def __init__(self, prefix: str, change: Change, run: Callable[[Offer], None]) -> None:
        self._prefix, self._change, self._run = prefix, change, run
        self._layout = w.Layout(width="100%", margin="0")
        self.cards: dict[str, Any] = {}
        self._drawn: dict[tuple[str, str], tuple[Entry, Markup]] = {}
        self.boxes = {name: w.VBox([], layout=w.Layout(width="100%", min_width="0")) for name in COLUMNS}
        self.heads = {name: w.HTML(layout=self._layout) for name in COLUMNS}
        self.grid = w.GridBox(
            [w.VBox([self.heads[name], self.boxes[name]], layout=w.Layout(min_width="0")) for name in COLUMNS],
            layout=w.Layout(
                width="100%",
                grid_template_columns="repeat(auto-fit, minmax(245px, 1fr))",
                grid_gap="8px",
                align_items="flex-start",
            ),
        )

    def show(self, told: Summary, busy: bool) -> None:
        """Set what changed since the last time."""
        made: dict[str, list[w.Widget]] = {
            "Observe": [self._card(seen.id, self._draw(seen)) for seen in told.observations],
            "Calculate": [self._calculation(each, by) for each, by in in_order(told)],
            "Hypothesize": [self._card(each.id, self._draw(each)) for each in told.hypotheses],
            "Verify": [self._card(each.id, self._draw(each)) for each in told.verifications]
            + [self._test(each, busy) for each in told.next_probes],
        }
        for name, cards in made.items():
            set_html(self.heads[name], _head(name, column_count(told, name)))
            children = tuple(cards) or (self._card(f"none {name}", nothing_yet(name)),)
            if self.boxes[name].children != children:
                self.boxes[name].children = children

    def _draw(self, entry: Entry, by: str = "") -> Markup:
        """The card's HTML, made once for each record: hashing megabytes of raw output again at every tick would cost seconds."""
        key = (getattr(entry, "id", ""), by)
        kept = self._drawn.get(key)
        if kept is None or kept[0] is not entry:
            kept = self._drawn[key] = (entry, card_of(entry, self._prefix, by))
        return kept[1]

    def _card(self, key: str, value: Markup) -> w.HTML:
        if key not in self.cards:
            self.cards[key] = w.HTML(str(value), layout=self._layout)
        set_html(self.cards[key], value)
        return self.cards[key]

    def _calculation(self, made: Calculation, by: str) -> w.Widget:
        """A standing one has fields for its assumptions; a superseded one only its card."""
        card = self._card(f"html {made.id}", self._draw(made, by))
        key = f"{made.id} {'gone' if by else 'stands'}"
        if key not in self.cards:
            box = None if by else fields(made, self._change)
            self.cards[key] = w.VBox([card, box] if box else [card], layout=self._layout)
            self.cards[key].add_class("dk-card-box")
        return self.cards[key]

    def _test(self, given: Offer, busy: bool) -> w.Widget:
        """A test not run yet, with its button where the kit can run it."""
        key = f"test {given.cause} {given.line}"
        card = self._card(f"html {key}", probe_card(given))
        if not given.run:
            return card
        if key not in self.cards:
            tip = f"Run: {visible(given.line, 200)}"
            button = w.Button(description="Run", tooltip=tip, layout=w.Layout(width="auto", align_self="flex-start"))
            button.on_click(lambda _: self._run(given))
            self.cards[key] = w.VBox([card, button], layout=self._layout)
        self.cards[key].children[1].disabled = busy
        return self.cards[key]


def _head(name: str, count: str) -> Markup:
    return fill('<div class="dk-column" role="heading" aria-level="3"><b>{name}</b> {count}</div>', name=name, count=count)


def set_html(part: w.HTML, value: Markup) -> None:
    """Set the trait only when it differs: each setting costs a message and closes what is open."""
    if part.value != str(value):
        part.value = str(value)
