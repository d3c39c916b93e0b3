"""The document as one HTML file that needs nothing else: styles inside, pictures as data, no script, no link out.

A content security policy in the page says the same to the browser, so that even a mistake here could not load anything.
"""

from __future__ import annotations

import base64
import re

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from diag_kit.postmortem.document import Document, Line, Picture, text_of
from diag_kit.postmortem.wording import one_line, verbatim
from diag_kit.show.picture import SCALE

SHORT = 28
"""Characters."""
BREAKS = "_/."


def render(document: Document) -> str:
    environment = Environment(
        loader=PackageLoader("diag_kit", "postmortem"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["one_line"] = one_line
    environment.filters["verbatim"] = verbatim
    environment.filters["data_uri"] = _data_uri
    environment.filters["shown_width"] = _shown_width
    environment.filters["is_short"] = _is_short
    environment.filters["breakable"] = _breakable
    return environment.get_template("page.html.jinja").render(document=document) + "\n"


def _is_short(cell: Line) -> bool:
    """Cells that a browser must not break: names, numbers, times. The others share the rest of the row."""
    return len(text_of(cell)) <= SHORT


def _breakable(text: str) -> Markup:
    """Code in which a browser may break a line after each underscore, slash or point, and only there."""
    return Markup("").join(
        escape(part) + (Markup("<wbr>") if part in BREAKS else "") for part in re.split(r"([_/.])", one_line(text))
    )


def _shown_width(picture: Picture) -> int:
    """Pixels on the page: charts are drawn at twice the size, for sharp screens and print. From the PNG's header."""
    return int.from_bytes(picture.png[16:20], "big") // SCALE


def _data_uri(picture: Picture) -> str:
    return "data:image/png;base64," + base64.b64encode(picture.png).decode("ascii")
