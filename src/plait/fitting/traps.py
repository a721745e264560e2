"""What the arguments of a fit, or its outcome, say that was hardly meant."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from plait.data.bound import BoundRelation, Data
from plait.data.observing.undirected import count_cells
from plait.errors import BoundWarning, GivenRowsWarning, InterruptedWarning, NoLinksWarning, PlaitWarning, RankWarning
from plait.infer.loop import Outcome
from plait.infer.popularity import popularity_bound
from plait.infer.problem import Method, Problem
from plait.infer.stop import Reason, Stop

SEVERAL = 20  # cells from which on it is no chance that none has a link
FAR = 3  # times what the data can hold
LOWEST = 10  # rank that is never called far above

FEWEST = 100  # links that a fit is judged by
LONG = 100  # sweeps after which a fit that has not converged is judged, too
NATS, SHARE = 10.0, 0.01  # of the bound that a fit may fall short of popularity: the figure is a bound itself


def link_traps(data: Data) -> Iterator[PlaitWarning]:
    """Relations without a link: a fit of them only repeats the prior."""
    for name, relation in data.relations.items():
        zeros = relation.observed_zeros
        if len(relation.links) == 0 and (zeros or relation.total_cells) >= SEVERAL:
            seen = f"all {zeros:,} observed cells are 0" if zeros else "every cell is missing"
            hint = "Check the values and what is hidden, or leave the relation out: there is nothing to learn from."
            yield NoLinksWarning(f"no link is observed; {seen}.", location=name, hint=hint)


def rank_traps(data: Data, ranks: Mapping[str, int], given: Collection[str]) -> Iterator[PlaitWarning]:
    """Ranks with which every component would have hardly a link to explain.

    A relation holds no more components than it has links, nor than a matrix of its cells has columns: that many explain
    it exactly.
    """
    for index, rank in ranks.items():
        if any(index in data.model.factor(name).latent for name in given):
            continue  # it is the given array that has so many
        rooms = {e.relation: _room(data.relations[e.relation]) for e in data.model.equations if index in e.latent}
        name, most = max(rooms.items(), key=lambda pair: pair[1])
        if most and rank > max(FAR * most, LOWEST):
            relation = data.relations[name]
            shape = " × ".join(f"{size:,}" for size in relation.shape)
            yield RankWarning(
                f"it is {rank:,}, but {name} ({shape}, {len(relation.links):,} links) can hold {most:,} at most.",
                location=f"rank of {index}",
                hint=f"Use a smaller rank, {min(10, most)} for example, or `prune=True` to have it found.",
            )


def _room(relation: BoundRelation) -> int:
    return min(math.prod(relation.shape) // max(relation.shape, default=1), len(relation.links))


def given_traps(data: Data, given: Collection[str]) -> Iterator[PlaitWarning]:
    """Given factors most of whose rows are missing in a relation that then has hardly a zero left.

    So it is when users are declared with their factor and a table lists who has the new item: all others should be
    zeros, but an entity that no row mentions is missing.
    """
    for name in given:
        for equation in data.model.equations if data.model.factor(name).latent else ():
            relation = data.relations[equation.relation]
            for index in [i for o in equation.occurrences if o.factor == name for i in o.indices]:
                unseen = relation.unseen.get(index, 0)
                if 2 * unseen > data.sizes.get(index, 0) and _only_links(relation):
                    yield _given(name, index, unseen, relation)


def _only_links(relation: BoundRelation) -> bool:
    """Whether there are more links than zeros, though cells that are not listed are zeros."""
    sizes = [size - relation.unseen.get(index, 0) for index, size in zip(relation.indices, relation.shape)]
    inside = count_cells(sizes, relation.groups)
    return 0 < 2 * inside <= 4 * relation.observed_cells and relation.observed_zeros < len(relation.links)


def _given(name: str, index: str, unseen: int, relation: BoundRelation) -> PlaitWarning:
    size = relation.shape[relation.indices.index(index)]
    return GivenRowsWarning(
        f"{unseen:,} of {size:,} rows of the given factor {name} are in no row of the table, hence missing, not zeros; "
        f"{len(relation.links):,} links and {relation.observed_zeros:,} zeros are left, so all becomes probable.",
        location=relation.name,
        hint="To add entities to a fit and hold all others, use fold-in. Else give the relation "
        '`universe="model"`: then an entity that is not listed has zeros.',
    )


def _ended(outcome: Outcome) -> bool:
    return outcome.stop.reason == Reason.CONVERGED or outcome.state.history[-1].sweep >= LONG


def popularity_alone(
    problem: Problem, method: Method, outcome: Outcome, adapted: Collection[str]
) -> dict[str, float] | None:
    """The bound that popularity reaches, beside that of the fit; None where the two do not compare.

    The problem may have begun as one of EM.
    """
    if method == "map" or not _comparable(problem) or not _ended(outcome):
        return None
    alone = popularity_bound(problem, method, outcome.state, adapted)
    return {"bound": float(alone), "beside": float(outcome.state.history[-1].bound)}


def bound_traps(
    relations: Iterable[str], method: str, found: Mapping[str, float], adapted: bool
) -> Iterator[PlaitWarning]:
    """A fit that explains less than popularity does. found: by `popularity_alone`; adapted: whether any prior is."""
    bound, alone = found["beside"], found["bound"]
    if bound < alone - NATS - SHARE * abs(alone):
        word = "log-likelihood" if method == "em" else "bound"
        adapt = "" if adapted or method == "em" else ', or `adapt="factor"`'
        yield BoundWarning(
            f"the {word} is {bound:,.6g}, but {alone:,.6g} or more without latent indices: the components explain "
            "less than they cost.",
            location=", ".join(relations),
            hint=f"Use a smaller rank{adapt}, other seeds or more sweeps; or leave the latent indices out.",
        )


GO_ON, RAISE = "`init=fit`", '`progress=plait.Progress(interrupt="raise")`'


def interrupt_traps(stop: Stop) -> Iterator[PlaitWarning]:
    """A fit that Ctrl-C ended: whoever goes on with it should know."""
    if stop.reason == Reason.INTERRUPTED:
        hint = f"Go on: {GO_ON}. To have Ctrl-C raise instead: {RAISE}."
        yield InterruptedWarning(stop.sentence, location="fit", hint=hint)


def _comparable(problem: Problem) -> bool:
    """Whether there is a smaller model to compare with: latent indices, none in a given factor; and enough data.

    Only a product of different factors is compared: of others the counts are not those of their links.
    """
    if any(len(r.terms) > 1 or max(r.terms[0].uses.values(), default=1) > 1 for r in problem.relations):
        return False
    given = [factor for name, factor in problem.factors.items() if name not in problem.free]
    ranks = [math.prod(f.layout.sizes[len(f.layout.visible) :]) for f in problem.factors.values()]
    on_disk = any(p.likelihood.true_scale and p.nonzeros.order is not None for p in problem.parts)
    links = sum(part.nonzeros.links for part in problem.parts)
    return not given and not on_disk and max(ranks, default=1) > 1 and links >= FEWEST
