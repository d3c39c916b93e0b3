"""From a case to the one document that all exports are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from diag_kit.postmortem.actions import actions
from diag_kit.postmortem.appendix import appendix
from diag_kit.postmortem.document import Block, Bullets, Document, Line, Picture, Section, line, strong
from diag_kit.postmortem.first_page import about_lines, first_page, title
from diag_kit.postmortem.ledger import Ledger
from diag_kit.postmortem.reckoning import calculations, hypotheses, verification
from diag_kit.postmortem.snapshot import Snapshot
from diag_kit.postmortem.story import evidence, exoneration, timeline

Charts: TypeAlias = Sequence[tuple[str, bytes, str]]
"""Title, PNG bytes, and the sentence on how to read it; without bytes, why there is no picture."""


def compose(case: Snapshot, charts: Charts = (), kit_version: str | None = None) -> Document:
    """The whole postmortem. The same case gives the same document: no clock is read."""
    ledger = Ledger(case)
    sections = (
        timeline(ledger),
        *_pictures(charts),
        evidence(ledger),
        exoneration(ledger),
        calculations(ledger),
        hypotheses(ledger),
        verification(ledger),
        actions(ledger),
        *appendix(ledger, kit_version or _kit_version()),
    )
    return Document(title(ledger), about_lines(ledger), first_page(ledger), sections)


def _pictures(charts: Charts) -> tuple[Section, ...]:
    if not charts:
        return ()
    blocks: list[Block] = [Picture(name, png, how) for name, png, how in charts if png]
    missing: list[Line] = [line(strong(name), f": no chart. {why}") for name, png, why in charts if not png]
    return (Section("Charts", "charts", (*blocks, Bullets(tuple(missing))) if missing else tuple(blocks)),)


def _kit_version() -> str:
    from diag_kit import __version__

    return __version__
