"""Pictures as SVG, drawn without a browser: text, lines and axes have the colour of the page they stand in."""

from collections.abc import Mapping
from html import escape
from typing import Any

from plait.show.document import Picture

INK = "#101112"  # stands for the page's own colour until a chart is drawn

AXES: Mapping[str, Any] = {
    "labelColor": INK, "titleColor": INK, "domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.12,
    "domainOpacity": 0.4, "tickOpacity": 0.4, "titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11,
}  # fmt: skip

# What all charts have in common. Marks have colours that stand out from light pages and from dark ones.
CONFIG: Mapping[str, Any] = {
    "background": "transparent",
    "aria": False,  # a picture has one name, its words; names of marks would repeat data
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": AXES,
    "header": {"labelColor": INK, "titleColor": INK},
    "legend": {"labelColor": INK, "titleColor": INK, "titleFontWeight": "normal"},
    "title": {"color": INK, "subtitleColor": INK, "anchor": "start", "fontSize": 12},
    "text": {"color": INK},
    "rule": {"color": INK},
}

NEEDED = "pip install 'tensorplait[report]'"


def drawn(picture: Picture) -> str | None:
    """The picture as an SVG element; None where the packages that draw are not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    chart = dict(picture.chart())
    svg: str = vl_convert.vegalite_to_svg(chart)
    return _named(svg[svg.index("<svg") :].replace(INK, "currentColor"), picture.alt)


def _named(svg: str, alt: str) -> str:
    """The drawing as one thing with a name, for those who do not see it."""
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
