"""Evidence terms that `plait.fit` adds to the equations of a model (decision 36).

A term is a scale times evidence that is computed from the training links, ``+ w[] N[user, film]``. ``evidence="auto"``
keeps the terms of a relation if a fit with them ranks held-out links higher, by average precision.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from plait.analysis.predict.prediction import columns
from plait.data.bound import BoundRelation, Data
from plait.data.held_out import fits_memory, hold_out
from plait.errors import ParameterError, suggestion
from plait.evaluation.metrics import average_precision
from plait.evidence.link_evidence import MIN_OBSERVED_SHARE, LinkEvidence, compute_neighbours, rows_in
from plait.evidence.rule_evidence import Rules, rules_of_run
from plait.fitting.options import AUTO, Options
from plait.model.model import Equation, Model
from plait.model_selection.rank_search import HELD_OUT_FRACTION, MIN_HELD_OUT_LINKS
from plait.result import Fit
from plait.storage.run_folder import manifest

KINDS = ("neighbours", "paths", "rules")
MIN_SCALE_LINKS = 20  # links per entity of an index from which on it has its own scale
MIN_RULE_RELATIONS = 3  # from which on rules between relations are tried
TRIAL_SWEEPS = 160  # of a fit that only tries evidence: its scale is held for 100
TRIALS = ((5_000, 3), (20_000, 2), (math.inf, 1))  # draws of held-out links, up to a number of links: few say little

Say = Callable[[str], None]
Refit = Callable[[Data, Options], Fit]


def add_evidence(data: Data, given: Options, say: Say, refit: Refit) -> tuple[Data, Options]:
    """Data of a model with evidence terms, and options with the evidence as given factors."""
    if isinstance(given.init, (str, PathLike)):  # a run that continues has its terms
        return _with_terms(data, given, _terms_of_run(given.init))
    given.check()
    chosen = _requested_kinds(data, given.evidence)
    terms = {name: _terms(data, name, kinds) for name, kinds in chosen.items()}
    if given.evidence != AUTO:
        return _with_terms(data, given, terms)
    terms_added = {name: _best(data, given, name, terms[name], refit, say) for name in terms}
    return _with_terms(data, given, terms_added)


def _requested_kinds(data: Data, evidence: Any) -> dict[str, tuple[str, ...]]:
    """Kinds of evidence by relation."""
    if evidence == AUTO:
        return {e.relation: _kinds(data, e) for e in data.model.equations if _suits(data.relations[e.relation], e)}
    if not isinstance(evidence, Mapping):
        evidence = dict.fromkeys(data.model.relations, evidence)
    requested = {}
    for name, kinds in evidence.items():
        if name not in data.model.relations:
            raise ParameterError(
                f"`evidence`: {name!r} is not a relation of the model.",
                hint=suggestion(name, data.model.relations).strip() or None,
            )
        requested[name] = (kinds,) if isinstance(kinds, str) else tuple(kinds)
        for kind in requested[name]:
            if kind == AUTO:
                raise ParameterError(
                    '`evidence`: "auto" chooses for all relations, so it cannot be in a list or a mapping.',
                    hint=f'Use `evidence="auto"`, or name the kinds: {", ".join(KINDS)}.',
                )
            if kind not in KINDS:
                raise ParameterError.must_be(
                    "evidence", '"auto", "neighbours", "paths" or "rules"', kind, hint=suggestion(kind, KINDS).strip()
                )
            if kind == "paths" and len(data.relations[name].indices) != 2:
                raise ParameterError(
                    f'`evidence="paths"` requires a relation of two indices; {name} has '
                    f"{len(data.relations[name].indices)}.",
                    hint='Use `evidence="neighbours"`.',
                )
            if kind == "rules" and data.relations[name].groups:
                raise ParameterError(
                    f'`evidence="rules"`: the equation of {name} is symmetric, and rules have a direction.',
                    hint="Use two factors for the two sides, U[i, r] V[j, r].",
                )
    return requested


def _suits(relation: BoundRelation, equation: Equation) -> bool:
    """Whether evidence may help: enough links, most cells observed, and latent terms next to it."""
    observed = relation.observed_cells >= MIN_OBSERVED_SHARE * relation.total_cells
    enough = len(relation.links) >= MIN_HELD_OUT_LINKS and fits_memory(relation) and relation.links.in_memory
    return len(equation.indices) > 1 and bool(equation.latent) and observed and enough and not relation.open_weight


def _kinds(data: Data, equation: Equation) -> tuple[str, ...]:
    """Evidence that fits the shape of a relation: within one axis also paths, or rules between its relations."""
    axes = [data.model.axis(index) for index in equation.indices]
    if len(axes) == 2 and axes[0] == axes[1]:
        return "neighbours", "paths"
    alone = [index for index, axis in zip(equation.indices, axes) if axes.count(axis) == 1]
    several = len(axes) == 3 and len(alone) == 1 and data.sizes[alone[0]] >= MIN_RULE_RELATIONS
    several = several and not data.relations[equation.relation].groups
    return ("neighbours", "rules") if several else ("neighbours",)


def _terms(data: Data, name: str, kinds: Sequence[str]) -> list[LinkEvidence | Rules]:
    relation = data.relations[name]
    axes = [data.entities[index].axis for index in relation.indices]
    terms: list[LinkEvidence | Rules] = []
    for kind in kinds:
        if kind == "paths":
            terms.append(LinkEvidence(name, kind, {"length": 2 if axes[0] == axes[-1] else 3}))
        elif kind == "rules":
            terms.append(Rules(name))  # each fit mines its own links
        else:
            terms.append(compute_neighbours(relation, axes, {}, rows_in(None)))
    return terms


def _terms_of_run(folder: str | PathLike[str]) -> dict[str, list[LinkEvidence | Rules]]:
    terms: dict[str, list[LinkEvidence | Rules]] = {}
    for words in manifest(folder)["settings"].get("evidence_terms", {}).values():
        one = rules_of_run(words) if words["kind"] == "rules" else LinkEvidence(**words)
        terms.setdefault(words["relation"], []).append(one)
    return terms


def _with_terms(
    data: Data, given: Options, terms: Mapping[str, Sequence[LinkEvidence | Rules]]
) -> tuple[Data, Options]:
    """The data under a model with a term for each evidence, which is then a given factor."""
    fixed, lines = dict(given.fixed or {}), []
    taken = {*data.model.factors, *data.model.relations, *data.model.indices}
    for equation in data.model.equations:
        line = str(equation)
        for evidence in terms.get(equation.relation, ()):
            name = _free_name(evidence.kind, equation.relation, taken)
            scale = _free_name(f"w_{evidence.kind}", equation.relation, taken)
            indices = ", ".join(equation.indices)
            if evidence.kind == "rules":
                index = _free_name("rule", equation.relation, taken)
                line += f" + {scale}[{index}] {name}[{indices}, {index}]"
            else:
                line += f" + {scale}[{_scale_index(data, equation)}] {name}[{indices}]"
            fixed[name] = evidence
        lines.append(line)
    declared = data.model._declarations
    model = Model("\n".join([*lines, *declared]))
    return replace(data, model=model), replace(given, fixed=fixed or None, entities=None)


def _free_name(name: str, relation: str, taken: set[str]) -> str:
    """A name that the model does not have: the plain one, else with that of the relation."""
    for name_tried in (name, f"{name}_{relation}", *(f"{name}_{relation}_{n}" for n in range(2, 1000))):
        if name_tried not in taken:
            taken.add(name_tried)
            return name_tried
    raise ParameterError("the model has no free name for a factor of evidence.")


def _scale_index(data: Data, equation: Equation) -> str:
    """The index whose entities have a scale each: that of relations between two entities of one axis."""
    axes = [data.model.axis(index) for index in equation.indices]
    alone = [index for index, axis in zip(equation.indices, axes) if axes.count(axis) == 1]
    if len(alone) == len(axes) or len(alone) != 1:
        return ""
    many = len(data.relations[equation.relation].links) >= MIN_SCALE_LINKS * data.sizes[alone[0]]
    return alone[0] if many else ""


def _best(
    data: Data, given: Options, name: str, terms: Sequence[LinkEvidence | Rules], refit: Refit, say: Say
) -> Sequence[LinkEvidence | Rules]:
    """The terms with which fits rank held-out links of a relation highest: none, one of them, or all."""
    count = next(count for links, count in TRIALS if len(data.relations[name].links) <= links)
    seeds = [[int(given.seed or 0), MIN_HELD_OUT_LINKS, n] for n in range(count)]
    draws = [hold_out(data, name, HELD_OUT_FRACTION, np.random.default_rng(seed)) for seed in seeds]
    plain = replace(given, max_iter=min(given.max_iter, TRIAL_SWEEPS), titles=None, init=None, entities=None)

    def score(tried: Sequence[LinkEvidence | Rules]) -> float:
        say(f"trying evidence for {name}: {' and '.join(one.kind for one in tried) or 'none'}")
        scores = []
        for held_out in draws:
            if held_out is not None:
                fit = refit(*_with_terms(held_out.data, plain, {name: tried}))
                rates = columns(fit, name, held_out.cells, ("rate",))["rate"]
                scores.append(average_precision(held_out.values > 0, rates))
        return float(np.mean(scores)) if scores else 0.0

    rivals: list[Sequence[LinkEvidence | Rules]] = [
        (),
        *((one,) for one in terms),
        *([terms] if len(terms) > 1 else []),
    ]
    return max(rivals, key=score)
