"""Make the pictures of pages in the docs: reports and the explorer, of the tutorial's city and of Nations.

Run it again when the pages change (it needs chromium): .venv/bin/python docs/images/pages.py
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser, sync_playwright

from plait import datasets

HERE = Path(__file__).parent
PLAIT = [sys.executable, "-m", "plait"]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
NATIONS = f"""\
model = '''{datasets.NATIONS}'''
rank = 12
[relations.relations]
source = "relations.csv"
likelihood = "bernoulli"
unseen = "zero"
missing = ["itself.csv"]
[relations.attributes]
source = "attributes.csv"
likelihood = "bernoulli"
[fit]
seed = 0
max_iter = 2000
"""
TESTED = ("--test", "split/test.csv", "--relation", "visits")
DESK, TABLET, PHONE = (1200, 800), (768, 900), (360, 780)
CELL = "/relation/visits/cell?user=uma+d.&place=cafe+4"


def run(folder: Path, *words: str) -> None:
    """A command in a folder."""
    subprocess.run([*PLAIT, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def city(folder: Path) -> None:
    """The run of the tutorial, and one that is tested."""
    text = (HERE.parent / "tutorial.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r'^```\w+ title="([\w.]+)"\n(.*?)^```', text, re.S | re.M))
    for name in ("make_city.py", "city.toml"):
        (folder / name).write_text(blocks[name], encoding="utf-8")
    subprocess.run([sys.executable, "make_city.py"], cwd=folder, check=True)
    run(folder, "fit", "city.toml", "-o", "run")
    run(
        folder,
        "train-test-split",
        "city.toml",
        "-o",
        "split",
        "--relation",
        "visits",
        "--fraction",
        "0.2",
        "--seed",
        "0",
    )
    run(folder, "fit", "split/train.toml", "-o", "split/run")
    run(folder, "report", "split/run", *TESTED, "-o", "report.html")


def nations(folder: Path) -> None:
    """A run of Nations."""
    links, attributes = datasets.nations_tables()
    names = sorted({*links["head"], *links["tail"]})
    links.write_csv(folder / "relations.csv")
    attributes.write_csv(folder / "attributes.csv")
    (folder / "itself.csv").write_text("head,tail\n" + "".join(f"{name},{name}\n" for name in names), encoding="utf-8")
    (folder / "model.toml").write_text(NATIONS, encoding="utf-8")
    run(folder, "fit", "model.toml", "-o", "nations")


@contextmanager
def explored(folder: Path, *words: str) -> Iterator[str]:
    """The address of the explorer while it runs."""
    with subprocess.Popen([*PLAIT, "explore", *words], cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+?/(?=\s)", server.stdout.readline())
            assert found is not None
            yield found[0].rstrip("/")
        finally:
            server.terminate()


def shoot(
    browser: Browser, address: str, name: str, size: tuple[int, int] = DESK, *, dark: bool = False, section: str = ""
) -> None:
    """A picture of a window of the page, from a section on."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if dark else "light")
    page.goto(address, wait_until="networkidle")
    if section:
        page.locator(f"#{section}").evaluate("one => one.scrollIntoView({behavior: 'instant'})")
    page.wait_for_timeout(300)
    page.screenshot(path=HERE / f"{name}.png")
    page.close()


def main() -> None:
    """Fit, serve, look."""
    with TemporaryDirectory() as place, sync_playwright() as started:
        folder = Path(os.path.realpath(place))
        city(folder)
        nations(folder)
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        report = (folder / "report.html").as_uri()
        shoot(browser, report, "report")
        shoot(browser, report, "report-links", TABLET, dark=True, section="links")
        shoot(browser, report, "report-phone", PHONE)
        with explored(folder, "run") as address:
            shoot(browser, address + "/relation/visits?links.sort=-probability", "explore-relation")
            shoot(browser, address + "/axis/user/uma%20d.", "explore-entity")
            shoot(browser, address + "/axis/place/cafe%204", "explore-entity-phone", PHONE, dark=True)
            shoot(browser, address + CELL, "explore-cell")
            shoot(browser, address + "/component/3", "explore-component", TABLET)
            shoot(browser, address + "/map/user?name=uma+d.", "explore-map", TABLET)
        with explored(folder, "split/run", *TESTED) as address:
            shoot(browser, address, "explore-home")
            shoot(browser, address, "explore-home-phone", PHONE)
        with explored(folder, "nations") as address:
            shoot(browser, address + "/surprises", "explore-surprises", TABLET, dark=True)
        browser.close()


if __name__ == "__main__":
    main()
