"""The demo: real relations between countries, some hidden, predicted from the rest (README.md beside this file)."""

from importlib.resources import files
from typing import TYPE_CHECKING

import polars as pl

import plait
from plait.forked import refuse_in_fork

if TYPE_CHECKING:
    from plait.evaluation import Metrics, Split
    from plait.result import Fit

MODEL = """\
relations[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]
attributes[head, attribute]     = H[head, r] F[attribute, r]
tail: head
"""
MEMBERS = 5
HIDDEN = 0.2


def load() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Links between countries (head, relation, tail), and attributes that a country has (head, attribute).

    Area and population are binned at their medians: raw populations would drown the links.
    """
    refuse_in_fork("the data of the demo")
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


def data() -> dict[str, "plait.Relation"]:
    """Both relations; what a country has to do with itself is missing, for nobody asked."""
    links, attributes = load()
    countries = pl.concat([links["head"], links["tail"]]).unique().sort()
    itself = pl.DataFrame({"head": countries, "tail": countries})
    return {
        "relations": plait.Relation(links, missing=itself, universe="model", likelihood="bernoulli"),
        "attributes": plait.Relation(attributes, likelihood="bernoulli"),
    }


def split(seed: int) -> "Split":
    """Hide a fifth of all cells of the relations, links and non-links alike.

    Their mirror images are hidden too: a treaty of two countries is listed both ways, and one tells the other.
    """
    return plait.hide(data(), "relations", fraction=HIDDEN, by="cells", seed=seed, model=MODEL, twins="hide")


def fit(parts: "Split", seed: int, progress: bool | None = None) -> "Fit":
    """The coupled model, by variational Bayes, on what is not hidden; its rank is found, and five fits are averaged."""
    return plait.fit(MODEL, parts.train, restarts=MEMBERS, seed=seed, progress=progress)


def figures(fitted: "Fit", parts: "Split") -> "dict[str, Metrics | dict[str, float]]":
    """How well the hidden links are found: by the model, and by the popularity of the entities of a cell."""
    from plait.evaluation.baselines import popularity
    from plait.evaluation.metrics import average_precision, roc_auc

    link, score = (parts.test["value"] > 0).to_numpy(), popularity(fitted, "relations", parts.test)
    baseline = {"roc_auc": roc_auc(link, score), "average_precision": average_precision(link, score)}
    return {"Plait": plait.evaluate(fitted, "relations", parts.test), "popularity": baseline}


def best(fitted: "Fit", parts: "Split", count: int) -> pl.DataFrame:
    """The hidden cells that most probably are links, best first, and whether they are (value)."""
    scored: pl.DataFrame = fitted.predict("relations", parts.test)
    return scored.sort("probability", descending=True, maintain_order=True).head(count)
