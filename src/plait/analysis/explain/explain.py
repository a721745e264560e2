"""Explanation of a cell: its components, their leading entities, and the supporting links."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Rows
from plait.analysis.explain.component_terms import name_terms
from plait.analysis.explain.counterfactual import Without, as_without, losses, same_data
from plait.analysis.explain.coupling import first_index
from plait.analysis.explain.explanation import ComponentShare, Entity, Evidence, Explanation, Link
from plait.analysis.explain.influence import MemberView, Placed, joined_shares, views_of
from plait.analysis.explain.leading_entities import characterise
from plait.analysis.explain.supporting_links import Touching
from plait.analysis.predict.lookup import row_of
from plait.analysis.predict.prediction import columns
from plait.data.binding.given import term_key
from plait.data.bound import Data
from plait.errors import ParameterError
from plait.evidence.link_evidence import LinkEvidence, link_contributions
from plait.evidence.rule_evidence import grounded_rule
from plait.model import Equation
from plait.storage.fitted import Fitted

__all__ = ["Explanation", "explain"]


MAX_GROUNDED_RULES = 20  # of a cell whose links are named: each takes a search among all links
MAX_COMPONENTS = 1000  # listed; a Tucker model has very many


def explain(
    fit: Fitted, relation: str, cell: Mapping[str, Any], *, top: int = 5, exact: bool | str = False, data: Any = None
) -> Explanation:
    """Explain the prediction of a cell; see `Fit.explain`.

    A component is a term of the equation with a value of each of its latent indices. Its share is V Π E / λ_E, its part
    of the predicted mean; for a known link V Π L / λ_L, its part of the observation; λ is the sum over all terms.
    `leading_entities` characterises components, `influence` rates known links. A known link does not explain itself.

    An ensemble is explained by all its members: its components are theirs side by side, and the responsibility of a
    link or a row is their average, weighted by what each adds to the mean.
    """
    if isinstance(top, bool) or not isinstance(top, (int, np.integer)) or top < 1:
        raise ParameterError.must_be("top", "an integer of at least 1", top)
    without = as_without(exact, data)
    equation = fit.model.equation(relation)
    row = row_of(fit, relation, cell)
    value = _value(fit, relation, row)
    fit = _near(fit, equation, row)
    views = views_of(fit, equation, row, "mean" if value is None else "exp_mean_log", max(MAX_COMPONENTS, int(top)))
    shares, remainder = joined_shares(views, equation, max(MAX_COMPONENTS, int(top)))
    shares = _alike_joined(fit, equation, shares)
    evidence = _evidence_strengths(fit, equation, shares, row)
    numbered, others, rest = _reasons(fit, views, relation, row, int(top), evidence)
    if without is not None:
        numbered = _refitted(fit, numbered, same_data(fit, data), relation, row, without)
    explanation = Explanation(
        relation, _names(fit, equation.indices, row), _prediction(fit, relation, row), value is not None, value,
        _shares(fit, equation, shares, row), remainder,
        sum(view.components.total for view in views), _entities(views, equation, shares[: int(top)], row, int(top)),
        tuple(link for link, _ in numbered), others, rest, _evidence(fit, views), fit.method, without,
    )  # fmt: skip
    return replace(explanation, titles=_titles(fit, explanation)) if fit.titles else explanation


def _titles(fit: Fitted, e: Explanation) -> dict[str, dict[Any, str]]:
    """Titles, by index, of all entities in an explanation."""
    names: dict[str, dict[Any, None]] = {}
    pairs = [(s.index, s.name) for s in e.standings]
    for cell in (e.cell, *(link.cell for link in e.reasons), *(row.entities for row in e.rows)):
        pairs.extend(cell.items())
    for index, name in pairs:
        names.setdefault(index, {})[name] = None
    titled = {index: zip(own, fit.titles[index].of(list(own))) for index, own in names.items() if index in fit.titles}
    return {index: {name: title for name, title in own if title is not None} for index, own in titled.items()}


def _near(fit: Fitted, equation: Equation, row: Rows) -> Fitted:
    """The fit with the known links of the cell's entities read from disk into memory: others do not matter."""
    axes = {fit.model.axis(index): set[int]() for index in equation.indices}
    for index, number in zip(equation.indices, row):
        axes[fit.model.axis(index)].add(int(number))
    known = {}
    for name, own in fit.known.items():
        places = [(k, axes.get(fit.model.axis(i), set())) for k, i in enumerate(fit.model.equation(name).indices)]
        known[name] = own.among(partial(_mentions, [(k, sorted(rows)) for k, rows in places if rows]))
    return fit if all(known[name] is own for name, own in fit.known.items()) else fit._with_known(known)


