"""`Fit.explain`: shares, entities and responsibilities compared with brute force and with refits; text and HTML."""

import itertools
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import opt_einsum
import polars as pl
import pytest
from scipy.special import digamma, polygamma

import plait
from plait import Posterior
from plait.analysis.explain.component_terms import components
from plait.data.binding.known import Known
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinksInMemory
from plait.model import network
from plait.model.network import RowBlock
from tests.support.models import MODELS
from tests.support.problems import make
from tests.support.sums import GIVEN, SUMS, sum_fit

# --- the oracle: every link, every component, every entry, one at a time


def settings(fit, equation):
    """Every component: the number of its term, and the values of that term's latent indices."""
    found = []
    for number, term in enumerate(equation.terms):
        latent = equation.latent_of(term)
        found += [(number, dict(zip(latent, s))) for s in itertools.product(*(range(fit.rank[i]) for i in latent))]
    return found


def exposed(fit, equation, number, cell):
    V = fit.exposures.at(equation.relation, number, np.array([cell], int).reshape(1, -1))
    return 1.0 if V is None else float(V[0])


def product(fit, term, place, kind, without=None):
    """Π of a term's factors at values of all its indices, but for one use of a factor."""
    uses = [o for o in term.occurrences if o.factor in fit.factors and o is not without]
    return math.prod(float(getattr(fit.factors[o.factor], kind)[tuple(place[i] for i in o.indices)]) for o in uses)


def products(fit, equation, cell, kind):
    """What every component adds to a cell."""
    here = dict(zip(equation.indices, cell))
    return np.array(
        [
            exposed(fit, equation, number, cell) * product(fit, equation.terms[number], here | setting, kind)
            for number, setting in settings(fit, equation)
        ]
    )


def uses_of(equation, factor, at, here):
    """The uses of a factor that take its row `at` in a cell: (number of the term, the use, its latent indices)."""
    for number, term in enumerate(equation.terms):
        for use in term.occurrences:
            if use.factor == factor and tuple(here[i] for i in use.indices if i in here) == at:
                yield number, use, [i for i in use.indices if i not in here]


def row_links(fit, factor, at):
    """{link: (M, x, what multiplies each entry of the row in its rate, the rest of the rate)} of a row's links."""
    found = {}
    for equation in (e for e in fit.model.equations if factor in e.factors):
        known = fit.known[equation.relation]
        for n, cell in enumerate(known.cells.astype(int).tolist()):
            here, times = dict(zip(equation.indices, cell)), None
            for number, use, latent in uses_of(equation, factor, at, here):
                times = np.zeros([fit.rank[i] for i in latent]) if times is None else times
                V, term = exposed(fit, equation, number, cell), equation.terms[number]
                for setting in (s for m, s in settings(fit, equation) if m == number):
                    times[tuple(setting[i] for i in latent)] += V * product(
                        fit, term, here | setting, "exp_mean_log", use
                    )
            if times is not None:
                latent = [n for n, i in enumerate(fit.factors[factor].indices) if i not in fit.entities]
                L = np.moveaxis(fit.factors[factor].exp_mean_log, latent, range(-len(latent), 0))[at]
                rest = products(fit, equation, cell, "exp_mean_log").sum() - float((L * times).sum())
                x = None if fit.likelihood[equation.relation] == "bernoulli" else known.values[n]
                found[equation.relation, tuple(cell)] = (known.weights[n], x, times.ravel(), max(rest, 0.0))
    return found


def counts_of(link, L):
    """The counts that a link adds to each entry of a row whose geometric means are L."""
    M, x, times, rest = link
    rate = float(L @ times) + rest
    expected = x if x is not None else rate / -math.expm1(-rate)
    return M * expected * L * times / rate


def settled(share, C, stiff, whole, own, lost):
    """What counts lost by a row of C take from the mean, once the row stands still again.

    whole, own: the Jacobians in C of the row's update, and of the counts of the link that loses them, which is taken to
    have rank one. No direction settles more slowly than 0.1 (`plait.analysis.explain.influence`).
    """
    values, vectors = np.linalg.eig(np.eye(len(C)) - whole)
    inverse = (vectors @ np.diag(1 / np.maximum(values.real, 0.1)) @ np.linalg.inv(vectors)).real
    moved = inverse @ lost
    back = inverse @ (own @ moved)
    first, second = (own @ moved) @ (moved / stiff), (own @ moved) @ (back / stiff)
    return float((share / C) @ (moved - back * (first / (first + second) if first > 0 else 0.0)))


