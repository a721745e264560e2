"""What the documentation shows works: code blocks of README.md and docs/ are run, and so is every example.

The blocks of a file run in order, in one namespace and one empty folder, as a reader would paste them. In shell blocks
the lines `$ plait …` are run, in this process: to start one takes longer than most commands (tests/cli/test_program.py
starts some). A block with `title="name"` is written to a file of that name; if it is Python it runs as a script of its
own. One preceded by `<!-- skip: reason -->` is shown as skipped. One preceded by `<!-- needs: package -->` is skipped
where there is no such package, and else runs in a process of its own, where other packages may warn as they like. A
text block right after a run one is what that prints: times and sizes of memory may differ, fractions a little, and a
line `…` stands for any lines. One preceded by `<!-- no output: reason -->` is something else. With PLAIT_UPDATE_DOCS=1
outputs without `…` are written into the documents instead.
The site builds without a network, names everything public, and has no dead link.
"""

import importlib.util
import inspect
import io
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from html import unescape
from pathlib import Path
from typing import NamedTuple

import pytest

import plait
from tests.support.command_line import plait_command
from tests.support.printed import UPDATE, prints_as_shown, stripped
from tests.support.public import find, public_names

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SHELL = {"sh", "shell", "bash", "console"}
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!--\s*(?P<note>skip|needs|no output):\s*(?P<reason>.*?)\s*-->\s*)?"
    r"^(?P<fence>`{3,})(?P<language>\w+)(?: title=\"(?P<file>[^\"\n]+)\")?[^\n]*\n(?P<code>.*?)^(?P=fence)\s*$",
    re.MULTILINE | re.DOTALL,
)
OWN_TEST = ROOT / "docs" / "gallery.md"  # tests/test_gallery.py runs its blocks
OWN_WARNINGS = "import warnings; import plait; warnings.simplefilter('error', plait.PlaitWarning)\n"
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")


class Block(NamedTuple):
    language: str
    code: str
    line: int  # of the first line of code
    reason: str | None = None  # to skip it
    prints: str | None = None  # what it must print, where the document says so
    file: str | None = None  # where to write it
    shown: tuple[int, int] | None = None  # where the document shows what it prints
    needs: str | None = None  # a package that is optional even for developers


def blocks_of(text):
    """The python and shell blocks of a Markdown text, and those that are files."""
    found = []
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("code")) + 1
        if match["language"] == "python" or match["language"] in SHELL or match["file"]:
            needs = match["reason"] if match["note"] == "needs" else None
            reason = f"{needs} is not installed" if needs and not importlib.util.find_spec(needs) else None
            reason = reason if needs else match["reason"]
            found.append(Block(match["language"], match["code"], line, reason, file=match["file"], needs=needs))
            end = match.end()
        elif match["language"] == "text" and not match["note"] and found and not text[end : match.start()].strip():
            found[-1] = found[-1]._replace(prints=match["code"], shown=match.span("code"))
    return found


def documents():
    """One case per file, and one skipped case per block that says it cannot run."""
    for path in TEXTS:
        name, blocks = path.relative_to(ROOT).as_posix(), blocks_of(path.read_text(encoding="utf-8"))
        if path == OWN_TEST:
            continue
        if run := [b for b in blocks if b.reason is None]:
            quick = name in ("README.md", "docs/tutorial.md")
            yield pytest.param(path, run, id=name, marks=pytest.mark.budget(30) if quick else pytest.mark.thorough)
        for b in blocks:
            if b.reason is not None:
                yield pytest.param(path, [b], id=f"{name}:{b.line}", marks=pytest.mark.skip(reason=b.reason))


