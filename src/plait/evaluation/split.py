"""What `plait.train_test_split` gives: data to fit, and what was hidden from them.

`plait.train_test_split`: some cells of a relation put aside as a test.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plait._typing import AnyArray
from plait.data.sources.tables import frame_of, is_table
from plait.errors import ParameterError, one_of, warn_of
from plait.evaluation.leakage import find_leaks, has_matches, hidden_by, leak_warning, leaks_table
from plait.evaluation.mask import labelled, masked, thinned
from plait.evaluation.split_target import SplitTarget, read_split_target
from plait.evaluation.strategies import ChosenCells, add_decoy_zeros, check_time, choose, parse_strategy
from plait.forked import refuse_in_fork
from plait.model import Model

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """``train, test = plait.train_test_split(…)``.

    train: a `plait.Relation`, or the dict of relations with some replaced. test: a table of the hidden cells by index,
    and their `value`. leaks: what gives hidden links away: a table with the columns relation, agree_on, hidden_links,
    leaks, example, removed; None where they were to be ignored. zeros: how many hidden zeros the test lists; None where
    only links are listed, though zeros may be hidden too. chosen, candidates, what: how many were chosen to be hidden,
    out of how many cells, links, entities or pairs. indices: of the relation, as they were read_split_target.
    """

    train: Any
    test: Any
    leaks: "pl.DataFrame | None"
    relation: str
    by: str | tuple[str, ...]
    fraction: float
    seed: int
    what: str
    chosen: int
    candidates: int
    links: int
    zeros: int | None
    indices: tuple[str, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.train, self.test))

    def __repr__(self) -> str:
        return str(self)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What there is to say of it: a word and what it is, a line each."""
        zeros = "no zeros listed" if self.zeros is None else f"{self.zeros:,} zeros"
        found = [
            ("hidden", f"{self.chosen:,} of {self.candidates:,} {self.what}, seed {self.seed}"),
            ("test", f"{self.links:,} links, {zeros}"),
        ]
        for row in self.leaks.iter_rows(named=True) if self.leaks is not None else ():
            state = "removed too" if row["removed"] else "known to a fit"
            words = f"{row['leaks']:,} in {row['relation']} agree on {row['agree_on']} with {row['hidden_links']:,}"
            found.append(("leaks", f"{words} hidden links; {state}"))
        if self.leaks is not None and not len(self.leaks):
            found.append(("leaks", "none"))
        return found

    def __str__(self) -> str:
        subject = f"{self.relation}[{', '.join(self.indices)}]"
        first = f"Split of {subject}: {self.chosen:,} of {self.candidates:,} {self.what} hidden, seed {self.seed}"
        return "\n  ".join([first, *(f"{word:<6} {words}" for word, words in self.facts[1:])])

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_split

        return render(describe_split(self))


