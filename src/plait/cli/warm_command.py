"""`plait warm`: the kernels of the usual models and queries, compiled into the cache folder."""

import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from plait import datasets
from plait.cli.command_options import Json
from plait.cli.output import emit, out
from plait.data import Relation
from plait.errors import ParameterError, PlaitWarning
from plait.evaluation import evaluate
from plait.fitting.fit import fit
from plait.jit.cache import cache_folder, usable_folder
from plait.model import Model
from plait.rendering.formatting import write_bytes
from plait.result import Fit

MATRIX = "links[user, item] = U[user, r] I[item, r]"
TRIPLES = "links[user, item, time] = U[user, r] I[item, r] T[time, r]"
LIKELIHOODS = ("poisson", "bernoulli")
RANKS = (8, 16, 32)  # a kernel serves the ranks that are padded to the same multiple of 8


def warm(
    rank: Annotated[
        list[int] | None,
        typer.Option("--rank", metavar="N", min=1, help="Rank to compile for; by default 8, 16 and 32; repeatable."),
    ] = None,
    json: Json = False,
) -> None:
    """Compile the kernels of common models into the cache folder.

    For container images and CI: later processes with the same cache folder load them in milliseconds. Compiles matrix
    and CP models of counts and of links, two data sets that ship with Plait, and the queries of a fit.

    \b
    Examples:
      plait warm
      plait warm --rank 64 --rank 128
    """
    folder = usable_folder(make=True)
    if folder is None:
        raise ParameterError(
            f"the cache folder {cache_folder()} cannot be used.",
            hint="Set PLAIT_CACHE_DIR to a folder of your own that others cannot write to.",
        )
    before, begin = _kernels(folder), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlaitWarning)
        for fitted, relation, test in _fits(tuple(rank or RANKS)):
            fitted.top(relation, k=1)
            fitted.predict(relation, test)
            evaluate(fitted, relation, test)
            fitted.explain(relation, test.drop("value", strict=False).row(0, named=True))
    after, seconds = _kernels(folder), time.perf_counter() - begin
    size = sum(path.stat().st_size for path in after)
    if json:
        emit({"folder": str(folder), "compiled": len(after - before), "kernels": len(after), "bytes": size})
        return
    out(f"{len(after - before)} kernels compiled in {seconds:.0f} s. {folder} has {len(after)}, {write_bytes(size)}.")


def _kernels(folder: Path) -> set[Path]:
    return set(folder.glob("*.kernel"))


def _fits(ranks: tuple[int, ...]) -> Iterator[tuple[Fit, str, pl.DataFrame]]:
    """One short fit of each model, a relation of it, and cells to ask about."""
    table = pl.DataFrame({"user": [0, 1, 2, 3], "item": [0, 1, 1, 0], "time": [0, 0, 1, 1], "value": [1, 1, 1, 1]})
    for rank in ranks:
        for text, cells in ((MATRIX, table.drop("time")), (TRIPLES, table)):
            for likelihood in LIKELIHOODS:
                data = {"links": Relation(cells, likelihood=likelihood, unseen="zero")}
                yield _short(text, data, rank), "links", cells
        for name in ("nations", "usair"):
            example = datasets.load(name)
            relation = example.model.relations[0]
            cells = pl.DataFrame(example.data[relation].data).head(4)
            yield _short(example.model, example.data, rank), relation, cells


def _short(model: Model | str, data: dict[str, Relation], rank: int) -> Fit:
    return fit(model, data, rank=rank, warmup=1, max_iter=1, seed=0, progress=False)
