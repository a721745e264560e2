"""An explanation: records, the same as polars tables, and as plain data. `page` shows it to people."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plait.analysis.explain.explanation_text import describe, link_words, row_words

if TYPE_CHECKING:
    import polars as pl

    from plait.rendering.document import Document


@dataclass(frozen=True)
class ComponentShare:
    """A component of the cell: the value of each latent index of its term, and its share.

    term: the number of the term; text: its factors, and name: the term in words, both empty where it is the only one.
    """

    setting: Mapping[str, int]
    share: float
    term: int = 0
    text: str = ""
    name: str = ""

    def __str__(self) -> str:
        values = " ".join(f"{index}={value}" for index, value in self.setting.items())
        if len(self.setting) == 1:
            values = str(next(iter(self.setting.values())))
        return " of ".join(filter(None, (values, self.name))) or "only"


@dataclass(frozen=True)
class Entity:
    """One entity of an axis in one component (by its place); `entities` defines weight, lift and rank."""

    component: int
    index: str
    name: Any
    weight: float
    lift: float
    rank: int
    of: int
    of_cell: bool


@dataclass(frozen=True)
class Link:
    """A known link: its cell by names, its value, and the indices of the cell it bears on.

    responsibility: about the fraction by which the mean of the cell would be smaller, were the link an observed zero
    (`plait.analysis.explain.influence`). exact: the fraction by which it is, fitted again; None if not asked for.
    """

    relation: str
    cell: Mapping[str, Any]
    value: float
    responsibility: float
    through: tuple[str, ...]
    exact: float | None = None

    @property
    def loss(self) -> float:
        """The fraction that is shown: the exact one where it is known."""
        return self.responsibility if self.exact is None else self.exact

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.cell.values()))})"


@dataclass(frozen=True)
class Evidence:
    """A factor row that the cell uses: how much of it comes from data and from the prior, and how many links use it."""

    factor: str
    entities: Mapping[str, Any]
    data: float
    prior: float
    links: int

    def __str__(self) -> str:
        return ", ".join(f"{index} {name}" for index, name in self.entities.items())


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why a link is predicted. `print` shows it, `to_dict` gives plain data, the properties are polars tables.

    prediction: mean, sd, probability, lower, upper; under Bernoulli rate; under an exposure its value there. known:
    whether it is a link of the data; value: its value then. shares: the components, largest share first; `remainder` is
    that of those not listed, of component_count in all. standings: who characterises the leading components. reasons:
    the known links most responsible; other_links more have other_responsibility together. rows: what the cell rests on,
    this link included where it is known. method: that of the fit; "em" has no prior. exact: how each reason's link was
    changed to fit again, "zero" or "missing"; None: it was not. titles: by index those of the entities it names.
    """

    relation: str
    cell: dict[str, Any]
    prediction: dict[str, float]
    known: bool
    value: float | None
    shares: tuple[ComponentShare, ...]
    remainder: float
    component_count: int
    standings: tuple[Entity, ...]
    reasons: tuple[Link, ...]
    other_links: int
    other_responsibility: float
    rows: tuple[Evidence, ...]
    method: str
    exact: str | None = None
    titles: Mapping[str, Mapping[Any, str]] = field(default_factory=dict)

    @cached_property
    def components(self) -> "pl.DataFrame":
        """The components by share: component, in a sum term, a column for each latent index, share."""
        import polars as pl

        found: dict[str, Any] = {"component": [str(share) for share in self.shares]}
        if self.shares[0].text:
            found["term"] = [share.text for share in self.shares]
        own = {*found, "share"}
        for index in dict.fromkeys(i for share in sorted(self.shares, key=lambda s: s.term) for i in share.setting):
            found[f"{index}_" if index in own else index] = [share.setting.get(index) for share in self.shares]
        return pl.DataFrame({**found, "share": [share.share for share in self.shares]})

    @cached_property
    def entities(self) -> "pl.DataFrame":
        """Who characterises the leading components: component, index, name, weight, lift, rank, of_cell.

        Where a fit has titles, `title` follows the name.
        """
        rows = [
            (str(self.shares[e.component]), e.index, str(e.name), e.weight, e.lift, e.rank, e.of_cell)
            for e in self.standings
        ]
        table = _table({"component": str, "index": str, "name": str, "weight": float, "lift": float, "rank": int,
                        "of_cell": bool}, rows)  # fmt: skip
        if not self.titles:
            return table
        return table.insert_column(3, _titles(list(map(self._title, self.standings))))

    @cached_property
    def links(self) -> "pl.DataFrame":
        """The known links most responsible: relation, link, value, responsibility, through, and exact if asked for.

        responsibility and exact are fractions of the mean (see `Link`), as the text shows them in percent.
        """
        schema = {"relation": str, "link": str, "value": float, "responsibility": float, "through": str, "exact": float}
        rows = [
            (r.relation, link_words(self, r), r.value, r.responsibility, ", ".join(r.through), r.exact)
            for r in self.reasons
        ]
        table = _table(schema, rows)
        return table if self.exact else table.drop("exact")

    @cached_property
    def evidence(self) -> "pl.DataFrame":
        """What the cell rests on: factor, entity, data (the fraction that comes from data), prior, links.

        A cell of rate 0 uses nothing of its rows: data and prior are 0.
        """
        rows = [(row.factor, row_words(self, row), row.data, row.prior, row.links) for row in self.rows]
        return _table({"factor": str, "entity": str, "data": float, "prior": float, "links": int}, rows)

    def to_dict(self) -> dict[str, Any]:
        """All of it in what JSON can hold; names that are neither text nor number become text."""
        return {
            "relation": self.relation,
            "cell": _plain(self.cell),
            **self._titled(self.cell),
            "known": self.known,
            "value": self.value,
            "prediction": dict(self.prediction),
            "components": [
                {**share.setting, **({"term": share.text} if share.text else {}), "share": share.share}
                for share in self.shares
            ],
            "component_count": self.component_count,
            "remainder": self.remainder,
            "entities": [_plain(vars(e)) | ({"title": self._title(e)} if self.titles else {}) for e in self.standings],
            "links": [
                {"relation": r.relation, "cell": _plain(r.cell), **self._titled(r.cell), "value": r.value,
                 "responsibility": r.responsibility, "through": list(r.through), "exact": r.exact}
                for r in self.reasons
            ],
            "other_links": self.other_links,
            "other_responsibility": self.other_responsibility,
            "exact": self.exact,
            "evidence": [
                {"factor": row.factor, "entities": _plain(row.entities), **self._titled(row.entities), "data": row.data,
                 "prior": row.prior, "links": row.links}
                for row in self.rows
            ],
        }  # fmt: skip

    def _title(self, entity: Entity) -> str | None:
        return self.titles.get(entity.index, {}).get(entity.name)

    def _titled(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The titles of some names by index, as one key; none where the fit has no titles."""
        if not self.titles:
            return {}
        return {"titles": {i: own[name] for i, name in names.items() if name in (own := self.titles.get(i, {}))}}

    def __str__(self) -> str:
        from plait.rendering.text import render

        return render(self.describe())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from plait.rendering.html import render

        return render(self.describe())

    def describe(self) -> "Document":
        """What is shown of it, in tables."""
        return describe(self)


def _table(schema: Mapping[str, type], rows: list[tuple[Any, ...]]) -> "pl.DataFrame":
    import polars as pl

    types = {str: pl.String, float: pl.Float64, int: pl.Int64, bool: pl.Boolean}
    return pl.DataFrame(rows, schema={name: types[kind] for name, kind in schema.items()}, orient="row")


def _titles(titles: list[str | None]) -> "pl.Series":
    import polars as pl

    return pl.Series("title", titles, pl.String)


def _plain(names: Mapping[str, Any]) -> dict[str, Any]:
    return {key: name if isinstance(name, (str, int, float)) else str(name) for key, name in names.items()}
