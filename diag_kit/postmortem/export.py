"""Writing a postmortem: the format is told by the file's suffix, the file appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from diag_kit.errors import BadInput
from diag_kit.postmortem import html, markdown
from diag_kit.postmortem.compose import Charts, compose
from diag_kit.postmortem.ledger import Case
from diag_kit.postmortem.pictures import charts_of


def to_markdown(case: Case) -> str:
    """The postmortem as Markdown. The same case gives the same bytes, so that two exports diff."""
    return markdown.render(compose(case))


def to_html(case: Case, charts: Charts = ()) -> str:
    """The postmortem as one self-contained HTML page; ``charts`` are (title, PNG bytes, how to read it)."""
    return html.render(compose(case, charts))


def write(case: Case, path: str | os.PathLike[str]) -> Path:
    """Write the postmortem to ``path`` (.md or .html) and return the path.

    The HTML draws the charts for which the ledger has data. An existing file is replaced only by a complete one. Raises
    BadInput on another suffix or where the file cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix in {".md", ".markdown"}:
        text = to_markdown(case)
    elif suffix in {".html", ".htm"}:
        text = to_html(case, charts_of(case))
    else:
        raise BadInput(
            f"a postmortem is written as .md or .html, not as {suffix or 'a file without suffix'!r}",
            where=str(target),
            next_step="end the name in .md (diffable text) or .html (one page with charts)",
        )
    _write_whole(target, text)
    return target


def _write_whole(target: Path, text: str) -> None:
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".tmp")
    except OSError as error:
        raise _not_written(target, error) from error
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        temporary.chmod(_usual_mode())
        temporary.replace(target)
    except OSError as error:
        raise _not_written(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def _usual_mode() -> int:
    """What a new file would get: mkstemp's 0600 would keep colleagues out."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _not_written(target: Path, error: OSError) -> BadInput:
    return BadInput(
        f"the postmortem could not be written: {error.strerror or error}",
        where=str(target),
        next_step="name a file in a folder that exists and that you may write to",
    )
