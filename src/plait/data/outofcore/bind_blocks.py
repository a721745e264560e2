"""Blocks on disk as data of a model: alone, or beside tables in memory."""

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
from plait.data.observation.structural_zeros import Tables, close
from plait.data.observation.symmetry import Groups, groups_of
from plait.data.observation.terms import Term
from plait.data.observation.weights import Weights
from plait.data.outofcore.batches import Reader
from plait.data.outofcore.block_folder import read_manifest
from plait.data.outofcore.block_table import CellsOnDisk, LinksOnDisk, TableOnDisk, has_own_weights
from plait.data.outofcore.packed import Packed, PackedRelation
from plait.data.sources.relation import AUTO, Relation
from plait.data.sources.tables import is_scan
from plait.data.sparse.cell_draws import Weighing
from plait.data.sparse.csf import narrow
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.parallel import PIECE
from plait.errors import DataError, TableLocation
from plait.forked import refuse_in_fork
from plait.model.model import Equation, Model

READING = 1 << 28  # bytes that reading a table in batches may take, about


def bind_all(
    model: Model,
    data: Any,
    entities: Mapping[str, Sequence[Any]] | None = None,
    *,
    warn: bool = True,
) -> Data:
    """Data of a model, some or all of it in blocks: a folder, or relation -> table or folder."""
    if isinstance(data, (str, PathLike, Packed)):
        folder = data if isinstance(data, Packed) else Packed.open(data)
        _check_relations(model, folder)
        data = dict.fromkeys(model.relations, folder)
    if not isinstance(data, Mapping):
        return bind(model, data, entities, warn=warn)
    folders = {name: _opened(given) for name, given in data.items() if _is_folder(given)}
    elsewhere = {name: OnDisk(folder, name) for name, folder in folders.items() if name in model.relations}
    for name, one in elsewhere.items():
        one.check(model.equation(name), model)
    others = {name: given for name, given in data.items() if name not in elsewhere}
    return bind(model, others, entities, warn=warn, elsewhere=elsewhere, stream=_stream)


def _stream(relation: Relation, name: str, indices: tuple[str, ...]) -> Reader | None:
    """A table in files, gone through for its names: it is read again batch by batch, and never there as a whole."""
    data = relation.data
    if not is_scan(data) or not data.stays:
        return None
    refuse_in_fork(f"{name}, a table")
    reader = Reader(relation, name, indices, Path(), READING)
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
                f"the blocks in {folder.path} are of {', '.join(folder.relations)}; there is no relation {name}.",
                hint=f"Give its data next to them: {{{name!r}: …, {one!r}: {str(folder.path)!r}}}.",
            )


@dataclass(frozen=True)
class OnDisk:
    """One relation of a folder of blocks."""

    folder: Packed
    name: str

    @property
    def packed(self) -> PackedRelation:
        """What its manifest says."""
        return self.folder.relations[self.name]

    @property
    def entities(self) -> Mapping[str, Labels]:
        """The names of its axes."""
        axes = Model(self.folder.model).axes
        used = {Model(self.folder.model).axis(index) for index in self.packed.indices}
        return {axis: self.folder.entities[axis] for axis in axes if axis in used}

    def check(self, equation: Equation, model: Model) -> None:
        """Refuse blocks of another relation, and what cannot be summed from a disk."""
        if self.name not in self.folder.relations:
            _check_relations(model, self.folder)
        packed, place = self.packed, TableLocation(self.name)
        then = Model(self.folder.model)
        axes, before = [model.axis(i) for i in equation.indices], [then.axis(i) for i in packed.indices]
        if (equation.indices, axes) != (packed.indices, before):
            raise DataError(
                f"the blocks in {self.folder.path} are of {self.name}[{', '.join(packed.indices)}].",
                location=place,
                hint="Write the equation with these indices and axes, or pack again for this model.",
            )

    def bound(self, equation: Equation, names: Mapping[str, Labels]) -> BoundRelation:
        """The relation as a fit needs it."""
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
            observed_cells=packed.observed_cells,
            seen=packed.seen,
            summed=packed.summed,
            closed=close(weights, axes, missing, aside),
            columns=dict(packed.columns),
            value=packed.options["value"],
            self_links=packed.self_links,
            open_weight=packed.options["weight"] == AUTO,
            groups=groups,
            dropped_self_links=packed.dropped_self_links,
            rule=rule,
        )


def _observed(packed: PackedRelation, groups: Groups, rule: Rule, hidden: Tables) -> Weights:
    """M everywhere: what listed cells have besides others is a table on disk."""
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
    """Whether a table of weights has anything but zeros; a pass over the blocks at most."""
    table, own = cast(Weighing, cells.table), cells.packed.has_weights
    return any(table((), piece.values, piece.weights if own else None).any() for piece in cells.pieces(PIECE))


def _unlisted(packed: PackedRelation) -> float:
    """The weight of a cell that is neither listed nor hidden."""
    observed = packed.options["observed"]
    return {"all": 1.0, "listed": 0.0}[observed] if isinstance(observed, str) else float(observed)


def _rule(packed: PackedRelation, equation: Equation, hidden: Tables) -> Rule:
    """How cells of new entities would be observed, as `bind` has it."""
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
    """A relation as `bind` has it, its links read from blocks where they are there; names: by index."""
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
    """Whether a folder of blocks among the data has a relation whose weight is to be found."""
    given = data.values() if isinstance(data, Mapping) else [data]
    folders = [one.path if isinstance(one, Packed) else one for one in given if _is_folder(one)]
    return any(said.get("open_weight") for one in folders for said in read_manifest(Path(one))["relations"].values())
