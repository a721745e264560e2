"""`plait.hide`: some cells of a relation, chosen at random, put aside as a test."""

import math
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait.data.along import along
from plait.data.arrays import is_sparse
from plait.data.bind import BoundRelation
from plait.data.keys import Array, columns_of, find, pack_pair
from plait.data.tables import TableSource, frame_of, is_table
from plait.errors import DataError, SettingError, suggestion
from plait.evaluation.listing import MOST_CELLS, cells_under, observed_cells
from plait.evaluation.masking import labelled, masked
from plait.evaluation.split import Split
from plait.evaluation.subject import Subject, understood
from plait.evaluation.thinning import thinned
from plait.evaluation.twins import LeakWarning, find_twins, has_matches, hidden_by, leak_message, twins_table
from plait.forked import refuse_in_fork
from plait.model import Model
from plait.settings import one_of

WORDS = ("cells", "links", "thin")


@dataclass(frozen=True, eq=False)
class Chosen:
    """What is hidden: coordinates (n, k) by some indices; the cells of the test (m, order); whether zeros are among
    them; and out of how many cells, links, entities or pairs (what) how many were chosen.
    """

    hidden: dict[tuple[str, ...], Array]
    cells: Array
    with_zeros: bool
    what: str
    chosen: int
    candidates: int
    observed: float | None = None


def hide(
    data: Any,
    relation: str | None = None,
    *,
    fraction: float,
    by: str | Sequence[str] = "cells",
    seed: int | None = None,
    model: Model | str | None = None,
    twins: str = "report",
    labels: Mapping[str, Sequence[Any]] | None = None,
) -> Split:
    """Hide a part of a relation, so that a fit of the rest can be evaluated: ``train, test = plait.hide(…)``.

    data: a table, an array or a `plait.Relation`; or a dict of them as for `plait.fit`, of which `relation` names the
    one to hide from. train is what to fit: a `plait.Relation`, or the dict with that one replaced; every option of the
    original stays. test is a table of the same kind as came in (polars for arrays): the indices and `value`.

    fraction: how much to hide, over 0 and under 1; exactly that share, to the nearest whole number. by: of what.

    - "cells": of all observed cells, links and zeros alike. The test has both. For tensors that can be listed (33
      million cells), and for observed="listed" whatever their size.
    - "links": of the links; all zeros stay observed. The test has links only.
    - "thin": for tensors too large to list: of the links, and all zeros weigh 1 − fraction of what they did, so that
      links and zeros are hidden in equal shares. Nobody could list the hidden zeros, so a hidden link weighs what all
      other cells without a known link do: nothing tells it from them. The test has links only.
    - ("index", "user"): of the users, all whose cells in this relation are hidden: cold start. The test has their
      links, and their zeros where they can be listed.
    - ("pair", "user", "place"): of such pairs (or triples, …), for all values of the other indices.

    Nothing of the values of hidden cells reaches a fit of train. Except by "thin" they are missing, neither 0 nor 1;
    their rows stay in the table only so that their names are known, and are listed in `hidden=`. The weights of all
    other cells are what they were; an entity whose links are all hidden keeps its observed zeros.

    twins: what to do about links that give hidden ones away. In another relation of the dict, or in this one as mirror
    images, they agree with a hidden link on all indices that the two have in common (two or more; by name, or by axis
    where `model` is given, which knows `friend: user`).

    - "report": warn (`LeakWarning`) and list them in `split.twins`.
    - "hide": hide them too, and with them all cells that agree with a hidden cell, links or zeros alike: which cells
      are gone must not tell which hidden ones are links. So by "links" and "thin", which choose links only, as many
      zeros are chosen with them, at random, and are in the test too: judge by these, not by non-links drawn later,
      whose twins are still there.
    - "ignore": neither.

    model: a `plait.Model` or its text: names the dimensions of arrays, and says which indices share an axis. labels: as
    for `plait.fit`, where arrays have names or entities are declared. seed: of the choice; None draws one, kept as
    `split.seed`.
    """
    refuse_in_fork("plait.hide")
    _check(fraction, seed, twins)
    subject = understood(data, relation, model, labels)
    over = _by(by, subject.bound)
    seed = secrets.randbits(32) if seed is None else int(seed)
    rng = np.random.default_rng(seed)
    chosen = _choose(subject, over, fraction, rng)
    if twins == "hide" and over in ("links", "thin") and has_matches(subject):
        chosen = _beside_decoys(subject, chosen, rng)
    values = _values(subject.bound, chosen.cells)
    links = chosen.cells[values > 0]
    found = find_twins(subject, links, chosen.hidden) if twins != "ignore" else []
    if found and twins == "report":
        warnings.warn(leak_message(found, subject.name, len(links)), LeakWarning, stacklevel=2)
    more = hidden_by(subject, chosen.hidden) if twins == "hide" else {}
    return Split(
        train=_train(subject, chosen, more),
        test=_test(subject, chosen.cells, values),
        twins=None if twins == "ignore" else twins_table(found, twins == "hide"),
        relation=subject.name,
        by=over,
        fraction=float(fraction),
        seed=seed,
        what=chosen.what,
        chosen=chosen.chosen,
        candidates=chosen.candidates,
        links=len(links),
        zeros=len(values) - len(links) if chosen.with_zeros else None,
    )