def run(command, folder, **options):
    """Run a command with the tools of this environment first on PATH; the output is part of a failure."""
    path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    env = os.environ | {"PATH": path, "COLUMNS": "100", "NO_COLOR": "1", "NO_MKDOCS_2_WARNING": "1"}
    env["MLFLOW_DISABLE_TELEMETRY"] = "true"
    done = subprocess.run(
        command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_block(block, path, namespace, folder):
    """Write one block, run it, and return what it prints."""
    if block.file:
        (folder / block.file).write_text(block.code, encoding="utf-8")
    if block.needs:
        return run([sys.executable, "-c", f"{OWN_WARNINGS}{block.code}"], folder)
    if block.language == "python":
        namespace = {"__name__": "__main__"} if block.file else namespace
        code = "\n" * (block.line - 1) + block.code  # tracebacks show the line of the document
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, str(path), "exec", dont_inherit=True), namespace)
        return printed.getvalue()
    if block.language not in SHELL:
        return ""
    lines = block.code.replace("\\\n", " ").splitlines()
    return "".join(run_command(line.removeprefix("$ plait ")) for line in lines if line.startswith("$ plait "))


def run_command(words):
    """Run a command of `plait` and return what it prints; all that it says is part of a failure."""
    done = plait_command(*shlex.split(words), env={"COLUMNS": "100", "NO_COLOR": "1"})
    assert done.exit_code == 0, f"plait {words} ended with {done.exit_code}\n{done.output}\n{done.exception!r}"
    return done.stdout


@pytest.mark.parametrize(("path", "blocks"), list(documents()))
def test_code_blocks_run_and_print_what_is_shown(path, blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, others = {"__name__": "__main__"}, []
    for block in blocks:
        printed = run_block(block, path, namespace, tmp_path)
        if block.prints is not None and not prints_as_shown(printed, block.prints):
            others.append((block, stripped(printed)))
    if UPDATE:
        write_shown(path, [(block.shown, got) for block, got in others if "…" not in block.prints.splitlines()])
    else:
        for block, got in others:
            assert got == stripped(block.prints), f"{path.name}, line {block.line}"


def write_shown(path, outputs):
    """Write what blocks print where the document shows it, from the last one backwards."""
    text = path.read_text(encoding="utf-8")
    for (begin, end), printed in reversed(outputs):
        text = f"{text[:begin]}{printed}\n{text[end:]}"
    path.write_text(text, encoding="utf-8")


@pytest.mark.thorough
@pytest.mark.parametrize("path", [pytest.param(p, id=p.name) for p in sorted((ROOT / "examples").glob("*.py"))])
def test_examples_run(path, tmp_path):
    run([sys.executable, str(path)], tmp_path)


def test_blocks_are_found():
    text = "a\n```python\nx = 1\n```\n<!-- skip: needs a cluster -->\n\n```python\ny\n```\n"
    text += "```\nplain\n```\n```text\nz\n```\n```sh\n$ plait info\n```\n\n```text\nhello\n```\n"
    text += '```toml title="a.toml"\nb = 1\n```\n<!-- no output: a part of it -->\n```text\nb\n```\n'
    text += "<!-- needs: no_such -->\n```python\n2\n```\n"
    hello = text.index("hello")
    assert blocks_of(text) == [
        Block("python", "x = 1\n", 3),
        Block("python", "y\n", 8, "needs a cluster"),
        Block("sh", "$ plait info\n", 17, prints="hello\n", shown=(hello, hello + 6)),
        Block("toml", "b = 1\n", 24, file="a.toml"),
        Block("python", "2\n", 32, "no_such is not installed", needs="no_such"),
    ]


@pytest.mark.parametrize(
    ("printed", "shown", "same"),
    [
        ("auc  0.9268 ± 0.0073\n", "auc  0.9268 ± 0.0073", True),
        ("auc  0.9268 ± 0.0073\n", "auc  0.9268 ± 0.0073  (popularity alone: 0.828)", False),
        ("auc  0.9268\n", "auc  0.9240", True),
        ("auc  0.9268\n", "auc  0.8268", False),
        ("12 links\n", "13 links", False),
        ("after 3 sweeps, 0.4 s\n", "after 3 sweeps, 12.1 s", True),
        ("a\nb\nc\nd\n", "a\n…\nd", True),
        ("a\nb 0.5\nc\nd\n", "…\nb 0.7\n…", False),
        ("a\nb\n", "a", False),
        ("", "a", False),
    ],
)
def test_outputs_are_compared_up_to_times_and_last_digits(printed, shown, same):
    assert prints_as_shown(printed, shown) == same


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    folder = tmp_path_factory.mktemp("built") / "site"
    run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)], ROOT)
    return folder