def train_test_split(
    data: Any,
    relation: str | None = None,
    *,
    fraction: float | None = None,
    by: str | Sequence[str] = "cells",
    time: str | None = None,
    count: int | None = None,
    seed: int | None = None,
    model: Model | str | None = None,
    leakage: Literal["warn", "remove", "ignore"] = "warn",
    entities: Mapping[str, Sequence[Any]] | None = None,
) -> Split:
    """Hide a part of a relation, so that a fit of the rest can be evaluated: ``train, test =
    plait.train_test_split(…)``.

    data: a table, an array or a `plait.Relation`; or a dict of them as for `plait.fit`, of which `relation` names the
    one to hide from. Without a model the columns of a table are its indices, but for `value` and what a
    `plait.Relation` names; a column of numbers that may as well be values is refused. train is what to fit: a
    `plait.Relation`, or the dict with that one replaced; every option of the original stays. test is a table of the
    same kind as came in (polars for arrays): the indices and `value`.

    fraction: how much to hide, over 0 and under 1; exactly that share, to the nearest whole number. by: of what.

    - "cells": of all observed cells, links and zeros alike. The test has both. For tensors that can be listed (33
      million cells), and for observed="listed" whatever their size.
    - "links": of the links; all zeros stay observed. The test has links only.
    - "thinned_links": for tensors too large to list: of the links, and all zeros weigh 1 − fraction of what they
      did, so that links and zeros are hidden in equal shares. Nobody could list the hidden zeros, so a hidden link
      weighs what all other cells without a known link do: nothing tells it from them. The test has links only.
    - ("index", "user"): of the users, all whose cells in this relation are hidden: cold start. The test has their
      links, and their zeros where they can be listed.
    - ("pair", "user", "place"): of such pairs (or triples, …), for all values of the other indices.
    - "time": of the links, the latest by the column `time`: what will come? Among equal times at random.
    - ("leave_last_out", "user"): no fraction, but for each user the last link by the column `time`, or one at
      random without it; the last `count` if told. Users who have no more than these keep them all, so compare
      within users (`target=`): that one is tested at all tells of another link.

    time: a column of the table with numbers, dates or text in the order of time; it is taken out of train, unless it is
    an index of the relation, too. A hidden link by "time" or "leave_last_out" becomes a zero like all others, and
    all zeros weigh less by the share of links that is hidden, as by "thinned_links", for the same reason. With
    observed="listed" listed zeros have times, too, and are hidden like links; what is hidden is missing, as all
    other cells are. Other relations of the dict are not cut: what came later there is known.

    Nothing of the values of hidden cells reaches a fit of train. Except by "thinned_links", "time" and
    "leave_last_out" they are missing, neither 0 nor 1; their rows stay in the table only so that their names are
    known, and are listed in `hidden=`. The weights of all other cells are what they were; an entity whose links are
    all hidden keeps its observed zeros.

    leakage: what to do about links that give hidden ones away. In another relation of the dict, or in this one as
    mirror images, they agree with a hidden link on all indices that the two have in common (two or more; by name, or by
    axis where `model` is given, which knows `friend: user`).

    - "warn": warn (`LeakWarning`) and list them in `split.leaks`.
    - "remove": hide them too, and with them all cells that agree with a hidden cell, links or zeros alike: which cells
      are gone must not tell which hidden ones are links. So where only links are chosen ("links", "thinned_links",
      …), as many zeros are chosen with them, at random, and are in the test too: judge by these, not by non-links
      drawn later, whose leaks are still there.
    - "ignore": neither.

    model: a `plait.Model` or its text: names the dimensions of arrays, and says which indices share an axis, and where
    the two ways to write a pair are one cell (`U[user, r] U[friend, r]`): it then counts once, is hidden both ways, is
    in the test once, and is no leak of itself. Hiding the last link of each user spares pairs that either of the two
    cannot do without. entities: as for `plait.fit`, where arrays have names or entities are declared. seed: of the
    choice; None draws one, kept as `split.seed`.
    """
    refuse_in_fork("plait.train_test_split")
    _check(seed, leakage)
    check_time(by, time)
    subject = read_split_target(data, relation, model, entities, time)
    way = parse_strategy(by, fraction, time, count, subject.bound)
    seed = secrets.randbits(32) if seed is None else int(seed)
    rng = np.random.default_rng(seed)
    chosen = choose(subject, way, rng)
    if leakage == "remove" and way.word != "slices" and not chosen.with_zeros and has_matches(subject):
        chosen = add_decoy_zeros(subject, chosen, rng)
    values = subject.bound.values_at(chosen.cells)
    links = chosen.cells[values > 0]
    found = find_leaks(subject, links, chosen.hidden) if leakage != "ignore" else []
    if found and leakage == "warn":
        warn_of([leak_warning(found, subject.name, len(links))])
    more = hidden_by(subject, chosen.hidden) if leakage == "remove" else {}
    return Split(
        train=_train(subject, chosen, more),
        test=_test(subject, chosen.cells, values),
        leaks=None if leakage == "ignore" else leaks_table(found, leakage == "remove"),
        relation=subject.name,
        by=way.by,
        fraction=chosen.chosen / chosen.candidates if way.fraction is None else way.fraction,
        seed=seed,
        what=chosen.what,
        chosen=chosen.chosen,
        candidates=chosen.candidates,
        links=len(links),
        zeros=len(values) - len(links) if chosen.with_zeros else None,
        indices=subject.bound.indices,
    )


def _check(seed: Any, leakage: Any) -> None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise ParameterError.must_be("seed", "a whole number, 0 or more", seed)
    one_of("leakage", leakage, ("warn", "remove", "ignore"))


# --- what comes out


def _train(subject: SplitTarget, chosen: ChosenCells, more: Mapping[str, Mapping[tuple[str, ...], AnyArray]]) -> Any:
    """The relation, or the dict, without what is hidden."""
    own: dict[tuple[str, ...], AnyArray] = dict(chosen.hidden)
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


def _test(subject: SplitTarget, cells: AnyArray, values: AnyArray) -> Any:
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
