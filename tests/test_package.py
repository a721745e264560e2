"""The package: its metadata, what its archives hold, and the files that repeat the version or the address."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from itertools import chain
from pathlib import Path

import pytest
import yaml

import plait

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
URL = PROJECT["urls"]["Source"]


def loaded(name):
    return yaml.safe_load((ROOT / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder of both archives, built by what is installed: nothing is fetched."""
    for needed in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(needed, reason=f"{needed} builds the package, and is not installed: make setup")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def metadata(dist):
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        return message_from_bytes(wheel.read(f"tensorplait-{plait.__version__}.dist-info/METADATA"))


@pytest.fixture(scope="module")
def sources(dist):
    """Names of the files in the source archive, without its folder."""
    with tarfile.open(next(dist.glob("*.tar.gz"))) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_the_distribution_is_tensorplait_and_the_module_is_plait(dist, metadata):
    assert (metadata["Name"], metadata["Version"]) == ("tensorplait", plait.__version__)
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        info = f"tensorplait-{plait.__version__}.dist-info"
        assert {name.partition("/")[0] for name in wheel.namelist()} == {"plait", info}
        assert "plait/py.typed" in wheel.namelist()
        assert "plait = plait.cli:app" in wheel.read(f"{info}/entry_points.txt").decode()


def test_links_of_the_readme_on_the_package_index_have_full_addresses(metadata):
    targets = re.findall(r"\]\(([^)\s]+)\)", metadata.get_payload())
    assert len(targets) > 20
    assert [target for target in targets if not target.startswith("https://")] == []
    assert f"{URL}/blob/main/docs/tutorial.md" in targets
    assert f"{URL}/raw/main/docs/images/overview.svg" in targets


def test_the_source_archive_is_small_and_has_no_results_of_benchmarks(dist, sources):
    assert next(dist.glob("*.tar.gz")).stat().st_size < 2_000_000
    assert {Path(name).suffix for name in sources} & {".jsonl", ".png", ".svg", ".pyc", ".whl"} == set()
    folders = {name.partition("/")[0] for name in sources if "/" in name}
    assert folders == {"src", "tests", "requirements"}


def test_the_source_archive_has_sources_and_tests(sources):
    listed = subprocess.run(["git", "ls-files", "src", "tests"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone: git does not know which files belong to it")
    missing = set(listed.stdout.split()) - sources
    # Tests of what is in the repository only.
    pages = ("tests/test_architecture.py", "tests/test_docs.py", "tests/test_gallery.py", "tests/test_stories.py")
    elsewhere = ("tests/lab/", *pages, "tests/test_package.py")
    assert [name for name in missing if not name.startswith(elsewhere)] == []
    assert {"pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff"} <= sources
    assert "requirements/tested.txt" in sources


def test_the_version_is_written_once_and_repeated_rightly():
    assert "version" in PROJECT["dynamic"]
    assert loaded("CITATION.cff")["version"] == plait.__version__
    assert loaded("conda/recipe.yaml")["context"]["version"] == plait.__version__


def test_the_lock_has_an_allowed_version_of_every_dependency():
    requirement = re.compile(r"^(?P<name>[\w.-]+)(?:\[\w+\])?(?:>=|==)(?P<least>[\d.]+)$")
    lock = (ROOT / "requirements" / "tested.txt").read_text("utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==([\d.]*\d)", lock, re.MULTILINE))
    needed = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    for found in map(requirement.match, needed):
        assert found is not None
        assert numbers(locked[found["name"].replace("_", "-")]) >= numbers(found["least"]), found[0]


def numbers(version):
    return tuple(int(part) for part in version.split("."))
