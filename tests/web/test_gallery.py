"""Pictures of the gallery can be read by themselves and inside of the site's pages, on light ground and on dark."""

from pathlib import Path

import pytest

from plait.rendering.svg import inline

pytestmark = pytest.mark.thorough

DOCS = Path(__file__).parents[2] / "docs"
# Name, text and ground of the site's theme in each scheme.
SITE = {
    "light": ("default", "rgba(0,0,0,.87)", "#fff"),
    "dark": ("slate", "hsla(225,15%,90%,.82)", "hsl(225,15%,14%)"),
}


def pictures():
    """All of them."""
    if not DOCS.exists():
        pytest.skip("the pictures are in the repository only")
    return [path.read_text(encoding="utf-8") for path in sorted((DOCS / "images" / "gallery").glob("*.svg"))]


def page(folder, theme):
    """All pictures on one page of the site."""
    figures = "".join(f'<figure class="drawing">{inline(svg, "a picture")}</figure>' for svg in pictures())
    name, colour, ground = SITE[theme]
    rules = (DOCS / "theme" / "outputs.css").read_text(encoding="utf-8")
    path = folder / f"{theme}.html"
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Pictures</title>'
        f"<style>body{{color:{colour};background:{ground}}}{rules}</style>"
        f'<body data-md-color-scheme="{name}"><div class="md-typeset">{figures}</div></body></html>',
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize("scheme", SITE)
def test_a_picture_by_itself_is_readable_in_either_scheme(opened, tmp_path, scheme):
    alone = tmp_path / "alone.html"
    text = "".join(pictures())
    alone.write_text(f'<!doctype html><meta charset="utf-8"><title>Pictures</title>{text}', encoding="utf-8")
    watched = opened(alone, scheme=scheme)  # on white in either scheme: each picture brings its own ground
    assert watched.page.locator("svg text").count() > 100
    assert watched.faint_text() == []


@pytest.mark.parametrize("scheme", SITE)
def test_a_picture_inside_of_a_page_has_its_ink(opened, tmp_path, scheme):
    watched = opened(page(tmp_path, scheme), scheme=scheme)
    assert watched.page.locator("svg text").count() > 100
    assert watched.faint_text() == []
