"""The commands `python -m lab.…`: what all of them take, where they write, how they end."""

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.harness.packages import ROOT
from lab.harness.results import forget, title
from lab.harness.running import Row, Study, run, say_failures, watching
from plait.errors import PlaitError

Write = Callable[[Path, Path, Path], None]  # results, page, folder of plots
NAME = "results.jsonl"  # where a folder has one file


def parser(module: str, about: str, home: str) -> argparse.ArgumentParser:
    """The options of every run. home: of results and plots, under docs."""
    made = argparse.ArgumentParser(
        prog=f"python -m {module}", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help=f"small, to see that it works; kept in .cache/{home}")
    made.add_argument("--fresh", action="store_true", help="measure the named parts again")
    made.add_argument("--folder", type=_named, help=f"of results and plots; docs/{home} unless quick")
    made.add_argument("--page", type=_named, help=f"docs/{home}.md; {home}.md in the folder if that is another")
    return made


def parse(made: argparse.ArgumentParser, arguments: Sequence[str] | None, parts: Sequence[str]) -> argparse.Namespace:
    """Parsed arguments, with some of these parts; `page` alone measures nothing."""
    made.add_argument("parts", nargs="*", metavar="part", help=f"any of {', '.join((*parts, 'page'))}")
    made.add_argument("--only", default="", help="rows whose name has this text")
    given = understood(made, arguments)
    if unknown := set(given.parts) - {*parts, "page"}:
        made.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join((*parts, 'page'))}")
    return given


def understood(made: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parsed arguments, and as `command` the command line without the folders of this machine."""
    arguments = sys.argv[1:] if arguments is None else arguments
    return made.parse_args(arguments, argparse.Namespace(command=" ".join([made.prog, *map(_typed, arguments)])))


def _typed(word: str) -> str:
    option, equals, value = word.partition("=")
    if Path(value if equals else word).is_absolute():
        return f"{option}=…" if equals else "…"
    return shlex.quote(word)


def _named(text: str) -> Path:
    """An empty path, as an unset variable of a shell gives, is not the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty.")
    return Path(text)


def places(given: argparse.Namespace, home: str) -> tuple[Path, Path]:
    """The folder of results and plots, and the page: next to the folder in docs, in it elsewhere."""
    folder = given.folder or ROOT / (".cache" if given.quick else "docs") / home
    return folder, given.page or (folder if given.quick or given.folder else folder.parent) / f"{home}.md"


def ended(work: Callable[[], int]) -> int:
    """The exit code of some work: 0 fine, 1 something failed, 2 a mistake, 130 interrupted; said in one message."""
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        return work()
    except KeyboardInterrupt:
        print("\ninterrupted; finished cells are kept, and the same command goes on", file=sys.stderr)
        return 130
    except PlaitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(number: int, frame: object) -> None:
    """Ctrl-C ends the work; without a handler of ours one fit would return what it has, and be measured as a whole."""
    raise KeyboardInterrupt


def measure(
    study: Study, home: str, parts: Sequence[str], todo: Sequence[Row], given: argparse.Namespace, write: Write
) -> int:
    """With --fresh forget results; measure what is missing; write the page. -> the exit code."""
    folder, page = places(given, home)
    file = folder / NAME
    todo, failed = [row for row in todo if given.only in title(row.about)], 0
    if given.fresh:  # with all rows of a part go those that are measured no more
        forget(file, [row.about for row in todo], () if given.only else parts)
    if todo:
        with watching(study.name) as watch:
            failed = say_failures(run(study, todo, file, given.quick, given.command, watch))
    write(file, page, folder)
    print(f"{page} and its plots are written")
    return 1 if failed else 0
