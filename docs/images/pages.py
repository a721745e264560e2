"""Make the pictures of pages in the docs: a report and the explorer, of a run of the demo's relations.

Run it again when the pages change (it needs chromium): .venv/bin/python docs/images/pages.py
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from playwright.sync_api import Browser, sync_playwright

import plait
from plait import datasets

HERE = Path(__file__).parent
PLAIT = str(Path(sys.executable).parent / "plait")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
CONFIG = f"""\
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
LINK = 4  # of the predicted ones, that is shown


def fit(folder: Path) -> None:
    """The run, in this folder."""
    links, attributes = datasets.nations_tables()
    names = sorted({*links["head"], *links["tail"]})
    links.write_csv(folder / "relations.csv")
    attributes.write_csv(folder / "attributes.csv")
    (folder / "itself.csv").write_text("head,tail\n" + "".join(f"{name},{name}\n" for name in names), encoding="utf-8")
    (folder / "model.toml").write_text(CONFIG, encoding="utf-8")
    subprocess.run([PLAIT, "fit", "model.toml", "-o", "nations"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([PLAIT, "report", "nations"], cwd=folder, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def explored(folder: Path) -> Iterator[str]:
    """The address of the explorer while it runs."""
    command = [PLAIT, "explore", "nations"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+?/(?=\s)", server.stdout.readline())
            assert found is not None
            yield found[0].rstrip("/")
        finally:
            server.terminate()


def shoot(browser: Browser, address: str, name: str, *, section: str = "", height: int = 900) -> None:
    """A picture of a window of the page, from a section on."""
    page = browser.new_page(viewport={"width": 1200, "height": height})
    page.goto(address, wait_until="networkidle")
    if section:
        page.locator(f"#{section}").evaluate("one => one.scrollIntoView({behavior: 'instant'})")
        page.wait_for_timeout(300)
    page.screenshot(path=HERE / f"{name}.png")
    page.close()


def main() -> None:
    """Fit, serve, look."""
    with TemporaryDirectory() as place, sync_playwright() as started:
        folder = Path(place)
        fit(folder)
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        shoot(browser, (folder / "report.html").as_uri(), "report", height=800)
        with explored(folder) as address:
            link = plait.load(folder / "nations").top("relations", LINK + 1).row(LINK)[:3]
            cell = urlencode(dict(zip(("head", "relation", "tail"), link)))
            shoot(browser, f"{address}/relation/relations/cell?{cell}", "explore-cell", height=950)
            shoot(browser, address, "explore-home")
            shoot(browser, address + "/axis/head/uk", "explore-entity", height=800)
        browser.close()


if __name__ == "__main__":
    main()
