"""Train–test split of a relation: `plait.train_test_split`."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plait._typing import AnyArray
from plait.data.sources.tables import POLARS, as_kind
from plait.errors import OF_SPLIT, ParameterError, one_of, refusing_unknown, warn_of
from plait.evaluation.leakage import Leak, find_leaks, has_matches, hidden_by, leak_warning, leaks_table
from plait.evaluation.mask import labelled, masked, thinned
from plait.evaluation.split_target import SplitTarget, read_split_target
from plait.evaluation.strategies import ChosenCells, add_decoy_zeros, check_time, choose, parse_strategy
from plait.forked import refuse_in_fork
from plait.model import Model

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Training data and held-out cells: ``train, test = plait.train_test_split(…)``.

    Attributes
    ----------
    train : Relation or dict of str to Relation
        Data to fit.
    test : table
        The held-out cells: one column per index, and ``value``.
    leaks : table or None
        Links that give held-out links away, with the columns ``relation``, ``agree_on``,
        ``hidden_links``, ``leaks``, ``example`` and ``removed``. ``None`` with
        ``leakage="ignore"``.
    relation : str
        Name of the relation.
    indices : tuple of str
        Its indices.
    by : str or tuple of str
        The strategy.
    fraction : float
        The fraction that was held out.
    seed : int
        Random seed.
    chosen, candidates : int
        Number of units that were held out, and of candidates.
    what : str
        The units that were chosen: cells, links, entities or pairs.
    links : int
        Number of links in ``test``.
    zeros : int or None
        Number of zeros in ``test``; ``None`` if only links are listed.

    Examples
    --------
    >>> split = plait.train_test_split({"visits": visits}, "visits", fraction=0.2, seed=0)
    >>> split.chosen, split.candidates
    (5, 25)
    >>> train, test = split
    >>> test.columns
    ['user', 'place', 'value']
    """

    train: Any
    test: Any
    leaks_found: "tuple[Leak, ...] | None"
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
    leaks_removed: bool = False
    kind: str = POLARS

    @property
    def leaks(self) -> "IntoDataFrame | None":
        """Links that give held-out links away, one row per relation.

        The columns are ``relation``, ``agree_on``, ``hidden_links``, ``leaks``, ``example`` and
        ``removed``. ``None`` with ``leakage="ignore"``.
        """
        leaks = self.leaks_found
        return None if leaks is None else as_kind(leaks_table(leaks, self.leaks_removed), self.kind)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.train, self.test))

    def __repr__(self) -> str:
        return str(self)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What there is to say of it: a word and what it is, a line each."""
        zeros = "no zeros listed" if self.zeros is None else f"{self.zeros:,} zeros"
        facts = [
            ("held out", f"{self.chosen:,} of {self.candidates:,} {self.what}, seed {self.seed}"),
            ("test", f"{self.links:,} links, {zeros}"),
        ]
        state = "removed too" if self.leaks_removed else "in the training data"
        for leak in self.leaks_found or ():
            words = f"{leak.leaks:,} in {leak.relation} match {leak.links:,} held-out links on {leak.agreeing}"
            facts.append(("leaks", f"{words}; {state}"))
        if self.leaks_found == ():
            facts.append(("leaks", "none"))
        return facts

    def __str__(self) -> str:
        name = f"{self.relation}[{', '.join(self.indices)}]"
        first = f"Split of {name}: {self.chosen:,} of {self.candidates:,} {self.what} held out, seed {self.seed}"
        return "\n  ".join([first, *(f"{word:<6} {words}" for word, words in self.facts[1:])])

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_split

        return render(describe_split(self))


@refusing_unknown("plait.train_test_split", OF_SPLIT)
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
    """Hold out a part of a relation as a test.

    Parameters
    ----------
    data : table, array, Relation or dict of these
        Data of one relation, or of all relations as for `plait.fit`.
    relation : str, default None
        The relation to split; required if ``data`` has several.
    fraction : float, default None
        Fraction to hold out, between 0 and 1. Required except by ``"leave_last_out"``.
    by : str or tuple of str, default "cells"
        What to hold out: ``"cells"``, ``"links"``, ``"thinned_links"``, ``"time"``,
        ``("index", i)``, ``("pair", i, j)`` or ``("leave_last_out", i)``. See Notes.
    time : str, default None
        Column of times (numbers, dates or sortable text) for ``"time"`` and
        ``"leave_last_out"``. It is removed from ``train`` unless it is an index.
    count : int, default None
        Number of links per entity for ``"leave_last_out"``; 1 by default.
    seed : int or None, default None
        Random seed. ``None`` draws one and stores it in ``split.seed``.
    model : Model or str, default None
        The model. It names the dimensions of arrays, and says which indices share entities
        and which relations are undirected.
    leakage : one of "warn", "remove", "ignore", default "warn"
        What to do with links that give held-out links away: warn and list them in
        ``split.leaks``, hold them out too, or do nothing.
    entities : dict of str to sequence, default None
        Entities per axis, as in `plait.fit`.

    Returns
    -------
    Split
        ``train`` and ``test``. ``train`` keeps all options of ``data``. ``test`` is a table of
        the same kind as ``data``.

    Raises
    ------
    plait.errors.ParameterError
        If an option is wrong, or does not apply to the strategy.
    plait.errors.DataError
        If the data cannot be read.

    Warns
    -----
    plait.errors.LeakWarning
        If links give held-out links away, with ``leakage="warn"``.

    Notes
    -----
    The strategies:

    - ``"cells"``: a fraction of all observed cells. The test has links and zeros. For
      relations of up to 33 million cells, or with ``observed="listed"``.
    - ``"links"``: a fraction of the links. All zeros stay observed.
    - ``"thinned_links"``: for relations too large to list. A fraction of the links becomes
      zeros, and all zeros weigh less by this fraction, so that a held-out link looks like
      any other cell without a link.
    - ``("index", "user")``: all cells of a fraction of the users (cold start).
    - ``("pair", "user", "place")``: all cells of a fraction of the pairs.
    - ``"time"``: the latest links. They become zeros as by ``"thinned_links"``.
    - ``("leave_last_out", "user")``: the last link of each user by ``time``, or a random one
      without it. Users without further links keep theirs. Compare within users
      (``target=`` of `evaluate`).

    A fit of ``train`` never sees the values of held-out cells. They are missing, except by
    ``"thinned_links"``, ``"time"`` and ``"leave_last_out"``.

    A link leaks if it agrees with a held-out link on all common indices (at least two): in
    another relation, or as a mirror image in this one. With ``leakage="remove"`` all cells
    that agree with a held-out cell are held out, links and zeros alike. Strategies that
    choose only links then add as many random zeros to the test; use these, and not sampled
    negatives, for the evaluation.

    Guide: <https://tensorplait.github.io/tensorplait/evaluation.html>.

    Examples
    --------
    >>> train, test = plait.train_test_split(visits, fraction=0.2, by="links", seed=0)
    >>> len(test)
    2
    """
    refuse_in_fork("plait.train_test_split")
    _check(seed, leakage)
    check_time(by, time)
    target = read_split_target(data, relation, model, entities, time)
    way = parse_strategy(by, fraction, time, count, target.bound)
    seed = secrets.randbits(32) if seed is None else int(seed)
    rng = np.random.default_rng(seed)
    chosen = choose(target, way, rng)
    if leakage == "remove" and way.word != "slices" and not chosen.with_zeros and has_matches(target):
        chosen = add_decoy_zeros(target, chosen, rng)
    values = target.bound.values_at(chosen.cells)
    links = chosen.cells[values > 0]
    leaks = find_leaks(target, links, chosen.hidden) if leakage != "ignore" else []
    if leaks and leakage == "warn":
        warn_of([leak_warning(leaks, target.name, len(links))])
    more = hidden_by(target, chosen.hidden) if leakage == "remove" else {}
    return Split(
        train=_train(target, chosen, more),
        test=_test(target, chosen.cells, values),
        leaks_found=None if leakage == "ignore" else tuple(leaks),
        relation=target.name,
        by=way.by,
        fraction=chosen.chosen / chosen.candidates if way.fraction is None else way.fraction,
        seed=seed,
        what=chosen.what,
        chosen=chosen.chosen,
        candidates=chosen.candidates,
        links=len(links),
        zeros=len(values) - len(links) if chosen.with_zeros else None,
        indices=target.bound.indices,
        leaks_removed=leakage == "remove",
        kind=target.bound.kind,
    )


def _check(seed: Any, leakage: Any) -> None:
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise ParameterError.must_be("seed", "an integer of at least 0", seed)
    one_of("leakage", leakage, ("warn", "remove", "ignore"))


# --- results


def _train(target: SplitTarget, chosen: ChosenCells, more: Mapping[str, Mapping[tuple[str, ...], AnyArray]]) -> Any:
    """The relation, or the dict, without the held-out cells."""
    own: dict[tuple[str, ...], AnyArray] = dict(chosen.hidden)
    for over, coords in more.get(target.name, {}).items():
        ordered = tuple(index for index in target.bound.indices if index in over)
        coords = coords[:, [over.index(index) for index in ordered]]
        # A link and its mirror image may both be hidden and leak each other.
        own[ordered] = np.unique(np.concatenate([own[ordered], coords]), axis=0) if ordered in own else coords
    if chosen.observed is not None:
        links = thinned(target, own.pop(target.bound.indices), chosen.observed)
        target = replace(target, relations={**target.relations, target.name: links})
    train = masked(target, target.name, own) if own else target.relation
    if target.given is None:
        return train
    others = {name: masked(target, name, hidden) for name, hidden in more.items() if name != target.name}
    return {**target.given, target.name: train, **others}


def _test(target: SplitTarget, cells: AnyArray, values: AnyArray) -> Any:
    """The held-out cells as a table in the library of the data."""
    import polars as pl

    table = pl.DataFrame({**labelled(target, target.bound.indices, cells), "value": values})
    return as_kind(table, target.bound.kind)
