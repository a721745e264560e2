"""A document as one file of HTML.

It asks for no other file, and has a Content-Security-Policy that allows none. Without scripts it is complete; an
interactive one has tables that can be sorted and charts that answer to the pointer, by scripts inside of the file that
the policy knows by their hashes.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files

from plait.show.document import Document, Picture, Section
from plait.show.html import PAGE, anchor, render
from plait.show.svg import INK, drawn

VEGA = "/* Vega, Vega-Lite, Vega-Embed: University of Washington Interactive Data Lab, BSD-3-Clause */\n"


def write_page(document: Document, *, foot: str = "", interactive: bool = False) -> str:
    """The whole page; foot: a sentence at its end. Needs jinja2, and vl-convert where there are pictures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    page = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    look = replace(PAGE, draw=_with_specification) if interactive else PAGE
    scripts = _scripts(any(document.every(Picture))) if interactive else ()
    return page.from_string(_read("page.html")).render(
        title=document.title,
        contents=[(block.name or anchor(block.title), block.title) for block in _sections(document)],
        style=Markup(_read("style.css")),
        body=Markup(render(document, look)),  # which escapes by itself
        foot=foot,
        policy=_policy(scripts),
        scripts=[Markup(script) for script in scripts],
    )


def _sections(document: Document) -> list[Section]:
    return [block for block in document.blocks if isinstance(block, Section)]


def _read(name: str) -> str:
    return (files("plait.show.page") / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Nothing is loaded, and nothing runs but these scripts; drawings carry their own styles."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    known = f"; script-src {allowed}" if allowed else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'{known}"


def _scripts(pictures: bool) -> tuple[str, ...]:
    drawing = (_vega(), _read("charts.js")) if pictures else ()
    return _read("sort.js"), *drawing


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega with all that it needs, as a script."""
    import vl_convert

    return VEGA + str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace(
        "</script", "<\\/script"
    ).replace("<!--", "<\\!--")


def _with_specification(picture: Picture) -> str | None:
    """The drawing, and behind it what a script draws it from."""
    svg = drawn(picture)
    if svg is None:
        return None
    chart = json.dumps({**picture.chart(), "description": picture.alt}, ensure_ascii=False).replace(
        f'"{INK}"', '"currentColor"'
    )
    # A script of data is not run, but it ends where a name says so.
    safe = chart.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'{svg}<script type="application/json" class="spec">{safe}</script>'