def falls(fit, factor, at, links, share):
    """What every link takes from the mean through a row, from differences of the row's own update."""
    posterior, visible = fit.factors[factor], [i for i in fit.factors[factor].indices if i not in fit.rank]
    place = dict(zip(visible, at))
    row = tuple(place.get(i, slice(None)) for i in posterior.indices)
    mean, L = posterior.mean[row].ravel(), posterior.exp_mean_log[row].ravel()
    counts = {key: counts_of(link, L) for key, link in links.items()}
    prior = np.zeros(len(mean))
    if fit.method != "em":
        A = np.broadcast_to(fit.prior[factor].concentration, posterior.mean.shape)[row].ravel()
        prior = A if fit.method == "vb" else A - 1
    C = posterior.concentration[row].ravel() if fit.method == "vb" else prior + sum(counts.values(), np.zeros(len(L)))

    def counted(link, new):
        moved = np.exp(digamma(new)) * posterior.scale[row].ravel() if fit.method == "vb" else mean * new / C
        return counts_of(link, moved)

    def jacobian(link):
        return np.stack(
            [(counted(link, C + h) - counted(link, C - h)) / (2 * h.sum()) for h in np.diag(1e-5 * C)], axis=1
        )

    stiff = 1 / polygamma(1, C) if fit.method == "vb" else C
    own = {key: jacobian(link) for key, link in links.items()}
    whole = sum(own.values(), np.zeros((len(C), len(C))))
    return {key: settled(share, C, stiff, whole, own[key], counts[key]) for key in links}


def brute_force(fit, relation, cell, given=()):
    """Shares by component; responsibility by (relation, cell of the link)."""
    equation = fit.model.equation(relation)
    row = tuple(cell)
    is_known = row in {tuple(c) for c in fit.known[relation].cells.tolist()}
    means, shares, found = products(fit, equation, row, "mean"), {}, {}
    here = dict(zip(equation.indices, row))
    for number, term in enumerate(equation.terms):
        for use in (o for o in term.occurrences if o.factor in fit.factors and o.factor not in given):
            at, latent = tuple(here[i] for i in use.indices if i in here), [i for i in use.indices if i not in here]
            if at:
                share = shares.setdefault((use.factor, at), np.zeros([fit.rank[i] for i in latent]))
                for (of, setting), part in zip(settings(fit, equation), means / means.sum()):
                    if of == number:
                        share[tuple(setting[i] for i in latent)] += part
    for (factor, at), share in shares.items():
        for link, fall in falls(fit, factor, at, row_links(fit, factor, at), share.ravel()).items():
            found[link] = found.get(link, 0.0) + fall
    found.pop((relation, row), None)
    parts = products(fit, equation, row, "exp_mean_log") if is_known else means
    return parts / parts.sum(), found


def named(equation, row):
    return {index: int(n) for index, n in zip(equation.indices, row)}


def assert_explains(fit, relation, row, given=()):
    equation = fit.model.equation(relation)
    shares, strengths = brute_force(fit, relation, row, given)
    e = fit.explain(relation, named(equation, row), top=10_000)
    got = {(s.term, *s.setting.values()): s.share for s in e.shares}
    wanted = {(n, *s.values()): share for (n, s), share in zip(settings(fit, equation), shares)}
    assert got.keys() == wanted.keys()
    for key in wanted:
        assert got[key] == pytest.approx(wanted[key], rel=1e-9, abs=1e-13)
    assert sum(got.values()) == pytest.approx(1.0)
    links = {(r.relation, tuple(r.cell.values())): r.responsibility for r in e.reasons}
    assert {link for link, s in strengths.items() if s > 1e-6} <= links.keys()
    for key, strength in strengths.items():
        if key in links:
            assert links[key] == pytest.approx(min(strength, 1.0), rel=1e-5, abs=1e-7)
        else:
            assert strength < 1e-6
    wanted = sum(min(strength, 1.0) for strength in strengths.values())
    assert sum(links.values()) + e.other_responsibility == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    return e


