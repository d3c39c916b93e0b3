"""From a case to the one document that all exports are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

from diag_kit.postmortem.actions import actions
from diag_kit.postmortem.appendix import appendix
from diag_kit.postmortem.document import Document, Picture, Section
from diag_kit.postmortem.first_page import about_lines, first_page, title
from diag_kit.postmortem.ledger import Case, Ledger
from diag_kit.postmortem.reckoning import calculations, hypotheses, verification
from diag_kit.postmortem.story import evidence, exoneration, timeline

Charts: TypeAlias = Sequence[tuple[str, bytes, str]]
"""Title, PNG bytes, and the sentence on how to read it."""


def compose(case: Case, charts: Charts = (), kit_version: str | None = None) -> Document:
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
        *appendix(ledger, kit_version or installed_version()),
    )
    return Document(title(ledger), about_lines(ledger), first_page(ledger), sections)


def _pictures(charts: Charts) -> tuple[Section, ...]:
    if not charts:
        return ()
    return (Section("Charts", "charts", tuple(Picture(name, png, how) for name, png, how in charts)),)


def installed_version() -> str:
    try:
        return version("diag-kit")
    except PackageNotFoundError:
        return "not installed"
