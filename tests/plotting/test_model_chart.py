"""The picture of a model has every relation, every factor and every use of one."""

import pytest

import plait
from plait.rendering.model_chart import MAX_BOXES, draw, fits

MODEL = plait.Model("visits[user, place] = U[user, r] P[place, r]\ntags[place, tag] = P[place, r] T[tag, r]")


def test_lines_join_relations_with_their_factors():
    chart = draw(MODEL)
    lines, boxes = (layer["data"]["values"] for layer in chart["layer"][:2])
    at = {(box["x"], box["kind"] == "relation"): box["name"] for box in boxes}
    joined = {(at[line["x"], True], at[line["x2"], False]) for line in lines}
    visits, tags = "visits[user, place]", "tags[place, tag]"
    assert joined == {(visits, "U[user, r]"), (visits, "P[place, r]"), (tags, "P[place, r]"), (tags, "T[tag, r]")}
    assert [box["name"] for box in boxes if box["kind"] == "shared factor"] == ["P[place, r]"]


def test_a_model_shows_itself_with_its_picture():
    pytest.importorskip("vl_convert")
    page = MODEL._repr_html_()
    assert "<svg" in page
    assert "visits has U, P; tags has P, T" in page


def test_a_large_model_has_no_picture_in_a_page():
    many = [f"x{n}[i, j{n}] = A[i, r] B{n}[j{n}, r]" for n in range(MAX_BOXES)]
    assert not fits(plait.Model("\n".join(many)))
    assert fits(plait.Model("\n".join(many[:-1])))
