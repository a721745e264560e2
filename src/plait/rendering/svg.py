"""Charts as SVG, drawn without a browser, in the colours of the page."""

import os
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from plait.rendering.document import Picture

INK = "#101112"  # placeholder of the page's own colour

# Colours of marks, with contrast on light and dark pages, safe for colour-blind readers.
MARKS = BLUE, VERMILION, GREEN, PURPLE, GREY = "#1A7FC1", "#D55E00", "#009E73", "#B5609A", "#7D7D7D"

# Layout uses the letter widths of Arial: fonts of equal width, and space for others.
FONT = "Arial, Liberation Sans, Helvetica, sans-serif"
PADDING = {"left": 14, "right": 14, "top": 5, "bottom": 5}

AXES: Mapping[str, Any] = {
    "labelColor": INK, "titleColor": INK, "domainColor": INK, "tickColor": INK, "gridColor": INK, "gridOpacity": 0.12,
    "domainOpacity": 0.4, "tickOpacity": 0.4, "titleFontWeight": "normal", "labelFontSize": 11, "titleFontSize": 11,
    "titlePadding": 10,
}  # fmt: skip

# Common configuration of charts. Colours of marks have contrast on light and dark pages.
CONFIG: Mapping[str, Any] = {
    "background": "transparent",
    "aria": False,  # a picture has one name, its words; names of marks would repeat data
    "font": FONT,
    "padding": PADDING,
    "view": {"stroke": None},
    "axis": AXES,
    "header": {"labelColor": INK, "titleColor": INK},
    "legend": {"labelColor": INK, "titleColor": INK, "titleFontWeight": "normal"},
    "title": {"color": INK, "subtitleColor": INK, "anchor": "start", "fontSize": 12},
    "text": {"color": INK},
    "rule": {"color": INK},
}

NEEDED = "pip install 'tensorplait[report]'"


_HOME = os.getpid()  # a forked process would wait without end for the renderer, whose threads it lacks


def drawn(picture: Picture) -> str | None:
    """The picture as an SVG element; None if the packages are not installed, or cannot work."""
    if os.getpid() != _HOME:
        return None
    try:
        import vl_convert
    except ImportError:
        return None
    svg: str = vl_convert.vegalite_to_svg(_drawable(picture.chart()))
    return inline(svg, picture.alt)


def inline(svg: str, alt: str) -> str:
    """A drawing as an element of a page, in its ink and with an accessible name; idempotent."""
    return _named(_TAG.sub(_tidied, _STYLE.sub("", svg[svg.index("<svg") :])), alt)


def _drawable(value: Any) -> Any:
    """A chart without characters that SVG forbids: a NUL ends the whole process."""
    if isinstance(value, str):
        return _CONTROL.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {key: _drawable(one) for key, one in value.items()}
    return [_drawable(one) for one in value] if isinstance(value, (list, tuple)) else value


_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")  # not in XML

# Text between tags is escaped data; only tags are changed.
_TAG = re.compile(r"<[^<>]*>")
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)  # what a drawing looks like on its own
_USELESS = re.compile(
    r' (?:class|role|aria-[a-z]+|pointer-events|font-family|overflow)="[^"]*"| (?:stroke-)?opacity="1"'
)
_NOTHING = re.compile(
    r'<path [^>]*(?: d="(?:M0,0h0v0h0Z)?"| display="none")[^>]*/>'
    r'|<rect [^>]*fill="(?:transparent|white)"/>'  # the ground of a chart
)
_FINE = re.compile(r"(\d\.\d\d)\d+")  # digits of a number beyond a hundredth of a pixel


def _tidied(tag: re.Match[str]) -> str:
    """A tag in the colour of the page, without redundant attributes, half of a drawing."""
    if _NOTHING.fullmatch(tag[0]):
        return ""
    return _FINE.sub(r"\1", _USELESS.sub("", tag[0])).replace(f'"{INK}"', '"currentColor"')


def _named(svg: str, alt: str) -> str:
    """The drawing with an accessible name."""
    return svg.replace(
        "<svg ", f'<svg role="img" aria-label="{escape(alt)}" font-family="{FONT}" overflow="visible" ', 1
    )
