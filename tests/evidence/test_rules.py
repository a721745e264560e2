"""Mined Horn rules, compared with an enumeration of all paths."""

import inspect
from collections import defaultdict
from itertools import product

import numpy as np
import polars as pl
import pytest

import plait
from plait.evidence.horn_rules import HornRule, TripleGraph, grounding, mine, numbers_of, values_of
from plait.evidence.rule_evidence import DEFAULT_PARAMS, Rules
from plait.report.report_data import ReportData
from plait.report.sections import run_warnings

MAX_PAIRS = 10**9


def steps_of(triples, rule):
    """For every link of the body the ends that can be reached from an entity."""
    steps = []
    for relation, forward in rule.body:
        ends = defaultdict(set)
        for h, p, t in triples:
            if p == relation and h != t:
                ends[h if forward else t].add(t if forward else h)
        steps.append(ends)
    return steps


def walks(steps, start, end):
    """Paths of distinct entities and their probability as a random walk from `start` to `end`."""
    if len(steps) == 1:
        return [(1.0 / len(steps[0][start]),)] if end in steps[0][start] else []
    found, paths = [], [((start,), 1.0)]
    for step in steps:
        paths = [((*path, z), p / len(step[path[-1]])) for path, p in paths for z in step[path[-1]] if z not in path]
    found = [(p,) for path, p in paths if path[-1] == end]
    return found


def brute_force(triples, rule, h, t):
    """The values of a rule at a pair, without the triple of the head."""
    others = [triple for triple in triples if triple != (h, rule.head, t)]
    back = HornRule(rule.head, tuple((p, not forward) for p, forward in reversed(rule.body)), 0, 0.0)
    forwards = walks(steps_of(others, rule), h, t)
    if not forwards:
        return None
    return [1.0, sum(p for (p,) in forwards), sum(p for (p,) in walks(steps_of(others, back), t, h))]


def random_triples(seed):
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random((6, 2, 6)) < 0.25)
    return [tuple(int(n) for n in cell) for cell in cells]


def check_values(seed, bodies):
    triples = random_triples(seed)
    graph = TripleGraph(np.array(triples), 6, 2)
    for head, body in product(range(2), bodies):
        if body == ((head, True),):
            continue
        rule = HornRule(head, body, 0, 0.0)
        heads, tails, values = values_of(graph, rule, MAX_PAIRS)
        found = {(h, t): value for h, t, value in zip(heads.tolist(), tails.tolist(), values.tolist())}
        for h, t in product(range(6), range(6)):
            wanted = None if h == t else brute_force(triples, rule, h, t)
            assert (wanted is None) == ((h, t) not in found)
            if wanted is not None:
                assert found[h, t] == pytest.approx(wanted, rel=1e-5)
                path = grounding(rule, np.array(triples), h, t)
                assert len(path) == len(body)
                assert {tuple(step) for step in path.tolist()} <= set(triples) - {(h, head, t)}


LINKS = [(p, forward) for p in range(2) for forward in (True, False)]


def test_values_are_those_of_all_paths_without_the_triple_of_the_head():
    check_values(0, [(LINKS[0],), (LINKS[1],), (LINKS[0], LINKS[3]), (LINKS[0], LINKS[1], LINKS[0])])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(1, 6))
def test_values_of_all_bodies(seed):
    check_values(seed, [body for length in (1, 2, 3) for body in product(LINKS, repeat=length)])


@pytest.mark.thorough
def test_a_triple_does_not_change_the_values_of_its_own_cell():
    triples = random_triples(7)
    for rule in [HornRule(0, ((0, True), (0, False), (0, True)), 0, 0.0), HornRule(1, ((1, True), (0, True)), 0, 0.0)]:
        for h, p, t in triples:
            if p != rule.head or h == t:
                continue
            pair = []
            for own in (triples, [one for one in triples if one != (h, p, t)]):
                heads, tails, values = values_of(TripleGraph(np.array(own), 6, 2), rule, MAX_PAIRS)
                pair.append(values[(heads == h) & (tails == t)])
            np.testing.assert_allclose(*pair, rtol=1e-5)


@pytest.fixture(scope="module")
def company():
    """People work where their managers do: works(h, t) ← manages(a, h), works(a, t)."""
    rng = np.random.default_rng(0)
    rows = []
    for boss in range(12):
        rows.append((f"boss{boss}", "works", f"firm{boss % 4}"))
        for n in range(4):
            rows.append((f"boss{boss}", "manages", f"p{boss}{n}"))
            if rng.random() < 0.8:
                rows.append((f"p{boss}{n}", "works", f"firm{boss % 4}"))
            rows.append((f"p{boss}{n}", "likes", f"p{rng.integers(12)}{rng.integers(4)}"))
    return pl.DataFrame(rows, schema=["head", "relation", "tail"], orient="row").filter(
        pl.col("head") != pl.col("tail")
    )


MODEL = "facts[head, relation, tail] = A[head, r] B[relation, r] C[tail, r]; tail: head"
PLANTED = "works(h, t) ← manages(a, h), works(a, t)"


def test_a_planted_rule_is_found_with_its_support_and_confidence(company):
    rules = plait.evidence.rules({"facts": company}, "facts", model=MODEL)
    row = rules.table.filter(pl.col("rule") == PLANTED)
    works = company.filter((pl.col("relation") == "works") & pl.col("head").str.starts_with("p"))
    assert row["support"].item() == len(works)
    assert row["confidence"].item() == pytest.approx(len(works) / (48 + 5))
    assert PLANTED in str(rules)
    assert len(rules) == len(rules.table)


