"""docs/ARCHITECTURE.md is true: files on the map exist, packages have a row; no module stem or class occurs twice."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "plait"
MAP = ROOT / "docs" / "ARCHITECTURE.md"
pytestmark = pytest.mark.skipif(not MAP.exists(), reason="docs are in the repository only")


def test_every_file_on_the_map_exists():
    named = set(re.findall(r"(?<![\w/*])([a-z_]+(?:/[a-z_]+)*\.py)\b", MAP.read_text()))
    assert len(named) > 30
    known = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py")}
    stems = {Path(name).name for name in known}
    assert [name for name in sorted(named) if name not in known and name not in stems] == []


def test_every_package_has_a_row():
    rows = " ".join(line.split("|")[1] for line in MAP.read_text().splitlines() if line.startswith("| `"))
    children = [path for path in SOURCE.iterdir() if path.name not in ("__init__.py", "__pycache__", "py.typed")]
    assert [path.stem for path in children if not re.search(rf"`{path.stem}[`/]", rows)] == []


def test_no_module_stem_and_no_class_name_occurs_twice():
    paths = [path for path in SOURCE.rglob("*.py") if path.name != "__init__.py"]
    stems = Counter(path.stem for path in paths)
    assert [stem for stem, count in stems.items() if count > 1] == []
    classes = Counter(name for path in paths for name in re.findall(r"^ *class (\w+)", path.read_text(), re.MULTILINE))
    assert [name for name, count in classes.items() if count > 1] == []
