"""Charts are valid, safe, readable and reproducible, and leave the user's Altair alone."""

import io
import re
import sys
from xml.etree import ElementTree

import altair
import pytest

import plait
from plait.plotting import theme
from plait.plotting.coupling_chart import MAX_OPACITY
from plait.rendering.svg import INK, drawn, inline
from tests.support.chart_data import CHARTS, LONG, pictures

WHITE, DARK, DARK_INK = "#ffffff", "#16181c", "#e6e6e6"


def texts(svg):
    """All text in a drawing, as a reader sees it."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHARTS)
def test_every_chart_is_valid_and_becomes_svg_and_png(name, fit, metrics):
    chart = CHARTS[name](fit, metrics)
    assert isinstance(chart, altair.TopLevelMixin)
    again = type(chart).from_dict(chart.to_dict())  # validates
    assert again.to_dict() == chart.to_dict()
    drawing, picture = io.StringIO(), io.BytesIO()
    chart.save(drawing, format="svg")
    chart.save(picture, format="png")
    assert ElementTree.fromstring(drawing.getvalue()).tag.endswith("svg")
    assert picture.getvalue().startswith(b"\x89PNG")
    assert chart.to_dict()["background"] == "white"  # its ink is dark


def test_pictures_are_drawn_alike_twice(fit, metrics, drawings):
    again = {name: drawn(one) for name, one in reversed(pictures(fit, metrics).items())}
    assert drawings == again


def test_pictures_have_the_ink_of_the_page_and_a_description(fit, metrics, drawings):
    for name, picture in pictures(fit, metrics).items():
        root = ElementTree.fromstring(drawings[name])
        assert root.get("role") == "img"
        assert root.get("overflow") == "visible"  # letters may be wider than those it was laid out with
        assert root.get("aria-label") == picture.alt
        assert 20 < len(picture.alt) < 2000, name
        inked = [one for one in root.iter() if INK in (one.get("fill"), one.get("stroke"))]
        assert not inked, name
        for one in root.iter("{http://www.w3.org/2000/svg}text"):
            assert one.get("fill") == "currentColor", name


def test_hostile_names_stay_text(drawings):
    for name, svg in drawings.items():
        tags = {one.tag.rpartition("}")[2] for one in ElementTree.fromstring(svg).iter()}
        assert tags <= {"svg", "g", "path", "line", "text", "rect", "defs", "clipPath", "tspan"}, name
        assert not re.search(r"<img|<script|https?:|url\(|@import|<style", svg.replace("http://www.w3.org/", ""))
    shown = texts(drawings["component"])
    assert any(text.startswith("</script><img") for text in shown)
    assert {"#101112", '"#101112"', "a & b", "שלום", "🦉"} <= set(shown)  # the first is how ink is written, too


def test_long_names_are_cut_in_the_drawing_only(fit, metrics, drawings):
    shown = [text for text in texts(drawings["component"]) if text.startswith("long long")]
    assert shown
    assert all(len(text) < 60 and text.endswith("…") for text in shown)
    assert len(drawings["component"]) < 100_000
    assert LONG in str(CHARTS["component"](fit, metrics).to_dict())


def test_a_drawing_is_inlined_into_a_page(fit):
    saved = io.StringIO()
    fit.plot.coupling().save(saved, format="svg")  # on white, in its own ink
    style = "<style>svg{color:#000}</style>"
    once = inline(saved.getvalue().replace(">", f">{style}", 1), 'shares of "X"')
    assert 'aria-label="shares of &quot;X&quot;"' in once
    assert "currentColor" in once
    assert not any(left in once for left in (INK, 'fill="white"', "<style"))
    assert inline(once, 'shares of "X"') == once
    assert texts(once) == texts(saved.getvalue())


@pytest.mark.thorough
def test_altair_is_unchanged_and_no_file_is_written(fit, metrics, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = altair.theme.active, altair.data_transformers.active, altair.renderers.active
    for make in CHARTS.values():
        make(fit, metrics).to_dict()
    assert (altair.theme.active, altair.data_transformers.active, altair.renderers.active) == before
    assert not list(tmp_path.iterdir())


def luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)] if isinstance(colour, str) else colour
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def over(colour, page, opacity):
    """A colour on a page, seen through."""
    parts = [[int(c[n : n + 2], 16) / 255 for n in (1, 3, 5)] for c in (colour, page)]
    return [opacity * own + (1 - opacity) * under for own, under in zip(*parts)]


@pytest.mark.parametrize(("page", "ink"), [(WHITE, INK), (DARK, DARK_INK)])
def test_marks_and_numbers_stand_out_on_light_and_dark_pages(page, ink):
    assert all(contrast(colour, page) >= 3.0 for colour in theme.COLOURS)
    assert all(contrast(ink, over(theme.BLUE, page, opacity)) >= 4.5 for opacity in (0.0, 0.3, MAX_OPACITY))


def test_without_altair_a_plot_names_the_package(fit, metrics, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    for make in CHARTS.values():
        with pytest.raises(plait.PlaitError, match="tensorplait\\[report\\]"):
            make(fit, metrics)


def test_notebooks_show_drawings_or_tables(fit, metrics, monkeypatch):
    for one in (fit, metrics):
        assert one._repr_html_().count("<svg") == 1
        assert "<script" not in one._repr_html_()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for one in (fit, metrics):
        assert "<svg" not in one._repr_html_()
        assert "<table" in one._repr_html_()


def test_documents_need_no_altair(fit, metrics, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    assert drawn(pictures(fit, metrics)["objective"])