def test_lengths_and_numbers_of_rules_are_bounded(company):
    rules = plait.evidence.rules({"facts": company}, "facts", model=MODEL, max_length=2, max_rules=3)
    assert max(len(rule.body) for rule in rules.rules) <= 2
    assert max(np.bincount([rule.head for rule in rules.rules])) <= 3


def test_mining_finds_the_frequent_bodies():
    graph = TripleGraph(np.array(random_triples(3)), 6, 2)
    found = {(rule.head, numbers_of(graph, rule)): rule for rule in mine(graph, 2, 0.0, 1000, 0)}
    for head, body in product(range(2), product(LINKS, repeat=2)):
        rule = HornRule(head, body, 0, 0.0)
        heads, tails, _ = values_of(graph, rule, MAX_PAIRS)
        support = sum((h, head, t) in set(random_triples(3)) for h, t in zip(heads.tolist(), tails.tolist()))
        if support >= 2:
            own = found[head, numbers_of(graph, rule)]
            assert (own.support, own.confidence) == (support, pytest.approx(support / (len(heads) + 5)))


@pytest.fixture(scope="module")
def fit(company):
    options = {"rank": {"r": 2}, "max_iter": 5, "warmup": 0, "seed": 0}
    return plait.fit(MODEL, {"facts": company}, evidence="rules", **options)


def test_explain_names_the_rule_and_its_grounding(fit, company):
    works = company.filter(pl.col("relation") == "works")["head"].to_list()
    person = next(f"p{boss}{n}" for boss in range(12) for n in range(4) if f"p{boss}{n}" not in works)
    boss, firm = f"boss{person[1:-1]}", f"firm{int(person[1:-1]) % 4}"
    explanation = fit.explain("facts", {"head": person, "relation": "works", "tail": firm})
    assert f"works({person}, {firm}) ← manages({boss}, {person}), works({boss}, {firm})" in str(explanation)
    links = {tuple(link.cell.values()) for link in explanation.reasons}
    assert {(boss, "manages", person), (boss, "works", firm)} & links


def test_a_fit_tells_the_weights_of_its_rules(fit, tmp_path):
    table = plait.evidence.rules(fit, "facts").table
    assert table.columns == ["rule", "support", "confidence", "weight", "sd"]
    assert (table["sd"] > 0).all()
    assert PLANTED in table["rule"].to_list()
    fit.save(tmp_path / "run")
    assert plait.evidence.rules(plait.load(tmp_path / "run"), "facts").table.equals(table)


def test_weights_have_a_prior_of_small_mean_unless_one_is_given(fit, company):
    assert fit.prior["w_rules"].mean == pytest.approx(0.03)
    options = {"rank": {"r": 2}, "max_iter": 1, "warmup": 0, "seed": 0}
    fixed = {"N": plait.evidence.rules({"facts": company}, "facts", model=MODEL)}
    own = MODEL.replace("; tail", " + w[q] N[head, relation, tail, q]; tail")
    counts = plait.Relation(company.with_columns(n=pl.lit(4)), value="n", likelihood="poisson")
    assert plait.fit(own, {"facts": counts}, fixed=fixed, **options).prior["w"].mean == pytest.approx(0.12)
    prior = {"w": plait.Gamma(0.5, mean=2.0)}
    assert plait.fit(own, {"facts": company}, fixed=fixed, prior=prior, **options).prior["w"].mean == 2.0


@pytest.mark.thorough
def test_held_out_links_are_not_mined(company):
    split = plait.train_test_split({"facts": company}, "facts", model=MODEL, fraction=0.3, seed=0)
    options = {"rank": {"r": 2}, "max_iter": 5, "warmup": 0, "seed": 0}
    fit = plait.fit(MODEL, split.train, evidence="rules", **options)
    again = plait.evidence.rules(split.train, "facts", model=MODEL)
    assert plait.evidence.rules(fit, "facts").table.sort("rule")["support"].sum() == again.table["support"].sum()


def test_values_of_rules_are_no_components_in_a_report(fit):
    report_data = ReportData(fit)
    assert set(report_data.largest_shares["index"]) == {"r"}
    assert not any("of rule" in words for words in (found.text for found in run_warnings(report_data)))


def test_relations_that_are_no_triples_are_refused(company):
    with pytest.raises(plait.errors.ParameterError, match=r"rules require triples(.|\n)*in `model`"):
        plait.evidence.rules({"facts": company}, "facts")
    hidden = plait.Relation(company.head(20), missing=company.tail(1))
    with pytest.raises(plait.errors.DataError, match="Give `model`: without one"):
        plait.evidence.rules({"facts": hidden}, "facts")
    with pytest.raises(plait.errors.ParameterError, match="rules have directions"):
        plait.evidence.rules({"facts": company}, "facts", model=MODEL.replace("C", "A"))
    with pytest.raises(plait.errors.ParameterError, match="`max_length` must be an integer from 1 to 3, got 4"):
        plait.evidence.rules({"facts": company}, "facts", model=MODEL, max_length=4)
    with pytest.raises(plait.errors.ParameterError, match="has no rules"):
        plait.evidence.rules(plait.fit(MODEL, {"facts": company}, rank=2, max_iter=1, warmup=0, seed=0), "facts")


def test_evidence_of_a_fit_mines_with_the_defaults_of_rules():
    defaults = {name: one.default for name, one in inspect.signature(plait.evidence.rules).parameters.items()}
    assert Rules("facts").params == {name: defaults[name] for name in DEFAULT_PARAMS}