def _check(fraction: Any, seed: Any, twins: Any) -> None:
    number = isinstance(fraction, (int, float, np.floating)) and not isinstance(fraction, bool)
    if not number or not 0 < fraction < 1:
        raise SettingError(f"fraction must be over 0 and under 1, got {fraction!r}.\nGive 0.2 to hide a fifth.")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise SettingError(f"seed must be a whole number, 0 or more, got {seed!r}.")
    one_of("twins", twins, ("report", "hide", "ignore"))


def _by(by: Any, bound: BoundRelation) -> str | tuple[str, ...]:
    """One of the words, or the indices whose entities, pairs, … are hidden."""
    if isinstance(by, str):
        if by not in WORDS:
            near = suggestion(by, WORDS)
            example = f'("index", {bound.indices[0]!r})' if bound.indices else '("index", …)'
            raise SettingError(
                f"by is {by!r}.\n{near}It is {', '.join(map(repr, WORDS))}, or a tuple of indices such as {example}."
            )
        return by
    over = tuple(by[1:] if len(by) > 1 and by[0] in ("index", "pair") else by) if isinstance(by, Sequence) else ()
    for index in over:
        if index not in bound.indices:
            raise SettingError(
                f"by names {index!r}, which is no index of {bound.name}.\n"
                f"{suggestion(index, bound.indices)}It has {', '.join(bound.indices) or 'none'}."
            )
    if not over or len(set(over)) < len(over):
        raise SettingError(f"by is {by!r}.\nName each index once: ('index', 'user') or ('pair', 'user', 'place').")
    return tuple(index for index in bound.indices if index in over)


# --- choosing


def _choose(subject: Subject, by: str | tuple[str, ...], fraction: float, rng: np.random.Generator) -> Chosen:
    if not len(subject.bound.links):
        raise DataError(f"{subject.name}: there is no observed link, so nothing can be tested.\nGive data with links.")
    if isinstance(by, tuple):
        return _choose_slices(subject, by, fraction, rng)
    ways: dict[str, Callable[..., Chosen]] = {"cells": _choose_cells, "links": _choose_links, "thin": _choose_thin}
    return ways[by](subject, fraction, rng)


def _choose_cells(subject: Subject, fraction: float, rng: np.random.Generator) -> Chosen:
    bound = subject.bound
    cells = observed_cells(bound.weights)
    if cells is None:
        raise SettingError(
            f'by="cells" lists all cells, but {bound.name} has {bound.total_cells:,}, over {MOST_CELLS:,}.\n'
            f'Use by="thin": it hides links and zeros in equal shares without listing them.'
        )
    chosen = cells[_some(len(cells), fraction, rng, f"observed cells of {bound.name}")]
    return Chosen({bound.indices: chosen}, chosen, True, "observed cells", len(chosen), len(cells))


def _choose_links(subject: Subject, fraction: float, rng: np.random.Generator) -> Chosen:
    bound = subject.bound
    count = len(bound.links)
    chosen = bound.cells[_some(count, fraction, rng, f"links of {bound.name}")]
    return Chosen({bound.indices: chosen}, chosen, False, "links", len(chosen), count)


def _choose_thin(subject: Subject, fraction: float, rng: np.random.Generator) -> Chosen:
    relation, name = subject.relation, subject.name
    tabular = is_table(relation.data)
    if relation.observed == "listed" and (tabular or is_sparse(relation.data)):
        raise SettingError(
            f'by="thin" weighs the zeros that {name} does not list, but with observed="listed" these are missing.\n'
            f'Use by="cells": it hides listed cells, however large the tensor.'
        )
    if isinstance(relation.weight, str):
        _refuse_weighted_zeros(subject)
    links = _choose_links(subject, fraction, rng)
    weight = 1.0 if isinstance(relation.observed, str) else float(relation.observed)
    return Chosen(
        links.hidden, links.cells, False, links.what, links.chosen, links.candidates, weight * (1.0 - fraction)
    )


def _beside_decoys(subject: Subject, links: Chosen, rng: np.random.Generator) -> Chosen:
    """The chosen links and as many zeros: what is hidden in other relations must not tell links from zeros."""
    bound = subject.bound
    cells = observed_cells(bound.weights)
    if cells is None:  # too many to list, so hardly any that is drawn is a link, or missing
        cells = np.stack([rng.integers(0, size, 4 * len(links.cells)) for size in bound.shape], axis=1)
        cells = cells[bound.weights.at(cells) > 0].astype(links.cells.dtype)
    zeros = np.unique(cells[_values(bound, cells) == 0], axis=0)
    zeros = zeros[rng.permutation(len(zeros))[: len(links.cells)]]
    cells = np.unique(np.concatenate([links.cells, zeros]), axis=0)
    return replace(links, hidden={bound.indices: cells}, cells=cells, with_zeros=True)


