"""The board as an object for the last line of a cell: widget where widgets live, HTML where they do not, text in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from diag_kit.show.page import page
from diag_kit.show.text import screen

if TYPE_CHECKING:
    from diag_kit.investigation import Investigation
    from diag_kit.show.view import View

_KEPT = "_live_board"
"""Where an investigation keeps its live board: the two live and die together."""


class Board:
    """Question, answer, what decides next, and four columns of cards that open to the evidence.

    Showing it twice, or running its cell again, shows the same live board: nothing the reader has typed or dismissed is lost.
    """

    def __init__(self, inv: Investigation) -> None:
        self.inv = inv

    @property
    def view(self) -> View:
        """The live widgets; made on first use."""
        kept: View | None = getattr(self.inv, _KEPT, None)
        if kept is None:
            from diag_kit.show.view import View

            kept = View(self.inv)
            setattr(self.inv, _KEPT, kept)
        return kept

    @property
    def widget(self) -> Any:
        """The ipywidgets box, to place inside another panel."""
        return self.view.box

    def refresh(self) -> None:
        """Draw the ledger as it is now (it follows by itself)."""
        self.view.refresh()

    def __repr__(self) -> str:
        """Cheap on purpose: a widget's own repr would print every trait."""
        return f"<Board of {self.inv.host.name}: {self.inv.question!r}; needs a notebook, in a terminal: print(inv)>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Widget view for a live notebook, HTML for one that was opened and not run, text for a terminal (IPython's rule:
        a bundle replaces all other representations; a front end takes the richest type that it can show)."""
        made = self.widget._repr_mimebundle_() or {}
        data, metadata = made if isinstance(made, tuple) else (made, {})
        return {**data, "text/html": page(self.inv), "text/plain": screen(self.inv)}, metadata