def _mentions(places: Sequence[tuple[int, Sequence[int]]], cells: AnyArray) -> NDArray[np.bool_]:
    """Which cells (n, order) have one of some rows at its position."""
    mentioned = np.zeros(len(cells), bool)
    for k, rows in places:
        mentioned |= np.isin(cells[:, k], rows)
    return mentioned


def _shares(fit: Fitted, equation: Equation, placed: Sequence[Placed], row: Rows) -> tuple[ComponentShare, ...]:
    """Components with the names of their terms."""
    texts = name_terms(equation)
    names = [_name(fit, equation, number) if text else "" for number, text in enumerate(texts)]
    shares = []
    for number, one in enumerate(placed):
        rule = _rule(fit, equation, row, one) if number < MAX_GROUNDED_RULES else ""
        name, label = ("", rule) if rule else (names[one.term], _label(fit, equation, one))
        shares.append(ComponentShare(one.setting, one.share, one.term, texts[one.term], name, label))
    return tuple(shares)


def _alike_joined(fit: Fitted, equation: Equation, shares: Sequence[Placed]) -> list[Placed]:
    """The components, largest first, with the values of one rule as one."""
    joined: dict[Any, Placed] = {}
    for place, one in enumerate(shares):
        sparse = fit.exposures.summed_in(equation.relation, one.term)
        key: Any = place
        if sparse is not None and sparse.labels:
            key = (id(one.view), one.term, sparse.labels[one.setting[sparse.index]])
        before = joined.get(key)
        joined[key] = one if before is None else before._replace(share=before.share + one.share)
    return sorted(joined.values(), key=lambda one: -one.share)


def _rule(fit: Fitted, equation: Equation, row: Rows, placed: Placed) -> str:
    """The rule and its grounding, for a component that is the value of one; else ""."""
    sparse = fit.exposures.summed_in(equation.relation, placed.term)
    words = None if sparse is None else fit.settings.get("evidence_terms", {}).get(sparse.factor)
    if sparse is None or not words or not placed.share > 0:
        return ""
    return grounded_rule(fit, equation.relation, words, placed.setting[sparse.index], row).text


def _label(fit: Fitted, equation: Equation, placed: Placed) -> str:
    """Given names of a component, of all its latent indices, or that of an entry of a sparse given factor."""
    setting = placed.setting
    sparse = fit.exposures.summed_in(equation.relation, placed.term)
    if sparse is not None:
        return str(sparse.labels[setting[sparse.index]]) if sparse.labels else ""
    own = fit.members[setting["member"]] if len(fit.members) > 1 else fit
    given = own.given_names
    labels = (given.get(first_index(fit.model, index), {}).get(n) for index, n in setting.items()) if given else ()
    return " × ".join(name for name in labels if name)


def _name(fit: Fitted, equation: Equation, number: int) -> str:
    """Name of a term of a sum; "evidence" for one without latent indices and with a given factor."""
    term, text = equation.terms[number], name_terms(equation)[number]
    if equation.latent_of(term) and fit.exposures.summed_in(equation.relation, number) is None:
        return text
    given = [name for name in term.factors if name in fit.exposures.names]
    if not given:
        return f"term {text}"
    weights = " ".join(name for name in term.factors if name not in given)
    return f"evidence {' '.join(given)}" + (f" (weight {weights})" if weights else "")


def _names(fit: Fitted, indices: Sequence[str], row: Sequence[int] | Rows) -> dict[str, Any]:
    return {index: fit.entities[index][int(number)] for index, number in zip(indices, row)}


def _prediction(fit: Fitted, relation: str, row: Rows) -> dict[str, float]:
    prediction = {name: float(column[0]) for name, column in columns(fit, relation, row[None, :]).items()}
    alone = len(fit.model.equation(relation).terms) == 1  # else each term has its own exposure
    exposure = fit.exposures.at(relation, 0, row[None, :]) if alone else None
    return prediction if exposure is None else prediction | {"exposure": float(exposure[0])}


def _value(fit: Fitted, relation: str, row: Rows) -> float | None:
    """Value of the cell among the known links; None if it is not one of them."""
    value = float(fit.known[relation].values_at(row[None, :])[0])
    return value if value > 0 else None


def _entities(
    views: Sequence[MemberView], equation: Equation, leading: Sequence[Placed], row: Rows, top: int
) -> tuple[Entity, ...]:
    """Leading entities of the leading components, each from its own member."""
    entities: list[Entity] = []
    for view in views:
        places = [place for place, share in enumerate(leading) if share.view is view]
        own = [(leading[place].term, leading[place].setting) for place in places]
        for s in characterise(view.fit, equation, own, row, top):
            labels = view.fit.entities[s.index]
            name, of = labels[s.row], len(labels)
            entities.append(Entity(places[s.component], s.index, name, s.weight, s.lift, s.rank, of, s.of_cell))
    return tuple(sorted(entities, key=lambda entity: entity.component))


