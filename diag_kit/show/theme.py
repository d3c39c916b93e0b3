"""One theme for every chart: mid-tones for light and dark pages, a palette that colour-blind readers can tell apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair

INK = "#7a7a7a"
FAINT = "#9090902b"
BLUE, RUST, GREEN, PURPLE, SKY, OCHRE, ROSE, SLATE = (
    "#3b7fc4", "#d55e00", "#0a9b74", "#9467bd", "#3aa0d1", "#b58900", "#c85a9c", "#7f7f7f",
)  # fmt: skip
PALETTE = (BLUE, RUST, GREEN, PURPLE, OCHRE, SKY, ROSE, SLATE)
"""After Okabe and Ito's palette, each tone moved until it has 3:1 contrast on white and on near-black."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-left", "triangle-right")
NAME = "diag_kit"
WIDTH = 640


def rank_scales(ranks: list[int]) -> tuple[altair.Scale, altair.Scale]:
    """Colour and point shape of each rank: rank 3 looks the same in every chart, whichever other ranks are drawn."""
    import altair as alt

    domain = [str(rank) for rank in sorted(ranks)]
    colours = [PALETTE[rank % len(PALETTE)] for rank in sorted(ranks)]
    shapes = [SHAPES[rank % len(SHAPES)] for rank in sorted(ranks)]
    return alt.Scale(domain=domain, range=colours), alt.Scale(domain=domain, range=shapes)


def config() -> dict[str, Any]:
    """The Vega-Lite configuration."""
    text = {"labelColor": INK, "titleColor": INK, "labelFontSize": 13, "titleFontSize": 13}
    return {
        "background": "transparent",
        "font": "sans-serif",
        "view": {"stroke": "transparent", "continuousWidth": WIDTH, "continuousHeight": 220},
        "axis": {
            **text,
            "titleFontWeight": "normal",
            "gridColor": FAINT,
            "domainColor": INK,
            "tickColor": INK,
            "labelLimit": 320,
        },
        "legend": {**text, "symbolSize": 90, "orient": "top"},
        "title": {"color": INK, "subtitleColor": INK, "fontSize": 16, "subtitleFontSize": 13, "anchor": "start", "offset": 10},
        "text": {"color": INK, "fontSize": 13},
        "rule": {"color": INK},
        "range": {"category": list(PALETTE)},
    }


def enabled() -> Any:
    """A context in which the theme is on; the reader's own charts elsewhere keep theirs."""
    import altair as alt

    if NAME not in alt.theme.names():
        alt.theme.register(NAME, enable=False)(lambda: alt.theme.ThemeConfig(config=config()))  # type: ignore[typeddict-item]
    return alt.theme.enable(NAME)
