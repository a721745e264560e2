"""Drawings of Plait's inside of pages, in the colours of the page: an image of its own knows no other colours."""

import re
from html import unescape
from pathlib import Path
from typing import Any

from plait.rendering.svg import inline

DOCS = Path(__file__).parents[1]
IMAGE = re.compile(r'<p>\s*<img [^>]*src="[^"]*(?P<file>images/(?:gallery|plots)/[^"]+\.svg)"[^>]*>\s*</p>')
ALT = re.compile(r'alt="(?P<words>[^"]*)"')


def on_page_content(html: str, **_: Any) -> str:
    """Put each drawing where its image was."""
    return IMAGE.sub(_drawing, html)


def _drawing(image: re.Match[str]) -> str:
    words = ALT.search(image[0])
    svg = (DOCS / image["file"]).read_text(encoding="utf-8")
    drawn = inline(svg, unescape(words["words"]) if words else "")
    return f'<figure class="drawing" tabindex="0" data-search-exclude>{drawn}</figure>'
