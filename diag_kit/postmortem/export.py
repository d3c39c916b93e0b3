"""Writing a postmortem: the file's suffix tells the format, and the file appears whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from diag_kit.errors import BadInput
from diag_kit.postmortem import html, markdown
from diag_kit.postmortem.compose import Charts, compose
from diag_kit.postmortem.pictures import charts_of
from diag_kit.postmortem.snapshot import Case, Snapshot, snapshot
from diag_kit.recording_archive import write_atomic
from diag_kit.redaction import Redactor


def to_markdown(case: Case, *, redactor: Redactor | None = None) -> str:
    """The postmortem as Markdown, redacted. The same case gives the same bytes, so that two exports diff."""
    return _markdown(snapshot(case, redactor))


def to_html(case: Case, charts: Charts = (), *, redactor: Redactor | None = None) -> str:
    """The postmortem as one self-contained HTML page, redacted; ``charts`` are (title, PNG bytes, how to read it)."""
    return _html(snapshot(case, redactor), charts)


def write(case: Case, path: str | os.PathLike[str], *, redactor: Redactor | None = None) -> Path:
    """Write the postmortem to ``path`` (.md or .html) and return the path.

    Names, addresses and secrets are replaced as in a recording (``redactor`` None: everything that is found). The HTML draws
    the charts for which the ledger has data. An existing file is replaced only by a complete one. Raises BadInput on another
    suffix or where the file cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in {".md", ".markdown", ".html", ".htm"}:
        raise BadInput(
            f"a postmortem is written as .md or .html, not as {suffix or 'a file without suffix'}",
            where=str(target),
            next_step="end the name in .md (text that diffs) or .html (one page with charts)",
        )
    shown = snapshot(case, redactor)
    text = _markdown(shown) if suffix in {".md", ".markdown"} else _html(shown, charts_of(shown))
    write_atomic(target, text.encode("utf-8", "replace"))
    return target


def _markdown(case: Snapshot) -> str:
    return markdown.render(compose(case))


def _html(case: Snapshot, charts: Charts) -> str:
    return html.render(compose(case, charts))
