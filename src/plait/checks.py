"""Checks of model, data and fit: warnings about likely mistakes.

Each name of an axis is checked once; links are checked on a sample.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.bound import BoundRelation, Data
from plait.data.dispersion import has_pair_factor, is_overdispersed
from plait.data.encoding.columns import kind
from plait.data.encoding.names import Labels, listed
from plait.data.observation.symmetry import count_cells
from plait.data.sources.relation import Relation, Source
from plait.data.sources.tables import TableSource
from plait.data.sparse.csf import CSFTensor, as_tree
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.errors import (
    AsymmetricLinksWarning,
    BelowBaselineWarning,
    DisjointEntitiesWarning,
    FixedFactorCoverageWarning,
    MissingExposureWarning,
    NoLinksWarning,
    NoZerosWarning,
    OverdispersionWarning,
    PlaitWarning,
    RankWarning,
    SpellingWarning,
    UniqueAxisWarning,
    UnusedLatentIndexWarning,
    quoted,
)
from plait.model.model import Equation, Model, Occurrence, Summand

if TYPE_CHECKING:
    import polars as pl

    CountUnmirrored = Callable[[BoundRelation, int, int], int]


AxisLabels = NDArray[np.bool_]

MIN_EQUAL_LINKS = 10  # links of one value; more were hardly entered one by one
MIN_TABLE_ROWS = 100  # rows; an axis that is new in nearly every row is then no chance
MIN_UNIQUE_SHARE = 0.95


def check_data(
    data: "Data", relations: Mapping[str, Relation], sources: Mapping[str, Source]
) -> Iterator[PlaitWarning]:
    """Warnings about bound data; `relations` and `sources`: their origin."""
    mentioned = {name: relation.seen for name, relation in data.relations.items()}
    yield from check_axes(data.model, data.entities, mentioned)
    for name in relations:
        relation = data.relations[name]
        if relations[name].observed == "listed" and len(relation.links) >= MIN_EQUAL_LINKS:
            value = relation.links.stored[0]
            yield from check_zeros(relation, float(value) if bool((relation.links.stored == value).all()) else None)
        if isinstance(source := sources[name], TableSource):
            yield from check_unique_axes(relation, source.rows, data.model)
        yield from check_direction(relation, data.model, find_asymmetric_indices(relation, data.model))
        is_named = relation.likelihood.name == "poisson" and not relation.likelihood_by
        if is_named and not has_pair_factor(data.model.equation(name)):
            excess = is_overdispersed(relation.links, relation.weights, relation.groups)
            yield from check_dispersion(relation, excess, relation.links.stored)


def check_axes(
    model: Model, labels: Mapping[str, Labels], mentioned: Mapping[str, Mapping[str, AxisLabels]]
) -> Iterator[PlaitWarning]:
    """Warnings about names of all axes; `mentioned`: entities by relation and index."""
    for axis in model.axes:
        yield from _check_spelling(labels[axis])
    yield from check_shared_entities(model, labels, mentioned)


def _check_spelling(labels: Labels) -> Iterator[PlaitWarning]:
    count, example = find_padded_names(labels)
    if count:
        what = f"{count:,} of {len(labels):,} names begin or end with a blank, such as {example}."
        hint = "Set `strip=True`; otherwise ' cafe' and 'cafe' are two entities."
        yield SpellingWarning(what, location=f"axis {labels.axis}", hint=hint)
        return
    count, example = find_similar_names(labels)
    if count:
        what = f"{count:,} of {len(labels):,} names differ from another name only by case or blanks, such as {example}."
        yield SpellingWarning(
            what, location=f"axis {labels.axis}", hint="Use one spelling per entity; these count as two entities."
        )


def check_shared_entities(
    model: Model, labels: Mapping[str, Labels], mentioned: Mapping[str, Mapping[str, AxisLabels]]
) -> Iterator[PlaitWarning]:
    """For each axis the first relation that is coupled by it to others, and has none of their names. `mentioned`:
    entities by relation and index.
    """
    for axis, sharing in _coupled(model, mentioned).items():
        for name, own in sharing.items():
            others = {other: seen for other, seen in sharing.items() if other != name}
            union = np.any(list(others.values()), axis=0)
            if own.any() and union.any() and not (own & union).any():
                yield _disjoint_entities(labels[axis], name, own, others, union)
                break


def _coupled(model: Model, mentioned: Mapping[str, Mapping[str, AxisLabels]]) -> dict[str, dict[str, AxisLabels]]:
    """Tables coupled over each axis by a shared factor, with their entities."""
    entities: dict[str, dict[str, AxisLabels]] = {}
    for name in model.factors:
        uses = [(e.relation, o) for e in model.equations for o in e.occurrences if o.factor == name]
        for relation, occurrence in uses if len(uses) > 1 else ():
            for index, seen in mentioned[relation].items():
                if index in occurrence.indices:
                    entities.setdefault(model.axis(index), {})[relation] = seen
    return {axis: sharing for axis, sharing in entities.items() if len(sharing) > 1}


def _disjoint_entities(
    labels: Labels, name: str, own: AxisLabels, others: Mapping[str, AxisLabels], union: AxisLabels
) -> PlaitWarning:
    mine, theirs = labels.names.filter(own), labels.names.filter(union)
    return DisjointEntitiesWarning(
        f"{name} has no name in common with {', '.join(others)}: {listed(mine)} here, {listed(theirs)} there. "
        "The relations are not coupled.",
        location=f"axis {labels.axis}",
        hint="Use the same spelling (case and blanks count), or use two axes with different names.",
    )


def check_zeros(relation: "BoundRelation", value: float | None) -> Iterator[PlaitWarning]:
    """Warn about listed links without zeros, unless values differ, as ratings do; `value`: that of all links, None if
    they differ.
    """
    if value is not None and relation.observed_zeros == 0 and relation.missing_cells:
        yield NoZerosWarning(
            f'`observed="listed"`, but all {len(relation.links):,} listed cells are {value:g} and none is '
            "0. All other cells are missing, so every link becomes probable.",
            location=relation.name,
            hint='List zeros too, or set `observed="all"` if cells that are not listed are zeros.',
        )


def check_unique_axes(relation: "BoundRelation", rows: int, model: Model) -> Iterator[PlaitWarning]:
    """Warn about axes whose entities occur once and in no other relation."""
    for index, seen in relation.seen.items() if len(relation.indices) > 1 and rows >= MIN_TABLE_ROWS else ():
        uses = sum(model.axis(i) == model.axis(index) for equation in model.equations for i in equation.indices)
        count = int(np.count_nonzero(seen))
        if uses == 1 and count >= MIN_UNIQUE_SHARE * rows:
            yield UniqueAxisWarning(
                f"{count:,} entities in {rows:,} rows: most entities occur once, so the fit cannot learn "
                "their factors.",
                location=f"{relation.name}, index {index}",
                hint=f"Use coarser values of {index} (such as hours or weekdays), or remove it from the model.",
            )


def check_direction(
    relation: "BoundRelation", model: Model, pair: tuple[str, str, int] | None
) -> Iterator[PlaitWarning]:
    """Warn about links within one axis that are all listed one way; `pair`: by `find_asymmetric_indices`."""
    if pair is not None:
        first, second, count = pair
        once = one_factor(model.equation(relation.name), first, second)
        hint = (
            "list each link in both directions"
            if once is None
            else f"use one factor twice, {once}, or list each link in both directions"
        )
        yield AsymmetricLinksWarning(
            f"none of {count:,} links between {quoted(first)} and {quoted(second)}, which are one axis, is "
            "listed in the other direction. The reverse cells count as zeros.",
            location=relation.name,
            hint=f"If links have no direction, {hint}. If they have a direction, ignore "
            "plait.errors.AsymmetricLinksWarning.",
        )


def check_dispersion(relation: "BoundRelation", is_overdispersed: bool, values: AnyArray) -> Iterator[PlaitWarning]:
    """Warn about counts that no Poisson rate explains. `values`: of links, or a sample of them."""
    if is_overdispersed:
        is_whole = bool((values == np.floor(values)).all())
        median, most = float(np.median(values)), float(values.max())
        yield OverdispersionWarning(
            f"the values of links (median {median:,.6g}, largest {most:,.6g}) are larger or more uneven than "
            '`likelihood="poisson"` can explain: predicted probabilities will be too close to 1.',
            location=relation.name,
            hint=f'Use `likelihood="{"negbin" if is_whole else "tweedie"}"`; or `"bernoulli"` if only links matter.',
        )


MIN_NAME_LETTERS = 3  # letters of a name from which on case is taken for chance; "a" and "A" are symbols
NAME_SAMPLE = 10_000  # names that are looked at to tell words from codes


def find_padded_names(labels: Labels) -> tuple[int, str]:
    """Number of names that begin or end with a blank, and one of them."""
    if kind(labels.names) != "strings":
        return 0, ""
    padded = labels.names.filter(labels.names != labels.names.str.strip_chars())
    return len(padded), quoted(padded[0]) if len(padded) else ""


def find_similar_names(labels: Labels) -> tuple[int, str]:
    """Number of names that equal another up to case and blanks, and two of them; (0, "") if none."""
    import polars as pl

    if kind(labels.names) != "strings":
        return 0, ""
    folded = _folded(labels.names)
    if folded.n_unique() == len(folded):
        return 0, ""
    twice = folded.is_duplicated()
    frame = pl.DataFrame({"name": labels.names.filter(twice), "folded": folded.filter(twice)})
    if not _are_words(labels.names):  # codes such as 'aB3x' differ by case on purpose; only blanks count
        frame = frame.with_columns(folded=_single_blanks(frame["name"])).filter(pl.col("folded").is_duplicated())
    frame = frame.filter(pl.col("folded").str.len_chars() >= MIN_NAME_LETTERS)
    if len(frame) == 0:
        return 0, ""
    pair = frame.filter(pl.col("folded") == frame["folded"].min())["name"].sort()
    return len(frame) - frame["folded"].n_unique(), f"{quoted(pair[0])} and {quoted(pair[1])}"


def _folded(names: "pl.Series") -> "pl.Series":
    return _single_blanks(names).str.to_lowercase()


def _single_blanks(names: "pl.Series") -> "pl.Series":
    bare = names.str.strip_chars()
    several = any(bare.str.contains(blanks, literal=True).any() for blanks in ("  ", "\t"))
    return bare.str.replace_all(r"\s+", " ") if several else bare  # a pattern is slow


def _are_words(names: "pl.Series") -> bool:
    """Whether most names are words: in one case, or capitalised."""
    some = names.head(NAME_SAMPLE).str.strip_chars()
    lower, upper = some.str.to_lowercase(), some.str.to_uppercase()
    plain = (some == lower) | (some == upper) | (some == some.str.to_titlecase())
    return bool(2 * plain.sum() > len(some))


MIRROR_SAMPLE_LINKS = 100_000  # links whose mirror images are looked up
MIN_DIRECTED_LINKS = (
    1000  # links from which on any real relation with a direction has some both ways, unless it has no circles
)
MIN_EXPECTED_MIRRORS = (
    6.0  # mirror images that as many links would have by chance, from which on none at all is no chance
)


def find_asymmetric_indices(
    relation: "BoundRelation", model: Model, count_unmirrored: "CountUnmirrored | None" = None
) -> tuple[str, str, int] | None:
    """Two indices on one axis between which no link is listed both ways, though the other way is observed; and the
    number of links.

    `count_unmirrored`: number of links without a mirror image, where links are not in memory.
    """
    for k, other in combinations(range(len(relation.indices)), 2):
        first, second = relation.indices[k], relation.indices[other]
        if any(k in group and other in group for group in relation.groups):
            continue  # both orientations are one cell
        if model.axis(first) == model.axis(second) and (
            count := (count_unmirrored or _count_unmirrored)(relation, k, other)
        ):
            return first, second, count
    return None


def one_factor(equation: Equation, first: str, second: str) -> str | None:
    """Two factors that differ only in one index, written as one: ``U[user, r] U[friend, r]``."""
    for term in equation.terms:
        for a, b in permutations(term.occurrences, 2):
            swapped = tuple(second if index == first else index for index in a.indices)
            if first in a.indices and a.factor != b.factor and b.indices == swapped:
                return f"{a} {a.factor}[{', '.join(b.indices)}]"
    return None


def _count_unmirrored(relation: "BoundRelation", k: int, other: int) -> int:
    """Number of links whose mirror image is an observed zero, if that holds for (nearly) all and is no
    chance; else 0.
    """
    links = relation.links
    tree, first, second = as_tree(links.fibres), relation.indices[k], relation.indices[other]
    count = len(links) - sum(_self_links(tree.part(piece), first, second) for _, piece in tree.pieces(CHUNK_ROWS))
    cells = relation.total_cells - relation.total_cells // relation.shape[k]
    turned = tree.cells(np.arange(0, len(links), max(1, -(-len(links) // MIRROR_SAMPLE_LINKS))))
    turned = turned[turned[:, k] != turned[:, other]]
    if len(turned) * count < MIN_EXPECTED_MIRRORS * cells and count < MIN_DIRECTED_LINKS:
        return 0
    turned[:, [k, other]] = turned[:, [other, k]]
    if links.contain(turned).any():
        return 0
    return count if mostly_observed(relation, turned) else 0


def _self_links(tree: CSFTensor, first: str, second: str) -> int:
    """Number of entries with one row for both indices."""
    one, other = (tree.column(index, len(tree.order) - 1) for index in (first, second))
    return int(np.count_nonzero(one == other))


def mostly_observed(relation: "BoundRelation", cells: AnyArray) -> bool:
    """Whether most of some cells (n, order) are observed."""
    return bool(2 * np.count_nonzero(relation.weights.at(cells) > 0) > len(cells))


MIN_EMPTY_CELLS = 20  # cells; that none has a link is then no chance
MAX_RANK_FACTOR = 3  # times the number of components that the data support
MIN_WARNED_RANK = 10  # smaller ranks never warn

MAX_SHORTFALL_NATS, MAX_SHORTFALL_SHARE = (
    10.0,
    0.01,
)  # of the bound that a fit may fall short of popularity: the figure is a bound itself


def check_links(data: Data) -> Iterator[PlaitWarning]:
    """Warn about relations without a link: a fit of them repeats the prior."""
    for name, relation in data.relations.items():
        zeros = relation.observed_zeros
        if len(relation.links) == 0 and (zeros or relation.total_cells) >= MIN_EMPTY_CELLS:
            seen = f"all {zeros:,} observed cells are 0" if zeros else "every cell is missing"
            hint = "Check the values and the hidden cells, or remove the relation."
            yield NoLinksWarning(f"no link is observed; {seen}.", location=name, hint=hint)


def check_ranks(data: Data, ranks: Mapping[str, int], given: Collection[str]) -> Iterator[PlaitWarning]:
    """Warn about ranks with hardly a link per component.

    A relation supports at most as many components as it has links, and as a matrix of its cells has columns: these
    explain it exactly.
    """
    for index, rank in ranks.items():
        if any(index in data.model.factor(name).latent for name in given):
            continue  # the given array has that rank
        max_ranks = {
            e.relation: _max_rank(data.relations[e.relation]) for e in data.model.equations if index in e.latent
        }
        name, most = max(max_ranks.items(), key=lambda pair: pair[1])
        if most and rank > max(MAX_RANK_FACTOR * most, MIN_WARNED_RANK):
            relation = data.relations[name]
            shape = " × ".join(f"{size:,}" for size in relation.shape)
            yield RankWarning(
                f"the rank is {rank:,}, but {name} ({shape}, {len(relation.links):,} links) supports at most {most:,}.",
                location=f"rank of {index}",
                hint=f"Use a smaller rank, such as {min(10, most)}, or `prune=True`.",
            )


def _max_rank(relation: BoundRelation) -> int:
    return min(math.prod(relation.shape) // max(relation.shape, default=1), len(relation.links))


def check_fixed_coverage(data: Data, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Warn about given factors most of whose rows are missing in a relation with hardly any zeros.

    For example, users are declared with their factor and a table lists owners of a new item: all others should be
    zeros, but an entity without a row is missing.
    """
    for name in given:
        for equation in data.model.equations if data.model.factor(name).latent else ():
            relation = data.relations[equation.relation]
            for index in [i for o in equation.occurrences if o.factor == name for i in o.indices]:
                unseen = relation.n_unseen.get(index, 0)
                if 2 * unseen > data.sizes.get(index, 0) and _only_links(relation):
                    yield _uncovered_rows(name, index, unseen, relation)