@pytest.mark.thorough
def test_the_site_builds_and_fetches_nothing(site):
    pages = list(site.rglob("*.html"))
    assert (site / "index.html") in pages
    fetched = re.compile(r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
    assert [f"{page.name}: {found}" for page in pages for found in fetched.findall(page.read_text("utf-8"))] == []


def test_api_pages_have_a_row_of_each_argument(site):
    text = (site / "api" / "fit.html").read_text("utf-8").split('id="plait.grid_search"')[0]
    table = text.partition(">Parameters:<")[2].partition("</table>")[0]
    rows = [re.sub(r"<[^>]*>", "", row).split() for row in table.split("</tr>")[1:-1]]
    assert [row[0] for row in rows] == list(inspect.signature(plait.fit).parameters)
    (row,) = [row for row in rows if row[0] == "max_iter"]
    assert (row[1], row[-1]) == ("int", "200")
    (row,) = [row for row in rows if row[0] == "method"]
    assert unescape(" ".join(row)).startswith('method one of "vb", "em", "map" ')


def test_the_search_weighs_guides_above_the_reference_and_internals(site):
    index = json.loads((site / "search" / "search_index.js").read_text("utf-8").partition("=")[2])["docs"]
    boost = {entry["location"]: entry.get("boost", 1) for entry in index}
    assert boost["new.html"] == boost["tutorial.html"] > boost["api/fit.html"] > boost["math.html"]
    assert boost["math.html"] == boost["decisions/0028-new-data.html"] == boost["changelog.html"]
    cold = [entry["location"] for entry in index if "cold start" in entry["title"].lower()]
    assert any(location.startswith("new.html") for location in cold)


def test_the_search_of_the_site_works_from_a_folder(site):
    """A browser lets no page of a folder fetch its index or start a worker: one is a script, the other a frame."""
    index = (site / "search" / "search_index.js").read_text("utf-8")
    assert "plait.fit" in {entry["location"].partition("#")[2] for entry in json.loads(index.partition("=")[2])["docs"]}
    for page in site.rglob("*.html"):
        [shim] = re.findall(r'src="([^"]*iframe-worker[^"]*)"', page.read_text("utf-8"))
        assert (page.parent / shim.lstrip("/")).exists() or (site / shim.lstrip("/")).exists()


def test_every_public_object_is_in_the_api_reference():
    shown = set()
    for path in (ROOT / "docs" / "api").glob("*.md"):
        for name, options in re.findall(r"^::: ([\w.]+)\n((?:    .*\n)*)", path.read_text("utf-8"), re.MULTILINE):
            members = ",".join(re.findall(r"members: \[(.*)\]", options)) + ",".join(re.findall(r"- (\w+)", options))
            shown |= {name, *(f"{name}.{member.strip()}" for member in members.split(",") if member)}
    found = {id(find(name)) for name in shown}
    inherited = {"plait.PlaitError.to_dict", "plait.PlaitWarning.to_dict"}  # the page of errors has a sentence
    # Properties are in the tables of attributes, too.
    hidden = {name for name in public_names() if callable(find(name)) and id(find(name)) not in found}
    assert hidden == inherited


@pytest.mark.parametrize("path", [pytest.param(p, id=p.relative_to(ROOT).as_posix()) for p in TEXTS])
def test_relative_links_lead_somewhere(path):
    text = re.sub(r"^(`{3,}).*?^\1\s*$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in LINK.findall(text):
        if "://" not in target:
            name, _, anchor = target.partition("#")
            found = (path.parent / name).resolve() if name else path
            assert found.exists(), f"{target} is not there"
            assert not anchor or anchor in anchors(found), f"{target}: no such heading"


def anchors(path):
    """The headings of a page as the ends of links."""
    headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
