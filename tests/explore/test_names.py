"""Every name is a page, whatever is in it."""

import html
from urllib.parse import urljoin, urlsplit

import pytest

from tests.explore.conftest import HARD, SCRIPT

HARDEST = ("", "..", "a/b", "data.json", "two\nlines", "nul\x00l", SCRIPT)


@pytest.mark.parametrize("name", HARD, ids=range(len(HARD)))
def test_every_name_has_a_page_and_a_twin_that_says_the_name(served, name):
    row = served.site.fit.labels["user"].row(name)
    address = served.site.names.address("user", row)
    page, twin = served.get(address), _twin(served, address)
    assert page.status_code == 200
    assert html.escape(name if len(name) <= 200 else name[:199]) in page.text
    assert twin["name"] == name
    assert twin["row"] == row


def test_every_name_has_a_page_of_pictures_and_a_twin(served):
    for name in HARD:
        row = served.site.fit.labels["user"].row(name)
        address = served.site.names.address("user", row, "picture")
        assert f'href="{html.escape(address)}"' in served.get(served.site.names.address("user", row)).text
        twin = _twin(served, address)
        assert (twin["axis"], twin["name"], twin["row"], len(twin["pictures"])) == ("user", name, row, 2)
        if name in HARDEST or len(name) > 100:  # drawing takes its time
            assert served.get(address).text.count("</svg></figure>") == 2, name


@pytest.mark.parametrize("name", HARD, ids=range(len(HARD)))
def test_every_cell_has_a_page_whatever_its_names(served, name):
    fit, names = served.site.fit, served.site.names
    cell = [fit.labels["user"].row(name), fit.labels["place"].row(1)]
    address = names.cell_address("visits", cell)
    assert served.get(address).status_code == 200
    assert _twin(served, address)["cell"] == {"user": name, "place": 1}


def test_no_address_loses_a_step_when_a_browser_joins_it(served):
    for row, name in enumerate(served.site.fit.labels["user"]):
        address = served.site.names.address("user", row)
        parts = urlsplit(address).path.split("/")
        assert "." not in parts
        assert ".." not in parts
        assert urljoin(f"{served.url}/relation/visits", address) == served.url + address, name


def test_a_name_of_ten_thousand_characters_goes_by_its_number(served):
    long = next(name for name in HARD if len(name) == 10_000)
    row = served.site.fit.labels["user"].row(long)
    assert served.site.names.address("user", row) == f"/axis/user?row={row}"
    assert long.strip() in html.unescape(served.get(f"/axis/user?row={row}").text)


def test_text_and_whole_numbers_of_the_same_letters_are_two_entities(served):
    assert served.get("/axis/user/1.json").json()["name"] == "1"
    assert served.get("/axis/place/1.json").json()["name"] == 1


def test_a_script_in_a_name_stays_text_on_every_page(served):
    row = served.site.fit.labels["user"].row(SCRIPT)
    cell = served.site.names.cell_address("visits", [row, 0])
    pages = [served.site.names.address("user", row), cell, "/relation/visits?links.from=0", "/components", "/surprises",
             "/search?q=%3C/script", "/axis/user", "/component/0",
             served.site.names.address("user", row, "picture")]  # fmt: skip
    for address in pages:
        text = served.get(address).text
        assert "<img" not in text, address
        assert text.count("</script>") == 1, address
    assert html.escape(SCRIPT) in served.get(cell).text


def test_an_unknown_name_is_told_what_was_meant(served):
    for ending in ("", ".json"):
        answer = served.get(f"/axis/user/CAFÉ AU LAI{ending}")
        assert answer.status_code == 404
        assert "Did you mean" in html.unescape(answer.text)
        assert "CAFÉ AU LAIT" in answer.text
    assert served.get("/axis/usre").status_code == 404
    assert "Did you mean &#x27;user&#x27;" in served.get("/axis/usre").text
    assert "Did you mean &#x27;visits&#x27;" in served.get("/relation/visit").text
    assert served.get("/axis/place/one").status_code == 404
    assert (
        "a whole number" in served.get("/axis/place/one").text or "is no entity" in served.get("/axis/place/one").text
    )


def test_rows_that_there_are_not_are_refused(served):
    for number in ("-1", "99999", "1.5", "x", "1" * 30, "０"):
        for page in ("/axis/user", "/picture/user"):
            assert served.get(page, params={"row": number}).status_code == 404, (page, number)


def test_pictures_of_nobody_are_refused(served):
    for address in ("/picture/user", "/picture/user/nobody", "/picture/usre/x%20y", "/picture/user?name=nobody"):
        assert served.get(address).status_code == 404, address
    for address in ("/picture/user/x%20y?k=3", "/picture/user?from=3"):
        assert served.get(address).status_code == 400, address


def _twin(served, address: str):
    path, mark, query = address.partition("?")
    return served.get(f"{path}.json{mark}{query}").json()
