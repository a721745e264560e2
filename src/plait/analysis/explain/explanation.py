"""Explanation as records, as tables and as plain data; `explanation_text` writes it as text."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plait.analysis.explain.explanation_text import describe, link_words, row_words
from plait.data.sources.tables import POLARS, as_kind

if TYPE_CHECKING:
    import polars as pl
    from narwhals.stable.v2.typing import IntoDataFrame

    from plait.rendering.document import Document


@dataclass(frozen=True)
class ComponentShare:
    """A component of the cell: the value of each latent index of its term, and its share.

    `term`: number of the term; `text`: its factors; `name`: the term in words. Both are empty for a single term.
    `label`: names given to the component, or to those of its indices; empty without.
    """

    setting: Mapping[str, int]
    share: float
    term: int = 0
    text: str = ""
    name: str = ""
    label: str = ""

    def __str__(self) -> str:
        values = " ".join(f"{index}={value}" for index, value in self.setting.items())
        if len(self.setting) == 1:
            values = str(next(iter(self.setting.values())))
        return " of ".join(filter(None, (values, self.name))) or "only"


@dataclass(frozen=True)
class Entity:
    """One entity of an axis in one component (by its position); `leading_entities` defines weight, lift and rank."""

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

    responsibility: estimated relative drop of the mean of the cell if the link were an observed zero
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
        """The exact loss if known, else the responsibility."""
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
    """Explanation of one prediction, as `Fit.explain` returns it.

    ``print(explanation)`` shows it; ``components``, ``entities``, ``links`` and ``evidence``
    are tables.

    Attributes
    ----------
    relation : str
        Name of the relation.
    cell : dict of str to name
        The entity of each index.
    prediction : dict of str to float
        The columns of `Fit.predict` and, with an exposure, its value.
    known : bool
        Whether the cell is a link of the training data.
    value : float or None
        Its value in the training data.
    remainder : float
        Share of the components that are not listed.
    component_count : int
        Number of all components.
    other_links : int
        Number of supporting links that are not listed.
    other_responsibility : float
        Their total effect.
    method : str
        Method of the fit. EM has no prior.
    exact : one of "zero", "missing" or None
        How links were changed for the exact effects; ``None`` if they are estimates.
    titles : dict of str to dict
        Titles of the entities per index.
    shares, standings, reasons, rows : tuple
        The records behind ``components``, ``entities``, ``links`` and ``evidence``.

    Examples
    --------
    >>> explanation = fit.explain("visits", {"user": "bob", "place": "club"})
    >>> explanation.known
    False
    >>> round(explanation.prediction["mean"], 1)
    4.5
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
    kind: str = POLARS

    @cached_property
    def components(self) -> "IntoDataFrame":
        """Components by share: ``component``, one column per latent index, ``share``.

        A sum of terms adds ``term``; names given by `Fit.name_components` add ``name``.
        """
        import polars as pl

        columns: dict[str, Any] = {"component": [str(share) for share in self.shares]}
        if any(share.label for share in self.shares):
            columns["name"] = [share.label or None for share in self.shares]
        if self.shares[0].text:
            columns["term"] = [share.text for share in self.shares]
        own = {*columns, "share"}
        for index in dict.fromkeys(i for share in sorted(self.shares, key=lambda s: s.term) for i in share.setting):
            columns[f"{index}_" if index in own else index] = [share.setting.get(index) for share in self.shares]
        return self._in_kind(pl.DataFrame({**columns, "share": [share.share for share in self.shares]}))

    @cached_property
    def entities(self) -> "IntoDataFrame":
        """Entities that characterise the leading components.

        The columns are ``component``, ``index``, ``name``, ``weight``, ``lift``, ``rank`` and
        ``of_cell`` (whether the entity is in this cell). A fit with titles adds ``title``.
        """
        rows = [
            (str(self.shares[e.component]), e.index, str(e.name), e.weight, e.lift, e.rank, e.of_cell)
            for e in self.standings
        ]
        table = _table({"component": str, "index": str, "name": str, "weight": float, "lift": float, "rank": int,
                        "of_cell": bool}, rows)  # fmt: skip
        if not self.titles:
            return self._in_kind(table)
        return self._in_kind(table.insert_column(3, _titles(list(map(self._title, self.standings)))))

    @cached_property
    def links(self) -> "IntoDataFrame":
        """Known links that support the prediction, most important first.

        The columns are ``relation``, ``link``, ``value``, ``responsibility`` and ``through`` (the
        indices that link and cell share). ``responsibility`` is the estimated fraction by which
        the mean falls if the link were an observed zero. `Fit.explain` with ``exact`` adds the
        measured fraction, ``exact``.
        """
        schema = {"relation": str, "link": str, "value": float, "responsibility": float, "through": str, "exact": float}
        rows = [
            (r.relation, link_words(self, r), r.value, r.responsibility, ", ".join(r.through), r.exact)
            for r in self.reasons
        ]
        table = _table(schema, rows)
        return self._in_kind(table if self.exact else table.drop("exact"))

    @cached_property
    def evidence(self) -> "IntoDataFrame":
        """Factor rows that the cell uses, and how much of each comes from data.

        The columns are ``factor``, ``entity``, ``data`` and ``prior`` (fractions) and ``links``
        (number of known links). Both fractions are 0 in a cell with rate 0.
        """
        rows = [(row.factor, row_words(self, row), row.data, row.prior, row.links) for row in self.rows]
        table = _table({"factor": str, "entity": str, "data": float, "prior": float, "links": int}, rows)
        return self._in_kind(table)

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation in types that JSON can hold.

        Returns
        -------
        dict
            All attributes and tables. Names that are neither text nor numbers become text.

        Examples
        --------
        >>> explanation = fit.explain("visits", {"user": "bob", "place": "club"})
        >>> explanation.to_dict()["cell"]
        {'user': 'bob', 'place': 'club'}
        """
        return {
            "relation": self.relation,
            "cell": _plain(self.cell),
            **self._titles_by_index(self.cell),
            "known": self.known,
            "value": self.value,
            "prediction": dict(self.prediction),
            "components": [
                {**share.setting, **({"term": share.text} if share.text else {}),
                 **({"name": share.label} if share.label else {}), "share": share.share}
                for share in self.shares
            ],
            "component_count": self.component_count,
            "remainder": self.remainder,
            "entities": [_plain(vars(e)) | ({"title": self._title(e)} if self.titles else {}) for e in self.standings],
            "links": [
                {"relation": r.relation, "cell": _plain(r.cell), **self._titles_by_index(r.cell), "value": r.value,
                 "responsibility": r.responsibility, "through": list(r.through), "exact": r.exact}
                for r in self.reasons
            ],
            "other_links": self.other_links,
            "other_responsibility": self.other_responsibility,
            "exact": self.exact,
            "evidence": [
                {"factor": row.factor, "entities": _plain(row.entities),
                 **self._titles_by_index(row.entities), "data": row.data,
                 "prior": row.prior, "links": row.links}
                for row in self.rows
            ],
        }  # fmt: skip

    def _in_kind(self, table: "pl.DataFrame") -> "IntoDataFrame":
        return as_kind(table, self.kind)

    def _title(self, entity: Entity) -> str | None:
        return self.titles.get(entity.index, {}).get(entity.name)

    def _titles_by_index(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Titles of some names by index, as one key; empty where the fit has no titles."""
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
        """The explanation as tables."""
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
