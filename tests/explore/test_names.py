"""Every name is a page, whatever is in it."""

import html
from urllib.parse import urljoin, urlsplit

import pytest

from tests.support.explore_run import HARD, SCRIPT

HARDEST = ("", "..", "a/b", "data.json", "two\nlines", "nul\x00l", SCRIPT)


@pytest.mark.parametrize("name", HARD, ids=range(len(HARD)))
def test_every_name_has_a_page_a_cell_and_json(served, name):
    labels, names = served.site.fit.entities, served.site.names
    row = labels["user"].row(name)
    address = names.address("user", row)
    page, found = served.get(address), json_of(served, address)
    assert page.status_code == 200
    assert html.escape(name if len(name) <= 200 else name[:199]) in page.text
    assert (found["name"], found["row"]) == (name, row)
    parts = urlsplit(address).path.split("/")
    assert not {".", ".."} & set(parts)
    assert urljoin(f"{served.url}/relation/visits", address) == served.url + address  # as a browser joins it
    address = names.cell_address("visits", [row, labels["place"].row(1)])
    assert served.get(address).status_code == 200
    assert json_of(served, address)["cell"] == {"user": name, "place": 1}


@pytest.mark.thorough
def test_every_name_has_a_map(served):
    for name in HARD:
        row = served.site.fit.entities["user"].row(name)
        address = served.site.names.address("user", row, "map")
        assert f'href="{html.escape(address)}"' in served.get(served.site.names.address("user", row)).text
        found = json_of(served, address)
        assert (found["axis"], found["name"], found["row"]) == ("user", name, row)
        if name in HARDEST or len(name) > 100:  # drawing takes its time
            assert served.get(address).text.count("</svg></figure>") == 1, name


def test_a_name_of_ten_thousand_characters_goes_by_its_number(served):
    long = next(name for name in HARD if len(name) == 10_000)
    row = served.site.fit.entities["user"].row(long)
    assert served.site.names.address("user", row) == f"/axis/user?row={row}"
    assert long.strip() in html.unescape(served.get(f"/axis/user?row={row}").text)


def test_text_and_whole_numbers_of_the_same_letters_are_two_entities(served):
    assert served.get("/axis/user/1.json").json()["name"] == "1"
    assert served.get("/axis/place/1.json").json()["name"] == 1


def test_a_script_in_a_name_stays_text_on_every_page(served):
    row = served.site.fit.entities["user"].row(SCRIPT)
    cell = served.site.names.cell_address("visits", [row, 0])
    pages = [served.site.names.address("user", row), cell, "/relation/visits?links.from=0", "/components", "/surprises",
             "/search?q=%3C/script", "/axis/user", "/component/0",
             served.site.names.address("user", row, "map")]  # fmt: skip
    for address in pages:
        text = served.get(address).text
        assert "<img" not in text, address
        assert text.count("</script>") == 1, address
    assert html.escape(SCRIPT) in served.get(cell).text


def test_an_unknown_name_gets_a_suggestion(served):
    for ending in ("", ".json"):
        answer = served.get(f"/axis/user/CAFÉ AU LAI{ending}")
        assert answer.status_code == 404
        assert "Did you mean" in html.unescape(answer.text)
        assert "CAFÉ AU LAIT" in answer.text
    assert served.get("/axis/usre").status_code == 404
    assert "Did you mean &#x27;user&#x27;" in served.get("/axis/usre").text
    assert "Did you mean &#x27;visits&#x27;" in served.get("/relation/visit").text
    assert served.get("/axis/place/one").status_code == 404


def test_unknown_rows_and_maps_are_refused(served):
    for number in ("-1", "99999", "1.5", "x", "1" * 30, "０"):
        for page in ("/axis/user", "/map/user"):
            assert served.get(page, params={"row": number}).status_code == 404, (page, number)
    for address in ("/map/user/nobody", "/map/usre/x%20y", "/map/user?name=nobody"):
        assert served.get(address).status_code == 404, address
    for address in ("/map/user/x%20y?k=3", "/map/user?from=3"):
        assert served.get(address).status_code == 400, address


def json_of(served, address: str):
    path, mark, query = address.partition("?")
    return served.get(f"{path}.json{mark}{query}").json()