def two_cells(fit, relation):
    """A known link and a cell that is none but possible, where there are such."""
    known, equation = fit.known[relation], fit.model.equation(relation)
    cells = known.cells.astype(int).tolist()
    pairs = [[equation.indices.index(index) for index in pair] for pair in equation.doubled]
    every = np.array([c for c in itertools.product(*map(range, known.shape)) if all(c[i] != c[j] for i, j in pairs)])
    free = [tuple(c) for c in every[~known.contain(every)].tolist()]
    free = [c for c in free if products(fit, equation, c, "mean").sum() > 1e-6]
    return [tuple(c) for c in cells[len(cells) // 2 :][:1]] + free[len(free) // 3 :][:1]


PLAIN = [(name, "vb", "poisson", "all", False) for name in MODELS]
PLAIN += [
    (name, method, "poisson", "all", False)
    for name in ("coupled_paper", "coupled_tucker", "coupled_bias", "two_visible_mixed_order")
    for method in ("em", "map")
]
PLAIN += [
    (name, "vb", "bernoulli", "all", exposed)
    for name in ("coupled_cp_matrix", "coupled_tucker", "friends")
    for exposed in (False, True)
]
PLAIN += [(name, method, "poisson", "all", True) for name in ("cp3", "coupled_chain") for method in ("vb", "em")]
PLAIN += [("matrix", "vb", "poisson", "weighted_cells", False)]


@pytest.mark.quick(name=["matrix", "cp3", "tucker", "bias", "coupled_paper", "coupled_cp_matrix"])
@pytest.mark.parametrize(("name", "method", "likelihood", "way", "exposed"), PLAIN)
def test_shares_and_responsibilities_by_brute_force(name, method, likelihood, way, exposed):
    fit = make(name, way, likelihood, exposed=exposed).fit(method, max_iter=6)
    relation = fit.model.relations[0]
    for row in two_cells(fit, relation):
        e = assert_explains(fit, relation, row)
        V = fit.exposures.at(relation, 0, np.array([row]))
        if V is not None:
            assert e.prediction["exposure"] == V[0]
            assert f"exposure {V[0]:g}" in str(e)


@pytest.mark.quick(name=["tucker", "pairwise", "coupled", "evidence"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("name", SUMS)
def test_shares_and_responsibilities_of_sums_by_brute_force(name, likelihood):
    fit = sum_fit(name, likelihood=likelihood, max_iter=6)
    given = [name for name in GIVEN if name in fit.factors]
    for relation in fit.model.relations:
        for row in two_cells(fit, relation):
            e = assert_explains(fit, relation, row, given)
            assert e.components["term"].n_unique() == len(fit.model.equation(relation).terms)
            assert e.components.height == len(e.shares) == e.component_count
            assert all(row.data + row.prior == pytest.approx(1.0) for row in e.rows)


@pytest.mark.parametrize("name", ["shared", "coupled", "friends", "exposed"])
@pytest.mark.parametrize("method", ["em", "map"])
def test_sums_under_em_and_map_by_brute_force(name, method):
    prior = {"prior": plait.Gamma(1.6, 1.3)} if method == "map" else {}
    fit = sum_fit(name, method, default=0.1, max_iter=6, **prior)
    for row in two_cells(fit, "X"):
        assert_explains(fit, "X", row)


@pytest.mark.parametrize("method", ["vb", "em"])
def test_a_given_factor_has_no_responsible_links(method):
    rng = np.random.default_rng(0)
    X, B = rng.poisson(2.0, (5, 4)), rng.gamma(2.0, 1.0, (4, 3))
    fit = plait.fit(PLANTED, {"X": X}, rank=3, fixed={"B": B}, seed=0, max_iter=5, method=method)
    e = assert_explains(fit, "X", (1, 2), given=("B",))
    assert e.evidence["factor"].to_list() == ["A"]


def test_evidence_is_the_part_of_the_concentration_from_data():
    fit = make("cp3").fit(max_iter=5)
    row = two_cells(fit, "X")[1]
    e = fit.explain("X", named(fit.model.equation("X"), row))
    shares = products(fit, fit.model.equation("X"), row, "mean")
    shares /= shares.sum()
    for name, i, record in zip("ABC", row, e.rows):
        A = np.broadcast_to(fit.prior[name].concentration, fit.factors[name].mean.shape)[i]
        wanted = 1 - (shares * A / fit.factors[name].concentration[i]).sum()
        assert record.data == pytest.approx(wanted)
        assert record.links == sum(c["ABC".index(name)] == i for c in fit.known["X"].cells.tolist())


def test_an_entity_without_links_rests_on_the_prior():
    table = pl.DataFrame({"i": ["a", "b"], "j": ["x", "y"]})
    fit = plait.fit(PLANTED, {"X": table}, rank=2, seed=0, max_iter=5, entities={"i": ["a", "b", "new"]})
    e = fit.explain("X", {"i": "new", "j": "x"})
    assert dict(zip(e.evidence["factor"], e.evidence["data"]))["A"] == pytest.approx(0.0, abs=1e-12)
    assert e.rows[0].links == 0


def test_a_link_of_another_relation_explains_through_a_shared_factor():
    visits = pl.DataFrame({"user": ["bob", "bob", "eve"], "place": ["inn", "spa", "zoo"]})
    friends = pl.DataFrame({"user": ["ann", "bob", "eve"], "friend": ["dan", "dan", "fay"], "value": [9, 9, 9]})
    fit = plait.fit(
        "visits[user,place] = U[user,r] P[place,r]; friends[user,friend] = U[user,r] F[friend,r]; friend: user",
        {"visits": visits, "friends": friends}, rank=2, seed=4, prior=plait.Gamma(0.5, 1.0),
    )  # fmt: skip
    e = fit.explain("visits", {"user": "ann", "place": "inn"})
    assert ("friends(ann, dan)", "user") in list(e.links.select("link", "through").iter_rows())
    assert "friends(ann, dan), value 9\n" in str(e)


# --- against fitting again


PLANTED = "X[i,j] = A[i,r] B[j,r]"
TIGHT = {"max_iter": 1500, "tol": 1e-14, "adapt_prior": None, "progress": False, "threads": 1, "seed": 0}


def planted(likelihood, seed, shape=(50, 40)):
    """Counts, or links, of three groups; about a fifth of the cells are not 0."""
    rng = np.random.default_rng(seed)
    A, B = (rng.gamma(0.5, 0.55, (size, 3)) for size in shape)
    X = rng.poisson(A @ B.T).astype(float)
    return np.minimum(X, 1.0) if likelihood == "bernoulli" else X


def settle(X, likelihood, start, prior):
    return plait.fit(PLANTED, {"X": plait.Relation(X, likelihood=likelihood)}, rank=3, init=start, prior=prior, **TIGHT)


def mean_at(fit, cell):
    return float(fit.factors["A"].mean[cell[0]] @ fit.factors["B"].mean[cell[1]])


def refitted(fit, X, likelihood, cell, link, value):
    """By what fraction the mean of a cell falls, fitted again with another value of a link: 0, or missing."""
    Y = X.copy()
    Y[link] = value
    return 1 - mean_at(settle(Y, likelihood, fit, fit.prior), cell) / mean_at(fit, cell)


def adapted(X, likelihood, seed):
    """A fit whose priors were adapted and are held since, and which stands still under them."""
    relation = plait.Relation(X, likelihood=likelihood)
    first = plait.fit(PLANTED, {"X": relation}, rank=3, seed=seed, max_iter=100, tol=0.0, threads=1, progress=False)
    return settle(X, likelihood, first, first.prior)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::plait.errors.BelowBaselineWarning")  # a poor optimum can be explained too
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_refit_without_a_link_loses_about_its_responsibility(likelihood):
    """The middle half of the ratios of what refitting says to what is claimed lies within 0.85 and 1.1."""
    ratios = []
    for seed in range(3):
        X = planted(likelihood, seed)
        fit = adapted(X, likelihood, seed)
        for cell in [(1, 2), (17, 11)]:
            for reason in fit.explain("X", dict(zip("ij", cell)), top=3).reasons:
                fall = refitted(fit, X, likelihood, cell, tuple(reason.cell.values()), 0.0)
                ratios.append(fall / reason.responsibility)
    assert len(ratios) == 18
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    assert 0.85 < low < middle < high < 1.1


@pytest.mark.thorough
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("right", ["A[i,r] B[j,r] + a[i] b[j]", "A[i,r] B[j,r] + w[] N[i,j]",
                                   "A[i,p] G[p,q] A[j,q] + w[] N[i,j]"])  # fmt: skip
def test_a_refit_of_a_sum_without_a_link_loses_about_its_responsibility(right, likelihood):
    """Half of the ratios lie within 0.7 and 1.4, about 1; those of links next to evidence scatter most."""
    text, ratios = f"X[i,j] = {right}; j: i", []
    for seed in range(4, 8):
        X = planted(likelihood, seed, (30, 30)) * (1 - np.eye(30))
        data = {"X": plait.Relation(X, likelihood=likelihood)}
        given = {"fixed": {"N": (X @ X.T + 0.1) * (1 - np.eye(30))}} if "N" in right else {}
        first = plait.fit(text, data, rank=3, seed=0, max_iter=100, tol=0.0, threads=1, progress=False, **given)
        fit = plait.fit(text, data, rank=3, init=first, prior=first.prior, **given, **TIGHT)
        for cell in [(1, 2), (9, 17)]:
            reasons = fit.explain("X", dict(zip("ij", cell)), top=3, exact=True, data=data).reasons
            ratios += [reason.exact / reason.responsibility for reason in reasons]
    assert len(ratios) == 24
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    assert 0.7 < low < high < 1.4
    assert 0.85 < middle < 1.1


def test_a_sum_is_explained_by_its_terms():
    fit = sum_fit("evidence", default=0.1, max_iter=20)
    row = two_cells(fit, "X")[1]
    e = fit.explain("X", named(fit.model.equation("X"), row))
    assert {str(s) for s in e.shares} == {"0 of A B", "1 of A B", "2 of A B", "evidence N (weight w)"}
    assert e.components.columns == ["component", "term", "r", "share"]
    assert e.components.filter(pl.col("term") == "w N")["r"].to_list() == [None]
    assert {c["term"] for c in e.to_dict()["components"]} == {"A B", "w N"} == set(e.components["term"])
    assert re.search(r"^ *\d+ %  A B: ", str(e), re.MULTILINE)
    assert "exposure" not in e.prediction


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize(("exact", "value"), [(True, 0.0), ("zero", 0.0), ("missing", np.nan)])
def test_exact_responsibilities_are_those_of_a_refit(likelihood, exact, value):
    X, cell = planted(likelihood, 3, (20, 16)), (1, 2)
    fit = adapted(X, likelihood, 3)
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    e = fit.explain("X", dict(zip("ij", cell)), top=3, exact=exact, data=data)
    assert len(e.reasons) == 3
    assert e.exact == ("missing" if exact == "missing" else "zero")
    for reason in e.reasons:
        wanted = refitted(fit, X, likelihood, cell, tuple(reason.cell.values()), value)
        assert reason.exact == pytest.approx(wanted, abs=2e-5)
    assert [r.exact for r in e.reasons] == sorted((r.exact for r in e.reasons), reverse=True)


COUPLED = """
    visits[user, place, hour] = V[user, place] U[user, r] P[place, r] H[hour, r]
    friends[user, friend]     = U[user, r] F[friend, r]
    friend: user
"""


def coupled():
    visits = {
        "user": ["ann", "ann", "bob", "cem", "dee", "eva"],
        "place": [1, 2, 2, 3, 1, 3],
        "hour": [8, 9, 8, 8, 9, 9],
    }
    friends = {"user": ["ann", "bob", "dee"], "friend": ["bob", "cem", "zoe"]}
    return {
        "visits": plait.Relation(pl.DataFrame({**visits, "value": [2, 1, 3, 1, 1, 4]}), observed=0.5),
        "friends": plait.Relation(pl.DataFrame(friends), likelihood="bernoulli"),
    }


def test_a_loaded_fit_refits_alike(tmp_path):
    V = plait.Exposure(pl.DataFrame({"user": ["ann", "bob"], "place": [1, 2]}), default=0.1)
    given = {"H": np.array([[1.0, 2.0], [0.5, 1.0]]), "V": V}
    fit = plait.fit(COUPLED, coupled(), rank=2, seed=0, max_iter=15, fixed=given, entities={"user": ["new", "ann"]})
    fit.save(tmp_path / "run")
    cell = {"user": "ann", "friend": "cem"}
    e, again = (
        own.explain("friends", cell, top=2, exact=True, data=coupled()) for own in (fit, plait.load(tmp_path / "run"))
    )
    assert again.to_dict() == e.to_dict()
    assert {r.relation for r in e.reasons} == {"visits", "friends"}


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["em", "map"])
def test_exact_responsibilities_under_em_and_map(method):
    X, cell = planted("poisson", 1, (12, 10)), (1, 2)
    options = {"rank": 2, "method": method, "seed": 0, "max_iter": 3000, "tol": 0.0, "threads": 1, "progress": False}
    if method == "map":
        options["prior"] = plait.Gamma(1.5, 1.0)
    fit = plait.fit(PLANTED, {"X": X}, **options)
    e = fit.explain("X", dict(zip("ij", cell)), top=1, exact=True, data={"X": X})
    Y = X.copy()
    Y[tuple(e.reasons[0].cell.values())] = 0.0
    wanted = 1 - mean_at(plait.fit(PLANTED, {"X": Y}, init=fit, **options), cell) / mean_at(fit, cell)
    assert e.reasons[0].exact == pytest.approx(wanted, abs=1e-4)


def test_exact_needs_the_data_of_the_fit(odd):
    cell, other = {"a": "x & y", "b": "1"}, {"rel": ODD.with_columns(value=pl.Series([2, 1, 3, 2]))}
    for options, message in (
        ({"exact": True}, r"does not store all of its data.*\n.*Pass .* again: `data=data`"),
        ({"data": {"rel": ODD}}, "used only with `exact=True`"),
        ({"exact": True, "data": other}, "differs from the data of the fit"),
        *(({"exact": exact, "data": other}, "`exact` must be") for exact in ("zeros", None, 1, 2.5)),
    ):
        with pytest.raises(plait.errors.ParameterError, match=message):
            odd.explain("rel", cell, **options)
    zero, missing = (odd.explain("rel", cell, exact=how, data={"rel": ODD}) for how in ("zero", "missing"))
    assert zero.links.columns[-1] == "exact"
    for e, words in [(zero, "set to zero"), (missing, "missing")]:
        assert f"after a refit with the link {words})" in str(e)
        assert f"after a refit with the link {words})" in e._repr_html_()


# --- components


def test_shares_of_geometric_means_that_underflow():
    """Posteriors so vague that exp(ψ(C)) is 0: shares and responsibilities come from logarithms."""

    class Start:
        def __init__(self, C, D):
            self.concentration, self.scale = C, D

    C = np.array([[1e-3, 2e-3], [1e-3, 1e-3]])
    start = {"A": Start(C, np.ones((2, 2))), "B": Start(C[::-1].copy(), np.ones((2, 2)))}
    X = np.array([[1.0, 0.0], [0.0, 1.0]])
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, init=start, max_iter=0, seed=0, adapt_prior=None)
    assert fit.factors["A"].exp_mean_log[1, 0] == 0.0
    e = fit.explain("X", {"i": 0, "j": 0})
    logs = digamma(C[0]) + digamma(C[1])
    wanted = np.exp(logs - logs.max())
    wanted /= wanted.sum()
    assert e.known
    assert {int(str(s)): s.share for s in e.shares} == pytest.approx({0: wanted[0], 1: wanted[1]})
    other = fit.explain("X", {"i": 0, "j": 1})
    assert len(other.reasons) == 2
    # X(0, 0) bears through A[0] alone, as its only link: its counts go by the logs above.
    mean = C[0] * C[0]
    share = mean / mean.sum()
    own = (np.diag(wanted) - np.outer(wanted, wanted)) * polygamma(1, C[0])
    strengths = {str(r): r.responsibility for r in other.reasons}
    fall = settled(share, C[0], 1 / polygamma(1, C[0]), own, own, wanted)
    assert strengths["X(0, 0)"] == pytest.approx(min(fall, 1.0))


def test_leading_components_of_a_chain_too_large_to_enumerate():
    """100^4 components: none of them is listed but the leading ones."""
    rng = np.random.default_rng(0)
    pairs = [("p", "q"), ("q", "r"), ("r", "s")]
    blocks = [RowBlock(pair, np.log(rng.gamma(0.05, 1.0, (100, 100)) + 1e-9)) for pair in pairs]
    found = components([blocks], [("p", "q", "r", "s")], 50)
    assert found.total == 10**8
    rate = np.exp(blocks[0].values) @ np.exp(blocks[1].values) @ np.exp(blocks[2].values)
    assert found.log_rates == pytest.approx(np.log(rate.sum()))
    for setting, share in zip(found.settings[0, :5], found.shares[0]):
        p, q, r, s = setting
        logs = blocks[0].values[p, q] + blocks[1].values[q, r] + blocks[2].values[r, s]
        assert share == pytest.approx(np.exp(logs - found.log_rates[0]))
    assert 0 < found.remainder < 1


def test_a_cell_of_rate_0_has_no_components_and_no_nan():
    init = {"A": np.eye(2), "B": np.eye(2)}
    fit = plait.fit(PLANTED, {"X": np.diag([1.0, 2.0])}, rank=2, method="em", init=init, max_iter=3, seed=0)
    e = fit.explain("X", {"i": 0, "j": 1})
    assert e.prediction["mean"] == 0.0
    assert e.components["share"].to_list() == [0.0, 0.0]
    assert e.remainder == 0.0
    assert e.evidence.select("data", "prior").rows() == [(0.0, 0.0)] * 2
    assert "rate is 0: no component contributes to it, so there are no supporting links." in str(e)
    assert "rate is 0" in e._repr_html_()
    assert "nan" not in json.dumps(e.to_dict()).lower()


# --- what it costs

LARGE = {
    "matrix": ("X[i,j] = A[i,r] B[j,r]", {"i": 200_000, "j": 100_000}),
    "cp3": ("X[i,j,k] = A[i,r] B[j,r] C[k,r]", {"i": 9583, "j": 44_005, "k": 241_800}),
    "tucker": ("X[i,j,k] = G[p,q,r] A[i,p] B[j,q] C[k,r]", {"i": 50_000, "j": 50_000, "k": 50_000}),
    "train": ("X[i,j,k] = A[i,p] B[p,j,q] C[q,k]", {"i": 50_000, "j": 50_000, "k": 50_000}),
    "two visible": ("X[i,j,k] = A[i,j,r] B[j,k,r]", {"i": 20_000, "j": 3, "k": 20_000}),
    "not shared": ("X[i,j] = A[i,p] B[j,q]", {"i": 100_000, "j": 100_000}),
}


def large(text, sizes, links=10_000):
    """A fit of these sizes: its posterior is drawn."""
    rng = np.random.default_rng(0)
    order = len(sizes)
    fit = plait.fit(text, {"X": np.ones((2,) * order)}, rank=2, max_iter=1, seed=0)
    factors = {}
    for name, posterior in fit.factors.items():
        C = rng.gamma(1.0, 1.0, [sizes.get(index, 2) for index in posterior.indices]) + 1e-3
        factors[name] = Posterior(posterior.indices, C, np.ones(C.shape), C, C)
    cells = np.unique(np.stack([rng.integers(size, size=links) for size in sizes.values()], axis=1), axis=0)
    shape, ones = tuple(sizes.values()), np.ones(len(cells))
    known = Known(shape, LinksInMemory.of(tuple(sizes), shape, cells, ones, ones))
    labels = {index: Labels.count(index, size) for index, size in sizes.items()}
    return replace(fit, factors=factors, entities=labels, known={"X": known})


@pytest.mark.parametrize("name", LARGE)
def test_the_work_grows_with_the_sum_of_the_axes(monkeypatch, name):
    """No contraction takes more operations than a few for every entry of the posterior."""
    fit = large(*LARGE[name])
    entries = sum(posterior.mean.size for posterior in fit.factors.values())
    expression, calls = network._expression, []

    def limited(text, shapes):
        def contracted(*operands):
            steps = opt_einsum.contract_path(text, *operands)[1]
            assert steps.opt_cost <= 4 * entries, steps.eq
            assert steps.largest_intermediate <= entries
            calls.append(steps)
            return expression(text, shapes)(*operands)

        return contracted

    monkeypatch.setattr(network, "_expression", limited)
    e = fit.explain("X", dict.fromkeys(LARGE[name][1], 1))
    assert len(calls) > 2
    assert e.shares[0].share > 0


# --- who characterises a component


@pytest.mark.parametrize("name", ["cp3_weighted", "tucker", "two_visible", "bias", "train"])
def test_weight_and_lift_of_entities(name):
    fit = make(name).fit(max_iter=6)
    equation = fit.model.equation("X")
    e = fit.explain("X", dict.fromkeys(equation.indices, 1), top=100)
    letters = {i: chr(97 + n) for n, i in enumerate((*equation.indices, *equation.latent))}
    uses = [o for o in equation.occurrences if o.factor in fit.factors]
    inputs = ",".join("".join(letters[i] for i in o.indices) for o in uses)
    arrays = [fit.factors[o.factor].exp_mean_log for o in uses]
    dense = np.einsum(f"{inputs}->{''.join(letters.values())}", *arrays)
    order = len(equation.indices)
    for entity in e.standings:
        place, setting = equation.indices.index(entity.index), e.shares[entity.component].setting
        own = {i for o in uses if entity.index in o.indices for i in o.indices}
        at = tuple(setting[i] if i in own else slice(None) for i in equation.latent)
        mass = dense[(slice(None),) * order + at]
        weight = np.moveaxis(mass, place, 0).reshape(mass.shape[place], -1).sum(axis=1)
        overall = np.moveaxis(dense, place, 0).reshape(dense.shape[place], -1).sum(axis=1)
        weight, overall = weight / weight.sum(), overall / overall.sum()
        assert entity.weight == pytest.approx(weight[entity.name])
        assert entity.lift == pytest.approx((weight / overall)[entity.name])
        relevance = weight**0.6 * (weight / overall) ** 0.4
        assert entity.rank == 1 + np.count_nonzero(relevance > relevance[entity.name] * (1 + 1e-12))
        assert entity.of_cell or entity.lift > 1 - 1e-6


def test_the_entity_of_the_cell_is_always_shown():
    fit = make("friends").fit(max_iter=6)
    e = fit.explain("visits", {"user": 0, "place": 0, "activity": 0}, top=1)
    for number in {s.component for s in e.standings}:
        for index in e.cell:
            assert [s.name for s in e.standings if (s.component, s.index, s.of_cell) == (number, index, True)] == [0]


def test_an_index_of_an_exposure_alone_has_no_entities():
    rng = np.random.default_rng(0)
    fit = plait.fit("X[i,j,k] = A[i,r] B[j,r] V[k]", {"X": rng.poisson(1.0, (4, 3, 2))}, rank=2, seed=0, max_iter=5,
                    fixed={"V": np.array([1.0, 2.0])})  # fmt: skip
    e = fit.explain("X", {"i": 0, "j": 0, "k": 1})
    assert set(e.entities["index"]) == {"i", "j"}
    assert e.prediction["exposure"] == 2.0


# --- what people and programs get


ODD = pl.DataFrame({"a": ["<b>", "x & y", '"q"', "<b>"], "b": ["1", "2", "1", "2"], "value": [2, 1, 3, 1]})


@pytest.fixture(scope="module")
def odd():
    """Names that HTML would trip over."""
    return plait.fit("rel[a,b] = A[a,r] B[b,r]", {"rel": ODD}, rank=2, seed=0, max_iter=20)


class Page(HTMLParser):
    """The rows of all tables, and all text; every tag that opens closes, in order."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.seen, self.open = [], "", []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.seen += data
        if {"td", "th"} & {*self.open}:
            self.rows[-1][-1] += data.strip()


def percent(fraction):
    return f"{100 * fraction:.{0 if fraction >= 0.1 else 1}f} %"


@pytest.mark.parametrize("exact", [False, "zero", "missing"])
def test_text_html_tables_and_json_have_the_same_links(exact):
    fit = plait.fit(COUPLED.replace("V[user, place] ", ""), coupled(), rank=2, seed=0, max_iter=30)
    cell, data = {"user": "ann", "place": 3, "hour": 8}, {"data": coupled()} if exact else {}
    e = fit.explain("visits", cell, top=2, exact=exact, **data)
    column = "exact" if exact else "responsibility"
    told = json.loads(json.dumps(e.to_dict()))
    assert [link[column] for link in told["links"]] == e.links[column].to_list()
    page = Page(e._repr_html_())
    for link, value, fraction in e.links.select("link", "value", column).iter_rows():
        words = ["−" + percent(fraction), link if value == 1 else f"{link}, value {value:g}"]
        assert words in page.rows
        assert re.search(r" +".join(map(re.escape, words)), str(e))
    assert f"{told['other_links']} other links: " in str(e)
    data = str(e).split("\n")[-1]
    for row in told["evidence"]:
        (entity,) = row["entities"].values()
        assert re.search(rf" {row['links']}( links)? of {entity} \(prior {percent(1 - row['data'])}\)[,.]", data)


def test_html_is_escaped(odd):
    e = odd.explain("rel", {"a": "x & y", "b": "1"}, top=2)
    html = e._repr_html_()
    assert "<b>" in Page(html).seen
    assert "<b>" not in html
    assert "rel(x & y, 1)" in Page(html).seen
    assert str(e) == repr(e)


WORDS = """
Components
55 %  ann · inn, spa, zoo (rank 3 of 3)
45 %  bob, eve, ann (rank 3 of 3) · zoo

Supporting links (estimated drop of the mean if the link were absent)
−34 %  visits(ann, inn), value 3
−33 %  visits(bob, zoo), value 4
−10 %  friends(ann, bob)
       2 other links: −9.1 % on average

Data:  3 links of ann (prior 45 %), 2 of zoo (prior 58 %)."""


def test_text_of_an_explanation():
    visits = {"user": ["ann", "ann", "bob", "bob", "eve"], "place": ["inn", "spa", "inn", "zoo", "zoo"]}
    likes = pl.DataFrame({"user": ["ann", "bob"], "friend": ["bob", "eve"]})
    friends = plait.Relation(likes, self_links="observed", likelihood="poisson")
    fit = plait.fit(
        "visits[user,place] = U[user,r] P[place,r]; friends[user,friend] = U[user,r] F[friend,r]; friend: user",
        {"visits": pl.DataFrame({**visits, "value": [3, 1, 2, 4, 1]}), "friends": friends},
        rank=2, seed=0, max_iter=500, tol=0.0, prior=plait.Gamma(0.5, 1.0), adapt_prior="factor",
    )  # fmt: skip
    text = str(fit.explain("visits", {"user": "ann", "place": "zoo"}, top=3))
    assert text.split("\n")[0] == "visits(ann, zoo)"
    assert text.split("\n", 2)[2] == WORDS


def test_a_known_link_does_not_explain_itself(odd):
    e = odd.explain("rel", {"a": '"q"', "b": "1"}, top=100)
    assert e.known
    assert e.value == 3.0
    assert "in the training data with value 3" in str(e)
    assert 'rel("q", 1)' not in e.links["link"].to_list()
    assert str(odd.explain("rel", {"a": "x & y", "b": "1"})).split("\n")[1].endswith(", not in the training data")


def test_text_where_no_other_link_bears_on_a_cell():
    table, labels = pl.DataFrame({"i": ["a", "b"], "j": ["x", "y"]}), {"i": ["c"], "j": ["z"]}
    fit = plait.fit(PLANTED, {"X": table}, rank=2, seed=0, max_iter=20, entities=labels)
    own, other = (fit.explain("X", dict(zip("ij", cell))) for cell in ("ax", "cz"))
    assert "\nThis link itself is the only supporting link.\n" in str(own)
    assert "; this link is included" in str(own)
    assert "This link itself is the only supporting link." in own._repr_html_()
    assert "\nThere are no supporting links.\n" in str(other)
    assert "this link" not in str(other)
    assert "Data:  1 link of " in str(own)
    assert "Data:  0 links of " in str(other)


def test_em_has_no_prior_to_rest_on():
    fit = make("matrix").fit("em", max_iter=6)
    for row in two_cells(fit, "X"):
        e = fit.explain("X", named(fit.model.equation("X"), row))
        assert "; EM has no prior." in str(e)
        assert "(prior" not in str(e)
        np.testing.assert_allclose(e.evidence["data"], 1.0)
        np.testing.assert_allclose(e.evidence["prior"], 0.0, atol=1e-12)


def test_wide_names_are_aligned_and_long_names_cut():
    users, places = ["東京太郎", "ann", "大阪花子"], ["cafe\u0301", "駅" * 60, "gym"]
    table = pl.DataFrame({"user": np.repeat(users, 3), "place": places * 3, "value": [3, 1, 2, 5, 4, 1, 2, 2, 6]})
    fit = plait.fit("visits[user,place] = U[user,r] P[place,r]", {"visits": table}, rank=2, seed=0, max_iter=20)
    text = str(fit.explain("visits", {"user": "東京太郎", "place": "駅" * 60}))
    assert len({line.index("visits(") for line in text.split("\n") if "%  visits(" in line}) == 1
    assert "駅" * 19 + "…" in text
    assert "駅" * 20 + "…" not in text


@pytest.mark.parametrize("name", ["cp5", "tucker", "rank_one", "no_index_latent", "no_index", "friends_two_names"])
def test_text_fits_a_screen_and_data_fit_json(name):
    fit = make(name).fit(max_iter=5)
    relation = fit.model.relations[0]
    e = fit.explain(relation, dict.fromkeys(fit.model.equation(relation).indices, 1))
    assert len(str(e).split("\n")) <= 44
    assert max(map(len, str(e).split("\n"))) <= 120
    again = json.loads(json.dumps(e.to_dict(), allow_nan=False))
    assert again["relation"] == relation
    assert sum(c["share"] for c in again["components"]) + again["remainder"] == pytest.approx(1.0)
    for table in (e.components, e.entities, e.links, e.evidence):
        assert not any(table[c].is_null().any() for c in table.columns)


def test_columns_of_the_tables(odd):
    e = odd.explain("rel", {"a": "<b>", "b": "1"}, top=2)
    assert e.components.columns == ["component", "r", "share"]
    assert e.components["share"].is_sorted(descending=True)
    assert e.entities.columns == ["component", "index", "name", "weight", "lift", "rank", "of_cell"]
    assert e.links.columns == ["relation", "link", "value", "responsibility", "through"]
    assert e.evidence.columns == ["factor", "entity", "data", "prior", "links"]
    assert len(e.links) == 2
    all_of_them = odd.explain("rel", {"a": "<b>", "b": "1"}, top=100).links["responsibility"]
    assert e.links["responsibility"].sum() + e.other_responsibility == pytest.approx(all_of_them.sum())
    assert len(e.links) + e.other_links == len(all_of_them)


@pytest.mark.parametrize(
    ("cell", "message"),
    [({"a": "<b>", "b": "1", "c": 2}, "c"), ({"a": "<b>", "b": 1}, "integers"), ("ann", "str")],
)
def test_wrong_arguments_are_named(odd, cell, message):
    with pytest.raises(plait.errors.DataError, match=message):
        odd.explain("rel", cell)
    with pytest.raises(plait.errors.ModelError, match="rel"):
        odd.explain("real", {"a": "<b>", "b": "1"})
    for top in (0, 2.5, True, "3"):
        with pytest.raises(plait.errors.ParameterError, match="`top` must be an integer"):
            odd.explain("rel", {"a": "<b>", "b": "1"}, top=top)


def test_the_interval_of_a_negbin_explanation_is_that_of_the_value():
    plays = pl.DataFrame({"user": ["ann", "ann", "bob"], "song": ["x", "y", "x"], "value": [40, 7, 900]})
    relation = plait.Relation(plays, likelihood="negbin")
    fit = plait.fit("plays[user, song] = U[user, r] S[song, r]", relation, rank=2, seed=0, max_iter=5, warmup=0)
    cell = {"user": "bob", "song": "y"}
    told = fit.predict("plays", {index: [name] for index, name in cell.items()}).row(0, named=True)
    second = str(fit.explain("plays", cell)).splitlines()[1]
    assert second.startswith(f"mean {told['mean']:.3g} (90 % interval {told['lower']}–{told['upper']}), probability ")
