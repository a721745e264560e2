"""Small real data sets that ship with Plait (README.md in this folder names their sources)."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
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
UMLS = """\
relations[head, relation, tail] = A[head, p] G[p, relation, q] A[tail, q]
tail: head
"""
USAIR = """\
routes[a, b] = U[a, r] U[b, r]
b: a
"""


@dataclass(frozen=True)
class Dataset:
    """Data, a model that fits them, and the official split if there is one.

    Attributes
    ----------
    name : str
        Name of the data set.
    data : dict of str to Relation
        All links, one entry per relation, as `plait.fit` takes them.
    model : Model
        A model of the relations.
    train : dict of str to Relation, or None
        The same without the links of `valid` and `test`. ``None`` if there is no official
        split.
    valid, test : polars.DataFrame or None
        Held-out links of the first relation of the model.

    Examples
    --------
    >>> plait.datasets.load("usair").model.relations
    ('routes',)
    """

    name: str
    data: "dict[str, Relation]"
    model: Model
    train: "dict[str, Relation] | None" = None
    valid: "pl.DataFrame | None" = None
    test: "pl.DataFrame | None" = None


def load(name: str) -> Dataset:
    """Load a data set that ships with Plait.

    Parameters
    ----------
    name : one of "nations", "umls", "usair"
        - ``"nations"``: 1,992 relations of 55 kinds between 14 countries, and attributes of
          the countries.
        - ``"umls"``: 6,529 relations of 46 kinds between 135 medical concepts.
        - ``"usair"``: 2,126 air routes between 332 airports of the United States, an
          undirected graph.

        Self-links are missing. The first two have an official split.

    Returns
    -------
    Dataset
        Relations, a model of them, and the official split.

    Raises
    ------
    plait.errors.ParameterError
        If there is no data set of that name.

    Examples
    --------
    >>> nations = plait.datasets.load("nations")
    >>> sorted(nations.data)
    ['attributes', 'relations']
    >>> len(nations.test)
    201
    """
    loaders: dict[str, Callable[[], Dataset]] = {"nations": _nations, "umls": _umls, "usair": _usair}
    if name not in loaders:
        known = ", ".join(f'"{one}"' for one in loaders)
        raise ParameterError(
            f"there is no data set {name!r}.", hint=f"{suggestion(name, loaders)}Choose one of {known}."
        )
    refuse_in_fork("plait.datasets.load")
    return loaders[name]()


def nations_tables() -> "tuple[pl.DataFrame, pl.DataFrame]":
    """Read the links (head, relation, tail) and the attributes (head, attribute) of countries.

    Area and population are binned at their medians: raw populations would drown the links.
    """
    import polars as pl

    numbers = pl.read_csv(
        _content("attributes.tsv"), separator="\t", has_header=False, new_columns=["head", "attribute", "value"]
    )
    large = pl.col("value") > pl.col("value").median().over("attribute")
    size = pl.when(large).then(pl.lit("large ")).otherwise(pl.lit("small "))
    attributes = numbers.select("head", (size + pl.col("attribute")).alias("attribute"))
    return _table("nations").drop("part"), attributes


def _nations() -> Dataset:
    from plait.data import Relation

    attributes = {"attributes": Relation(nations_tables()[1], likelihood="bernoulli")}
    return _triples("nations", NATIONS, attributes)


def _umls() -> Dataset:
    return _triples("umls", UMLS, {})


def _usair() -> Dataset:
    from plait.data import Relation

    return Dataset("usair", {"routes": Relation(_table("usair"), likelihood="bernoulli")}, Model(USAIR))


def _triples(name: str, model: str, others: "dict[str, Relation]") -> Dataset:
    """Build a knowledge graph from a table with the columns head, relation, tail and part."""
    import polars as pl

    from plait.data import Relation

    table = _table(name)
    links = table.drop("part")
    names = pl.concat([links["head"], links["tail"]]).unique().sort()
    self_links = pl.DataFrame({"head": names, "tail": names})

    def relations(rows: pl.DataFrame) -> "dict[str, Relation]":
        return {"relations": Relation(rows, missing=self_links, unseen="zero", likelihood="bernoulli"), **others}

    train, valid, test = (links.filter(table["part"] == part) for part in ("train", "valid", "test"))
    return Dataset(name, relations(links), Model(model), relations(train), valid, test)


def _table(name: str) -> "pl.DataFrame":
    import polars as pl

    return pl.read_parquet(BytesIO(_content(f"{name}.parquet")))


def _content(file: str) -> bytes:
    return (files("plait.datasets") / file).read_bytes()
