"""The pictures of docs/gallery.md are there, can be read on any ground, and are those that its code makes."""

import importlib.util
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.printed import alike

ROOT = Path(__file__).parents[1]
PAGE, FOLDER = ROOT / "docs" / "gallery.md", ROOT / "docs" / "images" / "gallery"
IMAGE = re.compile(r"!\[(?P<alt>[^\]]+)\]\(images/gallery/(?P<file>[^)]+)\)")
SHOWN = [found["file"] for found in IMAGE.finditer(PAGE.read_text(encoding="utf-8"))]
SVG = "{http://www.w3.org/2000/svg}"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "build_site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def words(svg):
    """All that is written in a drawing."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_every_picture_is_there_and_no_other():
    assert len(SHOWN) > 5
    assert sorted(SHOWN) == sorted(path.name for path in FOLDER.glob("*"))


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_is_small_and_has_colours_for_light_and_dark(name):
    svg = (FOLDER / name).read_text(encoding="utf-8")
    assert len(svg) < 100_000
    assert ElementTree.fromstring(svg).get("aria-label")
    assert re.search(r"svg\{color:#\w+;background:#\w+\}@media \(prefers-color-scheme:dark\)\{svg\{color", svg)
    assert not re.search(r"<script|href=|#101112", svg)


@pytest.mark.thorough
def test_the_code_of_the_page_makes_its_pictures_again(monkeypatch):
    for package in ("altair", "vl_convert"):
        pytest.importorskip(package)
    monkeypatch.chdir(ROOT)
    made = dict(loaded("gallery").pictures(PAGE.read_text(encoding="utf-8")))
    assert list(made) == SHOWN
    for name, svg in made.items():
        got, stored = words(svg), words((FOLDER / name).read_text(encoding="utf-8"))
        assert len(got) == len(stored), name
        assert all(map(alike, got, stored)), name


def test_the_site_inlines_pictures():
    html = (
        f'<p><img alt="a &quot;b&quot;" src="../images/gallery/{SHOWN[0]}"></p><p><img alt="c" src="paper/d.svg"></p>'
    )
    page = loaded("drawings").on_page_content(html)
    assert page.startswith('<figure class="drawing"')
    assert 'aria-label="a &quot;b&quot;"' in page
    assert "<style" not in page
    assert page.endswith('</figure><p><img alt="c" src="paper/d.svg"></p>')


def test_a_notebook_is_a_page_with_text_code_and_all_its_outputs(tmp_path):
    notebooks = loaded("notebooks")
    for path in notebooks.FOLDER.glob("*.ipynb"):
        text, cells = notebooks.as_markdown(path), notebooks._cells(path)
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        assert text.count("```python\n") == sum(cell["cell_type"] == "code" for cell in cells)
        assert len(notebooks.PLACE.findall(text)) == len(outputs)
        assert all(notebooks.shown(output, "code").startswith("<") for output in outputs)
    link = "[Last.fm](notebooks/lastfm.ipynb#a), [it](notebooks/lastfm.ipynb), [file](lastfm.ipynb)"
    assert notebooks.on_page_markdown(link).count("notebooks/lastfm.md") == 1