def _only_links(relation: BoundRelation) -> bool:
    """Whether there are more links than zeros, though unlisted cells are zeros."""
    sizes = [size - relation.n_unseen.get(index, 0) for index, size in zip(relation.indices, relation.shape)]
    inside = count_cells(sizes, relation.groups)
    return 0 < 2 * inside <= 4 * relation.observed_cells and relation.observed_zeros < len(relation.links)


def _uncovered_rows(name: str, index: str, unseen: int, relation: BoundRelation) -> PlaitWarning:
    size = relation.shape[relation.indices.index(index)]
    return FixedFactorCoverageWarning(
        f"{unseen:,} of {size:,} rows of the fixed factor {name} do not occur in the table, so they are "
        f"missing, not zeros; {len(relation.links):,} links and {relation.observed_zeros:,} zeros remain, so "
        "every link becomes probable.",
        location=relation.name,
        hint='To add entities to an existing fit, use `fold_in`. Otherwise set `unseen="zero"` for the '
        "relation: then entities that are not listed have zeros.",
    )


def check_baseline(
    relations: Iterable[str], method: str, baseline: Mapping[str, float], adapted: bool
) -> Iterator[PlaitWarning]:
    """Warn about a fit below the popularity baseline. `baseline`: by `compare_with_baseline`; `adapted`: whether any
    prior is.
    """
    objective, alone = baseline["objective"], baseline["baseline"]
    if objective < alone - MAX_SHORTFALL_NATS - MAX_SHORTFALL_SHARE * abs(alone):
        word = "log-likelihood" if method == "em" else "ELBO"
        adapt = "" if adapted or method == "em" else ', or `adapt_prior="factor"`'
        yield BelowBaselineWarning(
            f"the {word} is {objective:,.6g}, but {alone:,.6g} or more without latent indices: the components "
            "do not improve the model.",
            location=", ".join(relations),
            hint=f"Use a smaller rank{adapt}, other seeds or a larger `max_iter`; or remove the latent indices.",
        )