def _refuse_weighted_zeros(subject: Subject) -> None:
    """Listed zeros with weights of their own would not be thinned by the weight of all other zeros."""
    source = subject.relation.read(subject.name, subject.bound.indices)
    assert isinstance(source, TableSource)
    assert source.weights is not None
    observed = subject.relation.observed
    zero = 1.0 if isinstance(observed, str) else float(observed)
    if ((source.values == 0) & (source.weights != zero)).any():
        raise SettingError(
            f'by="thin" gives all zeros of {subject.name} one weight, but its weight column gives some their own.\n'
            f'Use by="links", or leave out the rows of zeros.'
        )


def _choose_slices(subject: Subject, over: tuple[str, ...], fraction: float, rng: np.random.Generator) -> Chosen:
    bound = subject.bound
    sizes = [bound.weights.sizes[index] for index in over]
    if math.prod(sizes) > MOST_CELLS:
        raise SettingError(
            f"there are {math.prod(sizes):,} of {', '.join(over)} in {bound.name}, over {MOST_CELLS:,}.\n"
            f'Hide entities of one index, or use by="thin".'
        )
    what = f"entities of {over[0]}" if len(over) == 1 else f"combinations of {', '.join(over)}"
    candidates = np.argwhere(along(bound.weights, over) > 0)
    coords = candidates[_some(len(candidates), fraction, rng, f"{what} in {bound.name}")]
    places = [bound.indices.index(index) for index in over]
    cells = cells_under(bound.weights, places, coords)
    test = _links_under(bound, places, coords) if cells is None else cells
    return Chosen({over: coords}, test, cells is not None, what, len(coords), len(candidates))


def _links_under(bound: BoundRelation, places: Sequence[int], coords: Array) -> Array:
    """The links with one of the coordinates at these places."""
    cells, sizes = bound.cells, [bound.shape[k] for k in places]
    mine, theirs = pack_pair(columns_of(cells[:, places]), columns_of(coords), sizes, (len(cells), len(coords)))
    return cells[find(mine, theirs)[1]]


def _some(count: int, fraction: float, rng: np.random.Generator, what: str) -> Array:
    """Which of so many to hide, in order: exactly the fraction, to the nearest whole number."""
    chosen = math.floor(fraction * count + 0.5)
    if chosen == 0 or chosen == count:
        share = "none" if chosen == 0 else "all"
        raise SettingError(
            f"a fraction of {fraction:g} of {count:,} {what} is {share} of them.\n"
            f"Give a {'larger' if chosen == 0 else 'smaller'} fraction, or more data."
        )
    return np.sort(rng.choice(count, chosen, replace=False, shuffle=False))


# --- what comes out


def _train(subject: Subject, chosen: Chosen, more: Mapping[str, Mapping[tuple[str, ...], Array]]) -> Any:
    """The relation, or the dict, without what is hidden."""
    own: dict[tuple[str, ...], Array] = dict(chosen.hidden)
    for over, coords in more.get(subject.name, {}).items():
        ordered = tuple(index for index in subject.bound.indices if index in over)
        coords = coords[:, [over.index(index) for index in ordered]]
        # A link and its mirror image may both be hidden, each the other's twin.
        own[ordered] = np.unique(np.concatenate([own[ordered], coords]), axis=0) if ordered in own else coords
    if chosen.observed is not None:
        links = thinned(subject, own.pop(subject.bound.indices), chosen.observed)
        subject = replace(subject, relations={**subject.relations, subject.name: links})
    train = masked(subject, subject.name, own) if own else subject.relation
    if subject.given is None:
        return train
    others = {name: masked(subject, name, hidden) for name, hidden in more.items() if name != subject.name}
    return {**subject.given, subject.name: train, **others}


def _values(bound: BoundRelation, cells: Array) -> Array:
    """X at some cells, 0 where there is no link."""
    counts = (len(cells), len(bound.links))
    needles, keys = pack_pair(columns_of(cells), columns_of(bound.cells), bound.shape, counts)
    at, known = find(needles, keys)
    return np.where(known, bound.values[at], 0.0)


def _test(subject: Subject, cells: Array, values: Array) -> Any:
    """The hidden cells as a table of the kind that came in."""
    import narwhals as nw
    import polars as pl

    columns = labelled(subject, subject.bound.indices, cells)
    data = subject.relation.data
    table = pl.DataFrame({**columns, "value": values})
    if not is_table(data):
        return table
    backend = frame_of(data, subject.name).implementation
    if backend.is_polars():
        return table
    plain = {
        name: column.to_numpy() if column.dtype.is_numeric() else column.to_list() for name, column in columns.items()
    }
    return nw.from_dict({**plain, "value": values}, backend=backend).to_native()
