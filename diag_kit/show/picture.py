"""A chart that a notebook can keep: a PNG inside HTML, drawn without browser or network, and how to read it."""

from __future__ import annotations

import io
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from diag_kit.errors import DiagError
from diag_kit.show.html import fill
from diag_kit.show.theme import enabled

if TYPE_CHECKING:
    import altair

SCALE = 2
Chart = Any  # an altair chart of any kind: Chart, LayerChart, VConcatChart


@dataclass(frozen=True)
class Figure:
    """A chart with its title and how to read it; or, without a chart, the sentence that says why there is none."""

    title: str
    how_to_read: str
    chart: Chart | None = None
    why_none: str = ""

    def __repr__(self) -> str:
        return f"<Figure: {self.title}{'' if self.chart is not None else ' (no chart)'}>"

    @property
    def png(self) -> bytes:
        """The picture, at twice the size for sharp screens. DiagError where there is no chart."""
        if self.chart is None:
            raise DiagError(self.why_none, where=self.title, next_step="observe what it needs, then draw it again")
        kept: bytes | None = self.__dict__.get("_png")
        if kept is None:
            kept = self.__dict__["_png"] = to_png(self.chart)
        return kept

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.text()}

    def html(self) -> str:
        """Self-contained: nothing is loaded from anywhere, now or when the notebook is opened again."""
        if self.chart is None:
            return str(
                fill(
                    '<div style="border:1px dashed #808080;padding:6px 8px"><b>{title}</b>: no chart. {why}</div>',
                    title=self.title,
                    why=self.why_none,
                )
            )
        import base64

        data = self.png
        width = int.from_bytes(data[16:20], "big") // SCALE
        return str(
            fill(
                '<div><img alt="{title}. {how}" width="{width}" style="max-width:100%;height:auto" src="{source}">'
                '<div style="max-width:{width}px;font-size:13px;line-height:1.4">How to read it: {how}</div></div>',
                title=self.title,
                how=self.how_to_read,
                width=width,
                source=Markup("data:image/png;base64,") + Markup(base64.b64encode(data).decode("ascii")),
            )
        )

    def text(self) -> str:
        return f"{self.title}: {self.how_to_read if self.chart is not None else f'no chart. {self.why_none}'}"


def to_png(chart: Chart) -> bytes:
    """Draw with vl-convert: no browser, no network."""
    _needs("vl_convert", "vl-convert-python")
    out = io.BytesIO()
    with enabled():
        chart.save(out, format="png", scale_factor=SCALE)
    return squeeze(out.getvalue())


def squeeze(png: bytes) -> bytes:
    """The same PNG, its pixels packed as tightly as zlib can: a fifth of what vl-convert writes, and notebooks keep it."""
    before: list[bytes] = []
    after: list[bytes] = []
    signature, position, pixels = png[:8], 8, b""
    while position < len(png):
        length = int.from_bytes(png[position : position + 4], "big")
        chunk = png[position : position + 12 + length]
        if chunk[4:8] == b"IDAT":
            pixels += chunk[8:-4]
        else:
            (after if pixels else before).append(chunk)
        position += 12 + length
    packed = b"IDAT" + zlib.compress(zlib.decompress(pixels), 9)
    data = (len(packed) - 4).to_bytes(4, "big") + packed + zlib.crc32(packed).to_bytes(4, "big")
    return b"".join((signature, *before, data, *after))


def show(chart: Figure | Chart, live: bool = False, how_to_read: str = "") -> Any:
    """Show a figure or an altair chart.

    ``live=False``: a picture that is the same now, in a notebook opened without running it, and in an export. ``live=True``: an
    interactive chart whose selections reach Python (``.selections``, ``.params``); offline too, but it adds 0.9 MB to a notebook
    that stores widget state, so one per panel at most, updated in place.
    """
    figure = chart if isinstance(chart, Figure) else Figure("chart", how_to_read, chart)
    if not live or figure.chart is None:
        return figure
    return live_chart(figure.chart)


def live_chart(chart: Chart) -> altair.JupyterChart:
    """An offline JupyterChart."""
    _needs("vl_convert", "vl-convert-python")
    _needs("anywidget", "anywidget")
    import altair as alt

    alt.JupyterChart.enable_offline()
    with enabled():
        return alt.JupyterChart(chart)


def _needs(module: str, package: str) -> None:
    """Altair's own error for a missing package is an AttributeError that names neither."""
    import importlib.util

    if importlib.util.find_spec(module) is None:
        raise DiagError(f"charts need {package}, which is not installed", where="this kernel", next_step=f"pip install {package}")