def _evidence(fit: Fitted, views: Sequence[MemberView]) -> tuple[Evidence, ...]:
    """Every row that the cell uses, with its links in all relations; all rows for a cell of rate 0."""
    rows = {group.row.key: group.row for group in views[0].groups}
    evidence = []
    for key, row in rows.items():
        links = sum(len(group.numbers) for group in views[0].groups if group.row.key == key)
        data, prior = sum((view.weight * np.array(view.sources(key)) for view in views), np.zeros(2))
        evidence.append(Evidence(row.factor, _names(fit, row.indices, row.rows), float(data), float(prior), links))
    possible = any(np.isfinite(view.components.log_rates[0]) for view in views)
    return tuple(row for row in evidence if row.data + row.prior > 0 or not possible)  # a term of exposure 0 uses none


def _reasons(
    fit: Fitted,
    views: Sequence[MemberView],
    relation: str,
    cell: Rows,
    top: int,
    evidence: Mapping[tuple[int, ...], float],
) -> tuple[list[tuple[Link, int]], int, float]:
    """The most responsible links with their numbers; the number of other supporting links, and their total
    responsibility.
    """
    reasons: list[tuple[Link, int]] = []
    count, total, groups = 0, 0.0, views[0].groups
    for name in dict.fromkeys(group.relation for group in groups):
        known, here = fit.known[name], [group for group in groups if group.relation == name]
        numbers = np.unique(np.concatenate([group.numbers for group in here]))
        strength = sum((view.weight * view.strengths(name, numbers) for view in views), np.zeros(len(numbers)))
        if name == relation:
            strength += [evidence.get(tuple(link), 0.0) for link in known.cells[numbers].tolist()] if evidence else 0.0
            strength[(known.cells[numbers] == cell).all(axis=1)] = 0.0
        count, total = count + int(np.count_nonzero(strength)), total + float(strength.sum())
        best = [n for n in np.argsort(-strength, kind="stable")[:top] if strength[n] > 0]
        reasons.extend((_link(fit, here, int(numbers[n]), float(strength[n])), int(numbers[n])) for n in best)
    reasons = sorted(reasons, key=lambda pair: -pair[0].responsibility)[:top]
    named = sum(link.responsibility for link, _ in reasons)
    return reasons, count - len(reasons), total - named if count > len(reasons) else 0.0


def _evidence_strengths(
    fit: Fitted, equation: Equation, shares: Sequence[Placed], cell: Rows
) -> dict[tuple[int, ...], float]:
    """The part of the rate that known links have through evidence terms, by their cells."""
    known, axes = fit.known[equation.relation], [fit.model.axis(index) for index in equation.indices]
    strengths: dict[tuple[int, ...], float] = {}
    for name, words in fit.settings.get("evidence_terms", {}).items():
        for number, term in enumerate(equation.terms):
            own = [placed for placed in shares if placed.term == number and placed.share > 0]
            share = sum(placed.share for placed in own)
            if name in term.factors and words["kind"] == "rules":
                index = fit.exposures.summed[term_key(equation.relation, number)].index
                for placed in own[:MAX_GROUNDED_RULES]:
                    links = grounded_rule(fit, equation.relation, words, placed.setting[index], cell).links
                    for link in map(tuple, links.tolist()):
                        strengths[link] = strengths.get(link, 0.0) + placed.share / len(links)
            elif name in term.factors and share > 0:
                behind = link_contributions(
                    LinkEvidence(**words), known.cells.astype(np.int64), known.shape, axes, known.groups, cell
                )
                total = sum(behind.values())
                for link, value in behind.items():
                    strengths[link] = strengths.get(link, 0.0) + share * value / total
    return strengths


def _refitted(
    fit: Fitted, numbered: list[tuple[Link, int]], data: Data, relation: str, cell: Rows, without: Without
) -> list[tuple[Link, int]]:
    """The links with the losses of refits, sorted by them."""
    asked = [(link.relation, number) for link, number in numbered]
    refitted = losses(fit, data, relation, cell, asked, without)
    with_losses = [(replace(link, exact=loss), number) for (link, number), loss in zip(numbered, refitted)]
    return sorted(with_losses, key=lambda pair: -pair[0].loss)


def _link(fit: Fitted, groups: Sequence[Touching], number: int, strength: float) -> Link:
    """A known link by its number; `groups`: the row links of its relation."""
    relation = groups[0].relation
    shared = [group.row.indices for group in groups if number in group.numbers]
    through = tuple(dict.fromkeys(index for indices in shared for index in indices))
    names = _names(fit, fit.model.equation(relation).indices, fit.known[relation].cells[number])
    return Link(relation, names, float(fit.known[relation].values[number]), strength, through)
