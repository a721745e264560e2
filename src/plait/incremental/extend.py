"""Extension of a fit by rows of new entities; its other rows stay."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from plait._typing import AnyArray, Array
from plait.codegen.layout import Layout
from plait.data.binding.known import Known
from plait.data.binding.self_links import all_of
from plait.data.observation.links import LinkArrays
from plait.data.observation.observed import Box, Rule
from plait.data.observation.pairs import Pairs
from plait.data.observation.structural_zeros import StructuralZeros, Tables
from plait.data.sparse.keys import columns_of, coordinate_type, pack
from plait.data.sparse.sorting import sort_cells
from plait.incremental.new_cells import NewCells
from plait.incremental.new_rows import Extension, Fresh
from plait.incremental.solve_rows import RowSlice, Solution
from plait.inference.gamma import Prior
from plait.inference.state import FactorSnapshot, MomentumState, Record, State
from plait.model.model import Model
from plait.storage.fitted import Factors, Fitted, Posterior, posterior_of, prior_of


def extend_state(fit: Fitted, growth: Extension, solution: Solution, record: Record | None) -> State:
    """State of a member with the rows of a solution."""
    state = fit.state
    factors, priors, exposed = dict(state.factors), dict(state.priors), dict(state.exposed)
    for name in dict.fromkeys(piece.factor for piece in solution.pieces):
        own = {piece: factor for piece, factor in solution.pieces.items() if piece.factor == name}
        pieces = {piece: FactorSnapshot.of(factor) for piece, factor in own.items()}
        factors[name] = joined(state.factors[name], pieces, layout_of(fit, growth, name, own))
        if name in priors:
            priors[name] = extend_prior(priors[name], state.factors[name].layout, factors[name].layout)
        if name in exposed:
            flags = {
                piece: np.broadcast_to(solution.exposed[piece], factor.layout.rows) for piece, factor in own.items()
            }
            exposed[name] = _joined_rows(
                exposed[name], flags, state.factors[name].layout, factors[name].layout, own
            ).astype(bool)
    history = list(state.history) + ([record] if record is not None else [])
    return replace(state, factors=factors, priors=priors, exposed=exposed, history=history, momentum=MomentumState())


def layout_of(fit: Fitted, growth: Extension, name: str, pieces: Mapping[RowSlice, Any]) -> Layout:
    """Layout of a factor with its new entities."""
    whole, factor = fit.state.factors[name].layout, fit.model.factor(name)
    sizes = tuple(len(growth.entities[index]) for index in factor.visible)
    ranks = whole.sizes[len(whole.visible) :]
    if whole.pairs is None:
        return replace(whole, sizes=(*sizes, *ranks))
    coords = [whole.pairs.coords]  # type: ignore[attr-defined]
    for piece, own in pieces.items():
        starts = [growth.old[index] if new else 0 for index, new in zip(factor.visible, piece.pattern)]
        coords.append(own.layout.pairs.coords + np.array(starts, own.layout.pairs.coords.dtype))
    cells = np.concatenate([part.astype(coordinate_type(sizes)) for part in coords])
    cells = sort_cells(cells, sizes)[1]
    return Layout.of_pairs(
        name, Pairs(factor.indices, factor.visible, sizes, cells), factor.latent, ranks, whole.scaled
    )


def joined(old: FactorSnapshot, pieces: Mapping[RowSlice, FactorSnapshot], layout: Layout) -> FactorSnapshot:
    """Parameters of a factor with the rows of its pieces; stored as before."""
    arrays: list[Array | None] = []
    for n, array in enumerate(old[1:], start=1):
        if array is None:
            arrays.append(None)
            continue
        parts = {piece: _as_stored(kept[n], array.dtype) for piece, kept in pieces.items()}
        arrays.append(_joined_rows(array, parts, old.layout, layout, pieces))
    return FactorSnapshot(layout, *arrays)


def _as_stored(array: Any, kind: Any) -> Array:
    return np.asarray(array, kind)


def _joined_rows(
    old: AnyArray, parts: Mapping[RowSlice, AnyArray], then: Layout, now: Layout, pieces: Mapping[RowSlice, Any]
) -> AnyArray:
    """Stored rows (n_rows, …) of a factor and of its pieces in one array."""
    if then.pairs is not None:
        return _joined_pairs(old, parts, then, now, pieces)
    rest = old.shape[1:]
    split = len(then.visible)
    before, after = then.sizes[:split], now.sizes[:split]
    if split == 1:
        (part,) = parts.values()
        return np.concatenate([old, part])
    whole = np.empty((*after, *rest), old.dtype)
    whole[tuple(slice(0, n) for n in before)] = old.reshape(*before, *rest)
    for piece, part in parts.items():
        place = tuple(slice(n, None) if new else slice(0, n) for n, new in zip(before, piece.pattern))
        whole[place] = part.reshape(whole[place].shape)
    return whole.reshape(-1, *rest)


def _joined_pairs(
    old: AnyArray, parts: Mapping[RowSlice, AnyArray], then: Layout, now: Layout, pieces: Mapping[RowSlice, Any]
) -> AnyArray:
    """The same for a factor over pairs: rows of pairs, then shared rows."""
    pairs: Any = now.pairs
    before: Any = then.pairs
    whole = np.empty((pairs.rows, *old.shape[1:]), old.dtype)
    own = pairs.find(columns_of(before.coords))
    whole[own] = old[: len(before)]
    whole[len(pairs) : len(pairs) + before.sizes[0]] = old[len(before) :]
    for piece, part in parts.items():
        mine: Any = pieces[piece].layout.pairs
        starts = [n if new else 0 for n, new in zip(before.sizes, piece.pattern)]
        columns = [column.astype(np.int64) + start for column, start in zip(columns_of(mine.coords), starts)]
        whole[pairs.find(columns)] = part[: len(mine)]
        if piece.pattern[0]:
            whole[len(pairs) + before.sizes[0] :] = part[len(mine) :]
    return whole


def extend_prior(prior: Prior, then: Layout, now: Layout) -> Prior:
    """A prior per entity with the average for new ones; others unchanged."""
    if then.pairs is not None:
        return prior
    arrays = []
    for array in (prior.concentration, prior.mean):
        for axis in range(len(then.visible)):
            if array.shape[axis] > 1 or then.sizes[axis] == 1 < now.sizes[axis] == array.shape[axis]:
                more = now.sizes[axis] - array.shape[axis]
                if more:
                    average = array.mean(axis=axis, keepdims=True)
                    array = np.concatenate([array, np.repeat(average, more, axis=axis)], axis=axis)
        arrays.append(array)
    A, B = arrays
    return Prior(A, B, prior.chain)


def extend_posterior(fit: Fitted, name: str, state: State, growth: Extension, solution: Solution) -> Posterior:
    """Public posterior with new rows; old rows stay bitwise identical."""
    kept, scale, old = state.factors[name], (fit.state.log_scales or {}).get(name, 0.0), fit.factors[name]
    own = [(piece, factor) for piece, factor in solution.pieces.items() if piece.factor == name]
    if old.pairs is not None or len(own) > 1 or len(kept.layout.visible) > 1:
        return posterior_of(kept, scale)
    dtype = kept.parameters[0].dtype if kept.parameters[0] is not None else np.dtype(np.float64)
    ((_, factor),) = own
    made = FactorSnapshot.of(factor)
    rows = posterior_of(
        FactorSnapshot(made.layout, *(None if a is None else np.asarray(a, dtype) for a in made[1:])), scale
    )
    axis = old.indices.index(kept.layout.visible[0])
    arrays = []
    for word in ("concentration", "scale", "mean", "exp_mean_log"):
        array = np.concatenate([getattr(old, word), getattr(rows, word)], axis=axis)
        array.flags.writeable = False
        arrays.append(array)
    C, D, mean, exp_mean_log = arrays
    return Posterior(old.indices, C, D, mean, exp_mean_log)


# --- known data


def extend_known(
    model: Model, name: str, known: Known, growth: Extension, fresh: Fresh | None, boxes: Sequence[NewCells]
) -> Known:
    """Known links of a relation with new links and new cells."""
    indices = model.equation(name).indices
    shape = tuple(len(growth.entities[index]) for index in indices)
    rule = known.rule
    more = tuple(Box(block.starts, block.weights) for block in boxes)
    kept = known.boxes
    return replace(
        known,
        shape=shape,
        links=known.links.sized(shape).plus(_links_of(boxes, len(shape))),
        structural_zeros=StructuralZeros(indices, shape, _structural_zeros(model, indices, known, growth)),
        rule=None if rule is None else _rule(model, indices, rule, growth, fresh),
        boxes=(*kept, *more),
    )


def _links_of(boxes: Sequence[NewCells], order: int) -> LinkArrays:
    """Links of boxes, by the rows of the whole."""
    cells, values, weights = ([array] for array in LinkArrays.none(order))
    for block in boxes:
        cells.append(block.listed[block.links] + np.array(block.starts, block.listed.dtype))
        values.append(block.values[block.links])
        weights.append(block.own[block.links])
    return LinkArrays(np.concatenate(cells), np.concatenate(values), np.concatenate(weights))


def _structural_zeros(model: Model, indices: tuple[str, ...], known: Known, growth: Extension) -> Tables:
    """Structural zeros; self-links of new entities are added where self-links are excluded."""
    tables = dict(known.structural_zeros.tables)
    for over, coords in known.structural_zeros.tables.items():
        alike = len(over) == 2 and model.axis(over[0]) == model.axis(over[1])
        if alike and 2 * np.count_nonzero(coords[:, 0] == coords[:, 1]) >= growth.old[over[0]]:
            tables[over] = _with_new(coords, growth.old[over[0]], len(growth.entities[over[0]]))
    return tables


def _with_new(coords: AnyArray, old: int, now: int) -> AnyArray:
    """Sorted pairs with the self-links of new entities."""
    return np.concatenate([coords, all_of(now)[old:].astype(coords.dtype)])


def _rule(model: Model, indices: tuple[str, ...], rule: Rule, growth: Extension, fresh: Fresh | None) -> Rule:
    """The rule with entities that are new to the relation, and cells hidden by new rows."""
    seen = {}
    for index in indices:
        rows = np.zeros(0, np.int64) if fresh is None else fresh.mentioned[index]
        if rule.unseen == "missing" and (index in rule.seen or growth.new(index)):
            vector = np.zeros(len(growth.entities[index]), bool)
            vector[: growth.old[index]] = rule.seen.get(index, True)
            vector[rows] = True
            if not vector.all():
                seen[index] = vector
    hidden = dict(rule.hidden)
    for over, coords in rule.hidden.items():
        if over in model_pairs(model, indices):
            hidden[over] = _with_new(coords, growth.old[over[0]], len(growth.entities[over[0]]))
    for over, coords in ({} if fresh is None else fresh.hidden).items():
        if len(over) < len(indices):
            whole = np.concatenate([hidden[over], coords]) if over in hidden else coords
            sizes = [len(growth.entities[index]) for index in over]
            hidden[over] = whole[np.unique(pack(columns_of(whole), sizes, len(whole)), return_index=True)[1]]
    return replace(rule, seen=seen, hidden=hidden)


def model_pairs(model: Model, indices: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Pairs of a relation's indices at which a factor occurs twice."""
    return {pair for equation in model.equations if equation.indices == indices for pair in equation.doubled}


def mark_of(fit: Fitted, growth: Extension, fresh: Mapping[str, Fresh]) -> str:
    """Fingerprint of the fit's data together with new rows."""
    digest = hashlib.blake2b(fit.fingerprint.encode(), digest_size=16)
    for axis in fit.model.axes:
        names = growth.entities[axis].names[growth.old[axis] :]
        digest.update("\0".join([axis, *map(str, names.to_list())]).encode("utf-8", "surrogatepass"))
    for name, rows in sorted(fresh.items()):
        digest.update(name.encode())
        for array in (rows.entries.coords, rows.entries.values, rows.weights):
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def public(fit: Fitted, state: State, growth: Extension, solution: Solution) -> tuple[Factors, dict[str, Any]]:
    """Public posteriors and priors of a member."""
    extended, priors = dict[str, Posterior](), dict(fit.prior)
    for name in dict.fromkeys(piece.factor for piece in solution.pieces):
        extended[name] = extend_posterior(fit, name, state, growth, solution)
        if name in state.priors and state.priors[name] is not fit.state.priors.get(name):
            scale = (fit.state.log_scales or {}).get(name, 0.0)
            priors[name] = prior_of(state.factors[name].layout, state.priors[name], scale)
    return fit.factors | extended, priors