def check_model(model: Model, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Warnings about the model; `given`: given factors."""
    yield from _unused_latents(model, given)
    yield from _missing_exposures(model, given)


def _missing_exposures(model: Model, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Factors over all indices of a relation that multiply unknown ones, like V in ``V[i, j] U[i, r] P[j, r]``.

    In a separate term such a factor has a row per pair; with a latent index it is hardly an exposure. Where the
    relation has further indices, pairs repeat and can be estimated.
    """
    seen: set[str] = set()
    for equation in model.equations:
        for term in equation.terms:
            free = [occurrence for occurrence in term.occurrences if occurrence.factor not in given]
            for one in free if len({occurrence.factor for occurrence in free}) > 1 else ():
                if len(one.indices) > 1 and set(one.indices) == set(equation.indices) and one.factor not in seen:
                    seen.add(one.factor)
                    yield _free_pairs(equation, one)


def _free_pairs(equation: Equation, one: Occurrence) -> PlaitWarning:
    return MissingExposureWarning(
        f"{one} has only visible indices, multiplies unknown factors and is not fixed. Every pair has a free "
        "parameter, which explains its link without the other factors.",
        location=equation.relation,
        hint=f"If it is known, fix it: `fixed={{{one.factor!r}: …}}`. To model pairs, put it into a separate "
        f"term, … + {one}, or add a latent index: {one.factor}[{', '.join(one.indices)}, z].",
    )


def _unused_latents(model: Model, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Factors without their latent index, as in ``U[user, r] P[place]``."""
    for index in model.latent:
        holders = [name for name in model.factors if index in model.factor(name).latent]
        if len(holders) == 1 and holders[0] not in given and not _is_paired_with_itself(model, index):
            for equation in model.equations:
                bare = [o for term in equation.terms for o in _bare(equation, term, index, given)]
                yield from (_unused_latent(index, equation, one) for one in bare[:1])


def _is_paired_with_itself(model: Model, index: str) -> bool:
    """Whether a factor that occurs twice in a term has a latent index in both."""
    terms = [term for equation in model.equations for term in equation.terms]
    return any(sum(index in o.indices for o in term.occurrences) > 1 for term in terms)


def _bare(equation: Equation, term: Summand, index: str, given: Collection[str]) -> list[Occurrence]:
    """Unknown factors of a term that should perhaps have the latent index of another factor.

    They have no latent index, and a visible one without a latent index anywhere in the term; ``b[i]`` next to ``A[i,
    r]`` is a bias.
    """
    if index not in term.indices:
        return []
    woven = {i for occurrence in term.occurrences if _latent(equation, occurrence) for i in occurrence.indices}
    return [
        occurrence
        for occurrence in term.occurrences
        if occurrence.factor not in given
        and occurrence.indices
        and not _latent(equation, occurrence)
        and not woven & set(occurrence.indices)
    ]


def _latent(equation: Equation, occurrence: Occurrence) -> bool:
    return any(index not in equation.indices for index in occurrence.indices)


def _unused_latent(index: str, equation: Equation, bare: Occurrence) -> PlaitWarning:
    holder = next(occurrence for occurrence in equation.occurrences if index in occurrence.indices)
    return UnusedLatentIndexWarning(
        f"the latent index {index} occurs in {holder} only, so the factor is summed over it and all "
        "components are the same.",
        location=equation.relation,
        hint=f"Did you mean {bare.factor}[{', '.join((*bare.indices, index))}]? Otherwise remove {index} from "
        f"{holder.factor}.",
    )
