"""Binding of blocks on disk, alone or together with tables in memory."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from plait.data.binding.bind import bind, together
from plait.data.bound import BoundRelation, Data
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinksInMemory
from plait.data.observation.observed import Rule, observe, open_weights
from plait.data.observation.structural_zeros import Tables, find_structural_zeros
from plait.data.observation.symmetry import Groups, groups_of
from plait.data.observation.terms import Term
from plait.data.observation.weights import Weights
from plait.data.outofcore.batches import Reader
from plait.data.outofcore.block_folder import read_manifest
from plait.data.outofcore.block_table import CellsOnDisk, LinksOnDisk, TableOnDisk, has_own_weights
from plait.data.outofcore.packed import Packed, PackedRelation
from plait.data.sources.coercion import by_relation, is_path
from plait.data.sources.relation import AUTO, Relation
from plait.data.sources.tables import is_scan
from plait.data.sparse.cell_draws import Weighing
from plait.data.sparse.csf import narrow
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.errors import DataError, TableLocation
from plait.forked import refuse_in_fork
from plait.model.model import Equation, Model

READ_BYTES = 1 << 28  # of memory for reading a table in batches, about


def bind_all(
    model: Model,
    data: Any,
    entities: Mapping[str, Sequence[Any]] | None = None,
    *,
    warn: bool = True,
) -> Data:
    """Data of a model, some or all of it in blocks: a folder, or a mapping of relation to table or folder."""
    if isinstance(data, (str, PathLike, Packed)) and not is_path(data):
        folder = data if isinstance(data, Packed) else Packed.open(data)
        _check_relations(model, folder)
        data = dict.fromkeys(model.relations, folder)
    data = by_relation(model, data)
    folders = {name: _opened(given) for name, given in data.items() if _is_folder(given)}
    elsewhere = {name: OnDisk(folder, name) for name, folder in folders.items() if name in model.relations}
    for name, one in elsewhere.items():
        one.check(model.equation(name), model)
    others = {name: given for name, given in data.items() if name not in elsewhere}
    return bind(model, others, entities, warn=warn, elsewhere=elsewhere, stream=_stream)


def _stream(relation: Relation, name: str, indices: tuple[str, ...]) -> Reader | None:
    """Reader of a table in files, after the pass over its names; it is read again in batches."""
    data = relation.data
    if not is_scan(data) or not data.stays:
        return None
    refuse_in_fork(f"{name}, a table")
    reader = Reader(relation, name, indices, Path(), READ_BYTES)
    for _ in reader.collect():
        pass
    return reader


def _is_folder(given: Any) -> bool:
    return isinstance(given, Packed) or (isinstance(given, (str, PathLike)) and os.path.isdir(given))


def _opened(given: Any) -> Packed:
    return given if isinstance(given, Packed) else Packed.open(given)


def _check_relations(model: Model, folder: Packed) -> None:
    for name in model.relations:
        if name not in folder.relations:
            one = next(iter(folder.relations))
            raise DataError(
                f"the blocks in {folder.path} do not contain the relation {name}, only {', '.join(folder.relations)}.",
                hint=f"Add its data: {{{name!r}: …, {one!r}: {str(folder.path)!r}}}.",
            )


@dataclass(frozen=True)
class OnDisk:
    """One relation of a folder of blocks."""

    folder: Packed
    name: str

    @property
    def packed(self) -> PackedRelation:
        """Its manifest."""
        return self.folder.relations[self.name]

    @property
    def entities(self) -> Mapping[str, Labels]:
        axes = Model(self.folder.model).axes
        used = {Model(self.folder.model).axis(index) for index in self.packed.indices}
        return {axis: self.folder.entities[axis] for axis in axes if axis in used}

    def check(self, equation: Equation, model: Model) -> None:
        """Refuse blocks of another relation, and equations that cannot be summed from disk."""
        if self.name not in self.folder.relations:
            _check_relations(model, self.folder)
        packed, place = self.packed, TableLocation(self.name)
        then = Model(self.folder.model)
        axes, before = [model.axis(i) for i in equation.indices], [then.axis(i) for i in packed.indices]
        if (equation.indices, axes) != (packed.indices, before):
            raise DataError(
                f"the blocks in {self.folder.path} have other indices: {self.name}[{', '.join(packed.indices)}].",
                location=place,
                hint="Write the equation with these indices and axes, or pack again for this model.",
            )

    def bound(self, equation: Equation, names: Mapping[str, Labels]) -> BoundRelation:
        indices, groups = equation.indices, groups_of(equation)
        shape = tuple(len(names[index]) for index in indices)
        packed = self.packed.sized(shape)
        missing, aside = dict(packed.missing), dict(packed.hidden)
        rule = _rule(packed, equation, together(missing, aside, names))
        weights = _observed(packed, groups, rule, together(missing, aside, names))
        axes = [names[index].axis for index in indices]
        return BoundRelation(
            name=self.name,
            indices=indices,
            shape=shape,
            links=LinksOnDisk.of(packed, groups),
            weights=weights,
            likelihood=packed.likelihood,
            likelihood_by=packed.likelihood_by,
            observed_cells=packed.observed_cells,
            seen=packed.seen,
            summed=packed.summed,
            structural_zeros=find_structural_zeros(weights, axes, missing, aside),
            columns=dict(packed.columns),
            value=packed.options["value"],
            self_links=packed.self_links,
            open_weight=packed.options["weight"] == AUTO,
            groups=groups,
            dropped_self_links=packed.dropped_self_links,
            rule=rule,
        )


def _observed(packed: PackedRelation, groups: Groups, rule: Rule, hidden: Tables) -> Weights:
    """M everywhere: the extra weight of listed cells is a table on disk."""
    indices, shape, unlisted = packed.indices, packed.shape, rule.unlisted
    universe = packed.seen if rule.unseen == "missing" else {}
    terms: tuple[Term, ...] = ()
    if unlisted > 0:
        terms = (open_weights(indices, shape, universe, hidden) * (unlisted * packed.weight)).terms
    tables = [Weighing(unlisted, rule.zero, sign) for sign in (-1.0, 1.0)] if has_own_weights(packed) else []
    for table in tables:
        cells = CellsOnDisk(packed, groups).weighing(table)
        if _is_anything(cells):
            terms += (Term(table.sign * packed.weight, {}, TableOnDisk.of(cells)),)
    if unlisted < 1 and not tables:
        listed = TableOnDisk.of(CellsOnDisk(packed, groups, listed=True))
        terms += (Term((1.0 - unlisted) * packed.weight, {}, listed),)
    return Weights(indices, shape, terms)


def _is_anything(cells: CellsOnDisk) -> bool:
    """Whether a table of weights has nonzeros; takes at most one pass over the blocks."""
    table, own = cast(Weighing, cells.table), cells.packed.has_weights
    return any(table((), piece.values, piece.weights if own else None).any() for piece in cells.pieces(CHUNK_ROWS))


def _unlisted(packed: PackedRelation) -> float:
    """Weight of a cell that is neither listed nor hidden."""
    observed = packed.options["observed"]
    return {"all": 1.0, "listed": 0.0}[observed] if isinstance(observed, str) else float(observed)


def _rule(packed: PackedRelation, equation: Equation, hidden: Tables) -> Rule:
    """Observation of cells of new entities, as in `bind`."""
    observed, said = packed.options["observed"], packed.options
    universe = packed.seen if said["unseen"] == "missing" else {}
    return Rule(
        _unlisted(packed),
        1.0 if isinstance(observed, str) else float(observed),
        packed.weight,
        said["unseen"],
        packed.self_links,
        bool(equation.doubled or said["self_links"] == "missing"),
        {index: vector for index, vector in universe.items() if not vector.all()},
        {over: coords for over, coords in hidden.items() if len(over) < len(equation.indices)},
    )


def in_memory(relation: BoundRelation, names: Mapping[str, Labels]) -> BoundRelation:
    """A relation with its links read from blocks into memory; `names`: by index."""
    if not isinstance(relation.links, LinksOnDisk) or relation.rule is None:
        return relation
    packed, rule, indices = relation.links.disk.packed, relation.rule, relation.indices
    coords, values, own = CellsOnDisk(packed, relation.groups, listed=True).read()
    if not packed.has_weights and packed.zeros:
        own = np.where(values > 0, 1.0, rule.zero)
    universe = packed.seen if rule.unseen == "missing" else {}
    hidden = together(dict(packed.missing), dict(packed.hidden), names)
    listed = CSFIndex.of(indices, relation.shape, coords)
    M = observe(
        indices, relation.shape, listed, own, rule.unlisted, universe, hidden, rule.weight, relation.groups
    )  # fmt: skip
    fibres, weights = listed, M.listed
    if packed.zeros:
        there = values > 0
        fibres, values, weights = CSFIndex.of(indices, relation.shape, coords[there]), values[there], M.listed[there]
    return replace(relation, links=LinksInMemory(fibres, narrow(values), weights), weights=M.weights)


def asks_for_weights(data: Any) -> bool:
    """Whether a folder of blocks among the data has a relation with `weight="auto"`."""
    given = data.values() if isinstance(data, Mapping) else [data]
    folders = [one.path if isinstance(one, Packed) else one for one in given if _is_folder(one)]
    return any(said.get("open_weight") for one in folders for said in read_manifest(Path(one))["relations"].values())
