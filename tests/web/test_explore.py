"""The explorer in a real browser: with scripts and without, light and dark, wide and narrow."""

import re
from collections.abc import Iterator
from urllib.parse import unquote

import pytest

from tests.support.explore_run import HARD, SCRIPT, Served, make_run, serving

pytestmark = pytest.mark.thorough

SIZES = [(1280, 900), (768, 1024), (360, 780)]
PAGES = ["/", "/search?q=a", "/axis/user", "/axis/user/x%20y", "/map/user/x%20y", "/map/place",
         "/relation/visits", "/relation/visits?links.sort=-probability",
         "/components", "/component/0", "/surprises", "/relation/visits/cell?user=x+y&place=1", "/nothing"]  # fmt: skip


@pytest.fixture(scope="module")
def explored(tmp_path_factory, browser) -> Iterator[Served]:
    """A run that is served; nothing where there is no browser."""
    with serving(make_run(tmp_path_factory.mktemp("web"))) as own:
        yield own


@pytest.mark.parametrize("address", PAGES)
def test_a_page_asks_this_server_only(explored, opened, address):
    watched = opened(explored.url + address, offline=False)
    assert all(url.startswith((explored.url, "data:")) for url in watched.requests)
    assert watched.errors == []
    wrong = [text for text in watched.messages if "404 (Not Found)" not in text or address != "/nothing"]
    assert wrong == []
    assert watched.page.evaluate("window.eval === undefined || htmx.config.allowEval") is False


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_text_stands_out_and_pages_fit_the_window(explored, opened, scheme, size):
    watched = opened(explored.url + "/", scheme=scheme, size=size, offline=False)
    for address in PAGES:
        watched.page.goto(explored.url + address)
        assert watched.faint_text() == [], address
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= size[0], address


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_come_after_their_page_and_move_nothing(explored, opened, scheme):
    watched = opened(explored.url + "/", scheme=scheme, offline=False)
    page, below = watched.page, "document.querySelector('#predicted-links').offsetTop"
    page.route("**/map/**", lambda route: route.abort())
    page.goto(explored.url + "/axis/user/x%20y")
    before = page.evaluate(below)
    assert page.locator("main figure").count() == 0
    page.unroute("**/map/**")
    page.reload()
    page.locator("main figure > svg[role=img] text", has_text="x y").first.wait_for()
    assert page.locator("main figure").count() == 1
    assert watched.faint_text() == []
    assert abs(page.evaluate(below) - before) < 60  # fonts differ
    assert watched.errors == []


def test_without_scripts_a_link_leads_to_the_pictures(explored, opened):
    page = opened(explored.url + "/axis/user/x%20y", script=False, offline=False).page
    page.get_by_role("link", name="map").click()
    assert page.locator("main figure > svg[role=img]").count() == 1
    page.locator("main").get_by_role("link", name="x y").click()
    assert page.url == explored.url + "/axis/user/x%20y"


def test_a_name_that_is_a_script_stays_text(explored, opened):
    watched = opened(explored.url + "/", offline=False)
    page = watched.page
    page.on("dialog", lambda dialog: pytest.fail(f"a script ran: {dialog.message}"))
    page.get_by_role("searchbox").press_sequentially("</script", delay=20)
    page.locator("#found a").first.click()
    page.wait_for_url("**/axis/user/**")
    assert page.locator("h1").inner_text() == f"user: {SCRIPT}"
    assert page.title() == f"user: {SCRIPT} · plait"
    page.locator("main figure text").first.wait_for()
    assert page.locator("img").count() == 0
    for address in ("/components", "/component/0", "/component/1", "/surprises", "/relation/visits"):
        page.goto(explored.url + address)
        assert page.locator("img").count() == 0
    assert watched.errors == []


def test_every_name_is_reached_by_a_click(explored, opened):
    watched = opened(explored.url + "/axis/user", offline=False)
    links = watched.page.locator("main td a")
    assert links.count() == len(HARD)
    for number in range(len(HARD)):
        watched.page.goto(explored.url + "/axis/user")
        links.nth(number).click()
        watched.page.wait_for_load_state()
        name = explored.site.fit.entities["user"][number]
        told = explored.get(watched.page.get_by_text("this page as JSON").get_attribute("href")).json()
        assert told["name"] == name
        assert watched.page.locator("h1").count() == 1


def test_search_shows_what_is_typed_and_works_without_scripts(explored, opened):
    page = opened(explored.url + "/", offline=False).page
    page.get_by_role("searchbox").press_sequentially("jaz", delay=20)
    page.locator("#found a", has_text="🎷 jazz").wait_for()
    plain = opened(explored.url + "/", script=False, offline=False).page
    plain.get_by_role("searchbox").fill("jaz")
    plain.get_by_role("button", name="Search").click()
    plain.locator("main a", has_text="🎷 jazz").click()
    assert unquote(plain.url).endswith("/axis/user/🎷 jazz")


@pytest.mark.parametrize("script", [True, False])
def test_a_what_if_runs_in_the_browser(explored, opened, script):
    watched = opened(explored.url + "/relation/visits/cell?user=x+y&place=1", script=script, offline=False)
    page = watched.page
    page.get_by_role("button", name="Set to 0").first.click()
    page.wait_for_url(re.compile("/whatif/"))
    page.get_by_text("Before and after").wait_for(timeout=60_000)
    assert "The run itself does not change." in page.locator("main").inner_text()
    assert page.get_by_role("button", name="Cancel").count() == 0
    told = explored.get(page.url.removeprefix(explored.url) + ".json").json()
    assert f"{told['after']['mean']:.4f}" in page.locator("main").inner_text()
    assert watched.errors == []


def test_a_link_is_added_by_its_form(explored, opened):
    page = opened(explored.url + "/relation/visits/cell?user=x+y&place=1", offline=False).page
    form = page.locator("form.filter", has_text="friends")
    form.get_by_label("user").fill("x y")
    form.get_by_label("friend", exact=True).fill("café")
    form.get_by_role("button", name="Add").click()
    page.wait_for_url(re.compile("/whatif/"))
    page.get_by_text("Before and after").wait_for(timeout=60_000)
    assert "a link of value 1" in page.locator("main").inner_text()


def test_pages_break_no_rule_of_accessibility(explored, opened):
    watched = opened(explored.url + "/", offline=False)
    for address in PAGES:
        watched.page.goto(explored.url + address)
        assert watched.broken_rules() == [], address
