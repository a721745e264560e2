"""Small real data sets that ship with Plait (README.md in this folder names their sources)."""

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from plait.errors import ParameterError, suggestion
from plait.forked import refuse_in_fork
from plait.model import Model

if TYPE_CHECKING:
    import polars as pl

    from plait.data import Relation

NATIONS = """\
relations[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]
attributes[head, attribute]     = H[head, r] F[attribute, r]
tail: head
"""


@dataclass(frozen=True)
class Dataset:
    """Data and a model that fits them.

    Attributes
    ----------
    name : str
        Name of the data set.
    data : dict of str to Relation
        One entry per relation, as `plait.fit` takes them.
    model : Model
        A model of the relations.
    """

    name: str
    data: "dict[str, Relation]"
    model: Model


def load(name: str) -> Dataset:
    """Load a data set.

    Parameters
    ----------
    name : {"nations"}
        ``"nations"``: 1,992 relations of 55 kinds between 14 countries, and attributes of the countries. Links of a
        country with itself are missing.

    Returns
    -------
    Dataset
        The relations and a model of them.

    Raises
    ------
    plait.errors.ParameterError
        If there is no data set of that name.

    Examples
    --------
    >>> nations = plait.datasets.load("nations")
    >>> sorted(nations.data)
    ['attributes', 'relations']
    """
    if name != "nations":
        raise ParameterError(
            f"there is no data set {name!r}.", hint=f"{suggestion(name, ['nations'])}There is 'nations'."
        )
    refuse_in_fork("plait.datasets.load")
    return Dataset(name, _nations(), Model(NATIONS))


def nations_tables() -> "tuple[pl.DataFrame, pl.DataFrame]":
    """Read the links (head, relation, tail) and the attributes (head, attribute) of countries.

    Area and population are binned at their medians: raw populations would drown the links.
    """
    import polars as pl

    def read(file: str, columns: list[str]) -> pl.DataFrame:
        content = (files("plait.datasets") / file).read_bytes()
        return pl.read_csv(content, separator="\t", has_header=False, new_columns=columns)

    numbers = read("attributes.tsv", ["head", "attribute", "value"])
    large = pl.col("value") > pl.col("value").median().over("attribute")
    size = pl.when(large).then(pl.lit("large ")).otherwise(pl.lit("small "))
    attributes = numbers.select("head", (size + pl.col("attribute")).alias("attribute"))
    return read("nations.tsv", ["head", "relation", "tail"]), attributes


def _nations() -> "dict[str, Relation]":
    import polars as pl

    from plait.data import Relation

    links, attributes = nations_tables()
    countries = pl.concat([links["head"], links["tail"]]).unique().sort()
    self_links = pl.DataFrame({"head": countries, "tail": countries})
    return {
        "relations": Relation(links, missing=self_links, unseen="zero", likelihood="bernoulli"),
        "attributes": Relation(attributes, likelihood="bernoulli"),
    }
