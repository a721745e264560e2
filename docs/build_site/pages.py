"""Pages of the site that are files elsewhere, the list of decisions, and the weight of pages in the search."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
ELSEWHERE = (
    "examples/",
    "lab/",
    "src/",
    "tests/",
    "conda/",
    "LICENSE",
    "SECURITY.md",
    "CODE_OF_CONDUCT.md",
    "CITATION.cff",
)  # in the repository, not on the site
GUIDES, INTERNALS = 4, 0.25  # weights in the search, so that "cold start" finds the guide before the decision about it
INTERNAL = (
    "decisions/",
    "ARCHITECTURE",
    "math",
    "symbols",
    "paper",
    "benchmarks",
    "quality",
    "changelog",
    "renamed",
    "releasing",
)
LINK = re.compile(r"(?<=\]\()(?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?(?=\))")
LINKED = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>[^)\s]+)\)")


def on_config(config: Any) -> Any:
    """List the decisions in the navigation, so that a new one needs no second place."""
    for section in config["nav"]:
        for pages in section.values():
            if isinstance(pages, list):
                _expand(pages)
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the generated pages."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=moved((ROOT / source).read_text(encoding="utf-8"))))
    files.append(File.generated(config, "decisions/index.md", content=_index()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Weigh the page in the search, and let links to the folder of decisions lead to its generated page."""
    page.meta["search"] = {"boost": boost(page.file.src_uri)}
    return markdown.replace("](decisions/)", "](decisions/index.md)")


def boost(page: str) -> float:
    """Weight of a page in the search: guides first, then notebooks and the API reference, then internals."""
    if page.startswith(INTERNAL):
        return INTERNALS
    return 1 if "/" in page else GUIDES


def moved(text: str) -> str:
    """Text of a file of the root as a page of docs/: links lead to the same things."""
    text = LINKED.sub(lambda m: m["text"] if m["target"].startswith(ELSEWHERE) else m[0], text)
    return LINK.sub(lambda m: _target(m["target"]) + (m["anchor"] or ""), text)


def _target(target: str) -> str:
    if target in PAGES:
        return PAGES[target]
    inside = target.removeprefix("docs/")
    return f"{inside}index.md" if inside.endswith("/") else inside


def _decisions() -> list[tuple[str, str]]:
    """Title and file of every decision."""
    paths = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    return [(path.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# "), path.name) for path in paths]


def _index() -> str:
    lines = [f"- [{title}]({name})" for title, name in _decisions()]
    return "# Decisions\n\nChoices that a later reader would question, and their reasons.\n\n" + "\n".join(lines)


def _expand(pages: list[Any]) -> None:
    for place, page in enumerate(pages):
        if page == {"Decisions": "decisions/index.md"}:
            pages[place] = {"Decisions": ["decisions/index.md", *(f"decisions/{name}" for _, name in _decisions())]}
