"""The demo: real relations between countries, some hidden, predicted from the rest (README.md beside this file)."""

from importlib.resources import files
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait

MODEL = """\
relations[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]
attributes[head, attribute]     = H[head, r] F[attribute, r]
tail: head
"""
RANK = 10
HIDDEN = 0.2

Array = NDArray[np.float64]


def load() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Links between countries (head, relation, tail), and attributes that a country has (head, attribute).

    Area and population are binned at their medians: raw populations would drown the links.
    """
    folder = files("plait.demo")
    names = ["head", "relation", "tail"]
    links = pl.read_csv((folder / "nations.tsv").read_bytes(), separator="\t", has_header=False, new_columns=names)
    numbers = pl.read_csv(
        (folder / "attributes.tsv").read_bytes(), separator="\t", has_header=False,
        new_columns=["head", "attribute", "value"],
    )  # fmt: skip
    large = pl.col("value") > pl.col("value").median().over("attribute")
    size = pl.when(large).then(pl.lit("large ")).otherwise(pl.lit("small "))
    return links, numbers.select("head", (size + pl.col("attribute")).alias("attribute"))


class Split(NamedTuple):
    """All cells of the relations but those of a country with itself; which are links, and which are hidden."""

    cells: pl.DataFrame
    link: NDArray[np.bool_]
    hidden: NDArray[np.bool_]

    @property
    def known(self) -> pl.DataFrame:
        """The links that are not hidden."""
        return self.cells.filter(self.link & ~self.hidden)

    @property
    def missing(self) -> list[pl.DataFrame]:
        """What the fit must not see: hidden cells, links or not, and every country with itself."""
        countries = self.cells["head"].unique()
        return [self.cells.filter(self.hidden), pl.DataFrame({"head": countries, "tail": countries})]


def split(links: pl.DataFrame, seed: int) -> Split:
    """Hide a random share of all cells, links and non-links alike."""
    countries = pl.concat([links["head"], links["tail"]]).unique().sort()
    grid = pl.DataFrame({"head": countries}).join(links.select(pl.col("relation").unique().sort()), how="cross")
    cells = grid.join(pl.DataFrame({"tail": countries}), how="cross").filter(pl.col("head") != pl.col("tail"))
    marked = cells.join(links.with_columns(link=True), on=cells.columns, how="left", maintain_order="left")
    link = marked["link"].fill_null(False).to_numpy()
    return Split(cells, link, np.random.default_rng(seed).random(len(cells)) < HIDDEN)


def fit(parts: Split, attributes: pl.DataFrame, seed: int, progress: bool | None = None) -> "plait.Fit":
    """The coupled model, by variational Bayes, on what is not hidden."""
    data = {
        "relations": plait.Relation(parts.known, missing=parts.missing, universe="model", likelihood="bernoulli"),
        "attributes": plait.Relation(attributes, likelihood="bernoulli"),
    }
    labels = {axis: parts.cells[axis].unique().sort().to_list() for axis in ("head", "relation")}
    return plait.fit(MODEL, data, rank=RANK, seed=seed, labels=labels, progress=progress)


def popularity(parts: Split) -> Array:
    """The baseline without a model: the product of the three axes' numbers of known links."""
    score = np.ones(len(parts.cells))
    for axis in parts.cells.columns:
        counts = parts.known[axis].value_counts(name="links")
        joined = parts.cells.select(axis).join(counts, on=axis, how="left", maintain_order="left")
        score *= joined["links"].fill_null(0).to_numpy()
    return score


def roc_auc(link: NDArray[np.bool_], score: Array) -> float:
    """The probability that a link scores above a non-link, ties counting half."""
    from scipy.stats import rankdata

    ranks, links = rankdata(score), int(link.sum())
    return float((ranks[link].sum() - links * (links + 1) / 2) / (links * (len(link) - links)))


def average_precision(link: NDArray[np.bool_], score: Array) -> float:
    """Precision averaged over the links, going down the ranking; tied cells are taken together."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(link[order])
    last = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    found = np.diff(hits[last], prepend=0)
    return float(np.sum(found * hits[last] / (last + 1)) / max(hits[-1], 1))
