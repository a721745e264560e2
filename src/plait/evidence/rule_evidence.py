"""Evidence from Horn rules: a sparse given factor with an index that runs over the values of mined rules.

A rule has three values where its body joins two entities: 1, and the probabilities that a random walk along the body
leads from the head to the tail, and back. A fit learns a weight for each (docs/math.md, section 17).
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from plait._typing import AnyArray, Array, Rows
from plait.data.binding.given import ComputedFactor
from plait.data.bound import BoundRelation, Data
from plait.data.observation.weights import Weights
from plait.data.sparse.keys import columns_of, coordinate_type, pack
from plait.errors import ParameterError, suggestion
from plait.evidence.horn_rules import MAX_LENGTH, WALKS, HornRule, TripleGraph, grounding, mine, values_of
from plait.evidence.link_evidence import bound_of, check_relation
from plait.forked import refuse_in_fork
from plait.model.model import Model

if TYPE_CHECKING:
    import polars as pl

DEFAULT_PARAMS = {"max_length": MAX_LENGTH, "min_confidence": 0.005, "max_rules": 100, "seed": 0}  # those of `rules`
ENTRIES_PER_LINK = 100  # that all rules of a relation may have at most, and …
MIN_ENTRIES = 1_000_000  # … that they may have in any case
SHOWN_RULES = 20  # rows of the table that is printed


class Places(NamedTuple):
    """Positions of head, relation and tail in the cells of a relation."""

    head: int
    relation: int
    tail: int

    @classmethod
    def of(cls, name: str, indices: Sequence[str], axes: Sequence[str]) -> "Places":
        alone = [place for place, axis in enumerate(axes) if axes.count(axis) == 1]
        if len(axes) != 3 or len(alone) != 1:
            raise ParameterError(
                f"rules require triples: {name} has the indices {', '.join(indices)}.",
                location=name,
                hint="Rules need an index of relations, and two of one axis: declare `tail: head` in `model`.",
            )
        head, tail = (place for place in range(3) if place != alone[0])
        return cls(head, alone[0], tail)

    def triples(self, cells: AnyArray) -> Rows:
        """Cells (n, 3) as head, relation, tail."""
        return cells[:, list(self)].astype(np.int64)


class Mined(NamedTuple):
    """Rules that links have, with the entries of their values: cells (n, 3), and a csr array (n, 3 n_rules)."""

    rules: tuple[HornRule, ...]
    cells: AnyArray
    matrix: Any
    names: tuple[Hashable, ...]  # of the relations


@dataclass(frozen=True, eq=False, repr=False)
class Rules(ComputedFactor):
    """Rules of a knowledge graph: a factor with a summed index to give to `plait.fit`.

    Each fit mines them again from its own training links. `plait.evidence.rules` returns it.

    Attributes
    ----------
    relation : str
        The relation whose links are predicted.
    params : mapping of str to float
        How rules are mined: the arguments of `plait.evidence.rules`.
    table : DataFrame
        One row per rule: ``rule``, ``support``, ``confidence`` and, from a fit, ``weight`` and
        ``sd``.

    Examples
    --------
    >>> import plait
    >>> facts = [("ann", "manages", "bob"), ("ann", "works", "acme"), ("bob", "works", "acme")]
    >>> facts += [("cid", "manages", "dee"), ("cid", "works", "bank"), ("dee", "works", "bank")]
    >>> model = "facts[h, p, t] = A[h, r] B[p, r] C[t, r]; t: h"
    >>> rules = plait.evidence.rules({"facts": facts}, "facts", model=model)
    >>> "works(h, t) ← manages(a, h), works(a, t)" in rules.table["rule"]
    True
    """

    relation: str
    params: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_PARAMS))
    rules: tuple[HornRule, ...] = ()
    names: tuple[Hashable, ...] = ()
    learnt: tuple[Array, Array] | None = None
    kind = "rules"
    weight_mean = 0.03  # prior mean of a weight: most rules add little to what others say (decision 38)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_mined", WeakKeyDictionary())

    def mined(self, data: Data) -> Mined:
        """The rules that the links of `data` have."""
        relation = data.relations[self.relation]
        known: WeakKeyDictionary[Any, Mined] = self._mined  # type: ignore[attr-defined]
        if relation.links not in known:
            axes = [data.entities[index].axis for index in relation.indices]
            places = Places.of(self.relation, relation.indices, axes)
            names = tuple(data.entities[relation.indices[places.relation]])
            known[relation.links] = _mined(relation, places, self.params, names)
        return known[relation.links]

    def with_rules(self, data: Data) -> "Rules":
        """These rules with those of the links of `data`, which are mined once."""
        mined = self.mined(data)
        known = replace(self, rules=mined.rules, names=mined.names)
        known._mined[data.relations[self.relation].links] = mined  # type: ignore[attr-defined]
        return known

    def sparse_factor(self, data: Data, relation: str) -> tuple[AnyArray, Any, tuple[Hashable, ...]]:
        """Cells, matrix and labels of the factor, whose summed index runs over the values of the rules."""
        if relation != self.relation:
            raise ParameterError(
                f"`fixed`: the rules are of the relation {self.relation}, but stand in the equation of {relation}.",
                hint=suggestion(relation, [self.relation]).strip() or None,
            )
        mined = self.mined(data)
        labels = tuple(rule.words(mined.names) for rule in mined.rules for _ in WALKS)
        return mined.cells, mined.matrix, labels

    def weights(self, data: Data, indices: Sequence[str], name: str) -> Weights:
        """Refuse a factor without the index of the rules."""
        raise ParameterError(
            f"`fixed`: factor {name} contains rules, but has no summed index.",
            hint=f"Write w[q] {name}[{', '.join([*indices, 'q'])}].",
        )

    def words(self, data: Data) -> dict[str, Any]:
        """What a run keeps of it: the recipe and the rules."""
        rules = [[r.head, [[p, f] for p, f in r.body], r.support, r.confidence] for r in self.mined(data).rules]
        return {"relation": self.relation, "kind": self.kind, "params": dict(self.params), "rules": rules}

    @cached_property
    def table(self) -> "pl.DataFrame":
        """One row per rule, the most confident or the heaviest first."""
        import polars as pl

        table = pl.DataFrame(
            {
                "rule": [rule.words(self.names) for rule in self.rules],
                "support": pl.Series([rule.support for rule in self.rules], dtype=pl.Int64),
                "confidence": pl.Series([rule.confidence for rule in self.rules], dtype=pl.Float64),
            }
        )
        if self.learnt is None:
            return table.sort("confidence", "support", descending=True, maintain_order=True)
        mean, sd = self.learnt
        return table.with_columns(pl.Series("weight", mean), pl.Series("sd", sd)).sort(
            "weight", descending=True, maintain_order=True
        )

    def __repr__(self) -> str:
        return f"{len(self.rules):,} rules of {self.relation}"

    def __str__(self) -> str:
        from plait.rendering.document import Document, Table
        from plait.rendering.text import render

        shown, columns = self.table.head(SHOWN_RULES), ("rule", "support", "confidence", "weight")
        rows = [
            (row["rule"], f"{row['support']:,}", f"{row['confidence']:.3f}")
            + (() if self.learnt is None else (f"{row['weight']:.3g} ± {row['sd']:.2g}",))
            for row in shown.iter_rows(named=True)
        ]
        more = len(self.table) - len(shown)
        note = f"{more:,} more rules: `table` has all of them." if more else ""
        return render(Document(repr(self), [Table(columns[: 3 + (self.learnt is not None)], rows, note=note)], {}))

    def __len__(self) -> int:
        return len(self.rules)


def rules(
    data: Any,
    relation: str,
    *,
    model: Model | str | None = None,
    max_length: int = MAX_LENGTH,
    min_confidence: float = 0.005,
    max_rules: int = 100,
    seed: int = 0,
) -> Rules:
    """Mine the Horn rules of a knowledge graph, ``p(h, t) ← q(h, a), r(a, t)``.

    Parameters
    ----------
    data : Data, Fit, or mapping of str to table, array or Relation
        The training data: the result of ``model.bind(data)``, or one entry per relation. Of a
        fit with rules, these are returned with their learnt weights.
    relation : str
        The relation of the triples: two indices of one axis and one of relations.
    model : Model or str, default None
        The model, which says which indices share an axis. Not needed for bound data.
    max_length : int, default 3
        Largest number of links of a body, at most 3.
    min_confidence : float, default 0.005
        Smallest share of the pairs joined by a body that are links of the head. Five pairs
        are added, so that rules with few pairs are not preferred.
    max_rules : int, default 100
        Largest number of rules for each relation, the most confident ones.
    seed : int, default 0
        Seed of the samples on which bodies are found and counted, where triples are many.

    Returns
    -------
    Rules
        A sparse factor with a summed index, to give to `plait.fit`, and a table of the rules.

    Raises
    ------
    plait.errors.ParameterError
        If the relation does not consist of triples, or an option is wrong.
    plait.errors.DataError
        If most cells of the relation are unobserved.

    Notes
    -----
    The entities of a body are distinct, so a triple never supports itself. `plait.fit` mines
    the rules again from the links that it is given, so rank searches and splits do not leak.
    ``print(rules)`` shows the most confident rules.

    Examples
    --------
    >>> import plait
    >>> facts = [("ann", "manages", "bob"), ("ann", "works", "acme"), ("bob", "works", "acme")]
    >>> facts += [("cid", "manages", "dee"), ("cid", "works", "bank"), ("dee", "works", "bank")]
    >>> facts += [("ann", "manages", "eva")]
    >>> model = "facts[h, p, t] = A[h, r] B[p, r] C[t, r] + w[q] N[h, p, t, q]; t: h"
    >>> rules = plait.evidence.rules({"facts": facts}, "facts", model=model)
    >>> fit = plait.fit(model, {"facts": facts}, rank={"r": 1}, fixed={"N": rules}, seed=0)
    >>> fit.top("facts", k=1, given={"h": "eva", "p": "works"})["t"].to_list()
    ['acme']
    >>> plait.evidence.rules(fit, "facts").table.columns
    ['rule', 'support', 'confidence', 'weight', 'sd']
    """
    refuse_in_fork("plait.evidence.rules")
    if hasattr(data, "exposures"):  # a Fit, which this package must not import
        return _of_fit(data, relation)
    params = _params(max_length, min_confidence, max_rules, seed)
    bound = bound_of(data, relation, model)
    if relation not in bound.relations:
        raise ParameterError(
            f"`relation`: the data have no relation {relation!r}.",
            hint=suggestion(relation, list(bound.relations)).strip() or f"It is one of {', '.join(bound.relations)}.",
        )
    recipe = Rules(relation, params)
    return recipe.with_rules(bound)


def _params(max_length: Any, min_confidence: Any, max_rules: Any, seed: Any) -> dict[str, float]:
    for name, value, least, most in (
        ("max_length", max_length, 1, MAX_LENGTH), ("max_rules", max_rules, 1, None), ("seed", seed, 0, None),
    ):  # fmt: skip
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < least or (most is not None and value > most):
            wanted = f"an integer from {least} to {most}" if most else f"an integer of at least {least}"
            raise ParameterError.must_be(name, wanted, value)
    number = isinstance(min_confidence, (int, float, np.number)) and not isinstance(min_confidence, bool)
    if not number or not 0 <= min_confidence < 1:
        raise ParameterError.must_be("min_confidence", "a number of at least 0 and below 1", min_confidence)
    whole_numbers = {"max_length": int(max_length), "max_rules": int(max_rules), "seed": int(seed)}
    return whole_numbers | {"min_confidence": float(min_confidence)}


def _mined(relation: BoundRelation, places: Places, params: Mapping[str, float], names: tuple[Hashable, ...]) -> Mined:
    check_relation(relation)
    if relation.groups:
        raise ParameterError(
            f"rules have directions, but the equation of {relation.name} is symmetric.",
            location=relation.name,
            hint="Use two factors for head and tail, or a core: A[head, p] G[p, relation, q] A[tail, q].",
        )
    triples = places.triples(relation.cells)
    graph = TripleGraph(triples, relation.shape[places.head], relation.shape[places.relation])
    rules = mine(
        graph, int(params["max_length"]), params["min_confidence"], int(params["max_rules"]), int(params["seed"])
    )
    entries_left = max(MIN_ENTRIES, ENTRIES_PER_LINK * len(triples))
    kept, parts = [], list[tuple[AnyArray, Array]]()
    for rule in sorted(rules, key=lambda rule: -rule.confidence):
        heads, tails, values = values_of(graph, rule, entries_left)
        if len(heads):
            cells = np.empty((len(heads), 3), coordinate_type(relation.shape))
            cells[:, places.head], cells[:, places.relation], cells[:, places.tail] = heads, rule.head, tails
            entries_left -= len(heads)
            kept.append(rule)
            parts.append((cells, values))
    cells, matrix = _entries(parts, relation.shape)
    return Mined(tuple(kept), cells, matrix, names)


def _entries(parts: Sequence[tuple[AnyArray, Array]], shape: Sequence[int]) -> tuple[AnyArray, Any]:
    """Cells and values (n, n_walks) of every rule as sorted distinct cells, and a csr array with a column a value."""
    from scipy.sparse import csr_array

    if not parts:
        return np.zeros((0, len(shape)), coordinate_type(shape)), csr_array((0, len(WALKS)))
    cells = np.concatenate([own for own, _ in parts])
    values = np.concatenate([own for _, own in parts])
    number = np.repeat(np.arange(len(parts), dtype=np.int32), [len(own) for own, _ in parts])
    keys = pack(columns_of(cells), shape, len(cells))
    order = np.argsort(keys, kind="stable")  # rules stay in order within a cell
    keys = keys[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=keys[:1] + np.uint64(1)))
    width = len(WALKS)
    columns = (number[order][:, None] * width + np.arange(width, dtype=np.int32)).reshape(-1)
    starts = np.append(firsts, len(keys)) * width
    matrix = csr_array((values[order].reshape(-1), columns, starts), shape=(len(firsts), width * len(parts)))
    return np.ascontiguousarray(cells[order][firsts]), matrix


def rules_of_run(words: Mapping[str, Any]) -> Rules:
    """The rules that a run keeps."""
    return Rules(words["relation"], words["params"], tuple(_rule_of_run(*rule) for rule in words.get("rules", ())))


def _rule_of_run(head: int, body: Sequence[Sequence[Any]], support: int, confidence: float) -> HornRule:
    return HornRule(head, tuple((relation, forward) for relation, forward in body), support, confidence)


class GroundedRule(NamedTuple):
    """A rule that explains a cell, as text, and the known links (n, 3) that its body found there."""

    text: str
    links: Rows


def grounded_rule(fit: Any, relation: str, words: Mapping[str, Any], number: int, cell: AnyArray) -> GroundedRule:
    """The rule of a value of the summed index at a cell: ``p(ann, acme) ← q(bob, ann), p(bob, acme)``."""
    indices, known = fit.model.equation(relation).indices, fit.known[relation]
    places = Places.of(relation, indices, [fit.model.axis(index) for index in indices])
    rule = _rule_of_run(*words["rules"][number // len(WALKS)])
    entities, names = fit.entities[indices[places.head]], fit.entities[indices[places.relation]]
    triples = grounding(rule, places.triples(known.cells), int(cell[places.head]), int(cell[places.tail]))

    def text(triple: AnyArray) -> str:
        return f"{names[int(triple[1])]}({entities[int(triple[0])]}, {entities[int(triple[2])]})"

    links = np.empty_like(triples)
    links[:, list(places)] = triples
    return GroundedRule(
        f"{text(places.triples(np.asarray(cell)[None, :])[0])} ← {', '.join(map(text, triples))}", links
    )


def _of_fit(fit: Any, relation: str) -> Rules:
    """The rules of a fit with their weights: what a rule adds to the rate of a pair that it joins, on average."""
    equation = fit.model.equation(relation)
    for number in range(len(equation.terms)):
        sparse = fit.exposures.summed_in(relation, number)
        words = {} if sparse is None else fit.settings.get("evidence_terms", {}).get(sparse.factor, {})
        if sparse is not None and words.get("kind") == "rules":
            places = Places.of(relation, equation.indices, [fit.model.axis(index) for index in equation.indices])
            counts = np.bincount(sparse.matrix.indices, minlength=sparse.size)
            means = sparse.matrix.sum(axis=0) / np.maximum(counts, 1)
            posterior = fit.factors[sparse.weights]
            weight = (posterior.mean * means).reshape(-1, len(WALKS)).sum(axis=1)
            sd = np.sqrt((posterior.sd**2 * means**2).reshape(-1, len(WALKS)).sum(axis=1))
            names = tuple(fit.entities[equation.indices[places.relation]])
            return replace(rules_of_run(words), names=names, learnt=(weight, sd))
    raise ParameterError(
        f"`relation`: the equation of {relation} has no rules.",
        hint='Fit with `evidence="rules"`, or with the rules as a given factor.',
    )
