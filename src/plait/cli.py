"""The command line: thin, every command is a few calls of the library."""

import sys
import time
from typing import Annotated, Any

import typer

app = typer.Typer(
    name="plait",
    help="Bayesian coupled tensor factorisation and link prediction.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from plait import __version__

        typer.echo(f"plait {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Bayesian coupled tensor factorisation and link prediction."""


@app.command()
def demo(
    seed: Annotated[int, typer.Option(min=0, help="Which cells are hidden, and where the fit starts.")] = 0,
    top: Annotated[int, typer.Option(min=1, help="How many predicted links to show.")] = 10,
) -> None:
    """Hide a fifth of real relations between countries, and predict them from the rest.

    Example: plait demo --seed 1 --top 5
    """
    from plait import demo as nations

    console = _console()
    links, attributes = nations.load()
    parts = nations.split(links, seed)
    console.print(
        f"[bold]Nations[/]: {len(links):,} links among {len(parts.cells):,} cells; {parts.hidden.sum():,} are hidden."
    )
    console.print(nations.MODEL, style="cyan", highlight=False, markup=False)
    begin = time.perf_counter()
    fit = nations.fit(parts, attributes, seed)
    console.print(f"{len(fit.history) - 1} sweeps in {time.perf_counter() - begin:.1f} s: {fit.stop}\n")
    score = fit.predict("relations", parts.cells)["mean"].to_numpy()
    _show_scores(console, parts, {"Plait": score, "popularity": nations.popularity(parts)})
    _show_links(console, parts, score, top)


def _show_scores(console: Any, parts: Any, scores: dict[str, Any]) -> None:
    from rich.table import Table

    from plait.demo import average_precision, roc_auc

    table = Table("hidden cells", "AUC", "average precision", title="How well the hidden links are found")
    for name, score in scores.items():
        figures = [f(parts.link[parts.hidden], score[parts.hidden]) for f in (roc_auc, average_precision)]
        table.add_row(name, *(f"{figure:.3f}" for figure in figures))
    console.print(table)


def _show_links(console: Any, parts: Any, score: Any, top: int) -> None:
    """The hidden cells with the highest scores, in words."""
    import numpy as np
    from rich.table import Table

    hidden = np.flatnonzero(parts.hidden)
    best = hidden[np.argsort(-score[hidden], kind="stable")[:top]]
    table = Table("predicted link", "probability", "is there", title="The most probable hidden links")
    for cell in best.tolist():
        head, relation, tail = parts.cells.row(cell)
        table.add_row(f"{head} —{relation}→ {tail}", f"{score[cell]:.3f}", "yes" if parts.link[cell] else "no")
    console.print(table)


def _console() -> Any:
    """A console that keeps to the terminal's width, and to 100 columns in a pipe."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=100)
