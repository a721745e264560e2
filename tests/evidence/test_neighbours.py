"""Ridge self-regression against refits, and evidence in fits, splits, runs and explanations."""

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_array

import plait
from plait.data.held_out import hold_out
from plait.errors import DataError, EvidenceWarning, ParameterError
from plait.evidence import ridge as module
from plait.evidence.link_evidence import LinkEvidence, unfold
from plait.evidence.ridge import SelfRegression, choose_ridge, contributions, restricted_entries
from plait.report.report_data import ReportData
from plait.report.reproduce import fitting

MODEL = plait.Model("likes[user, film] = U[user, r] F[film, r]")
QUICK = {"rank": 2, "max_iter": 6, "warmup": 0, "seed": 0}


def random_links(n, m, density, seed):
    return csr_array((np.random.default_rng(seed).random((n, m)) < density).astype(float))


def refit(X, ridge, row, column, weights=None, extra=0.0):
    """The prediction of a cell by a ridge regression of its column on all others, in which the cell is 0."""
    others = np.delete(X, column, axis=1)
    target = X[:, column].copy()
    target[row] = 0.0
    v = np.ones(len(X)) if weights is None else weights
    gram = others.T @ (v[:, None] * others)
    penalty = ridge * np.eye(len(gram)) + extra * np.diag(np.diag(gram))
    return float(others[row] @ np.linalg.solve(gram + penalty, others.T @ (v * target)))


@pytest.mark.parametrize(("shape", "is_dual"), [((7, 12), True), ((12, 7), False)])
def test_predictions_are_those_of_refits_without_the_own_link(shape, is_dual):
    X = random_links(*shape, 0.4, 1)
    solved = SelfRegression.solve(X, 2.5)
    assert solved.is_dual == is_dual
    found, linked = solved.predictions(np.arange(shape[1]))
    expected = [[refit(X.toarray(), 2.5, e, j) for j in range(shape[1])] for e in range(shape[0])]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(linked, X.toarray() > 0)


def test_contributions_add_up_to_the_prediction():
    X = random_links(9, 14, 0.4, 2)
    found, _ = SelfRegression.solve(X, 3.0).predictions(np.arange(14))
    for row, column in [(0, 0), (3, 5), (8, 13)]:
        facts, values = contributions(X, 3.0, row, column)
        np.testing.assert_allclose(values.sum(), found[row, column], rtol=1e-6)
        assert set(facts) == set(np.flatnonzero(X.toarray()[row])) - {column}


def test_restricted_predictions_are_those_of_weighted_refits_where_all_columns_are_near():
    X = random_links(30, 8, 0.5, 3)
    degrees = X.toarray().sum(axis=1)
    weights = np.divide(1.0, np.sqrt(degrees), out=np.zeros(30), where=degrees > 0)
    weights *= X.nnz / (weights @ degrees)
    found = restricted_entries(X, 4.0, per_row=True)
    assert len(found.values) > 100
    for row, column, value in zip(*found):
        expected = refit(X.toarray(), 4.0, row, column, weights, module.DIAGONAL_SHARE)
        np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-6)


def test_restricted_predictions_keep_the_largest_of_each_row(tuning):
    tuning(ridge_row_predictions=2)
    X = random_links(30, 8, 0.3, 4)
    every = {(r, c) for r, c in zip(*np.nonzero(X.toarray()))}
    for per_row in (True, False):
        found = restricted_entries(X, 4.0, per_row=per_row)
        new = [(r, c) for r, c in zip(found.rows.tolist(), found.columns.tolist()) if (r, c) not in every]
        side = [cell[0 if per_row else 1] for cell in new]
        assert new
        assert max(side.count(k) for k in side) <= 2


def test_evidence_of_random_links_does_not_know_them():
    rng = np.random.default_rng(5)
    cells = np.unique(rng.integers(0, (40, 6, 40), (900, 3)), axis=0)
    data = plait.Model("facts[h, p, t] = A[h, r] P[p, r] A[t, r]\nt: h").bind(
        {"facts": pl.DataFrame(cells, ["h", "p", "t"], orient="row")}
    )
    at, values = plait.evidence.neighbours(data, "facts").entries(data)
    evidence = np.zeros((40, 6, 40))
    evidence[tuple(at.T)] = values
    linked = np.zeros(evidence.shape, bool)
    linked[tuple(data.relations["facts"].cells.T)] = True
    assert 0.42 < np.mean(evidence[linked][:, None] > rng.choice(evidence[~linked], 500)) + 0.5 * np.mean(
        evidence[linked][:, None] == rng.choice(evidence[~linked], 500)
    ) < 0.58  # fmt: skip


def test_an_unfolding_maps_entries_to_cells_and_back():
    cells = np.array([[0, 0, 1], [1, 0, 2], [2, 1, 0]])
    first, second = unfold(cells, (3, 2, 3), ("h", "p", "h"))
    assert (first.axis, second.axis) == ("h", "p")
    for unfolding in (first, second):
        rows, columns = unfolding.X.tocoo().coords
        found = {tuple(cell) for cell in unfolding.cells(rows, columns).tolist()}
        assert found == {tuple(cell) for cell in cells.tolist()}
    assert first.column(0, cells[0]) is not None
    assert first.column(0, np.array([0, 1, 1])) is None


def groups_of_friends(seed=0):
    """Users of two tastes, who like most films of theirs."""
    rng = np.random.default_rng(seed)
    rate = np.kron(np.eye(2), np.full((12, 15), 0.6)) + 0.02
    users, films = np.nonzero(rng.random(rate.shape) < rate)
    return pl.DataFrame({"user": [f"u{u:02}" for u in users], "film": [f"f{f:02}" for f in films]})


def test_a_fit_computes_evidence_from_its_own_links():
    likes = groups_of_friends()
    data = MODEL.bind({"likes": likes})
    held_out = hold_out(data, "likes", 0.3, np.random.default_rng(0))
    evidence = plait.evidence.neighbours(data, "likes", ridge=10.0)
    alone = plait.evidence.neighbours(held_out.data, "likes", ridge=10.0)
    for found, expected in zip(evidence.entries(held_out.data), alone.entries(held_out.data)):
        np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(evidence.entries(data)[1], alone.entries(held_out.data)[1])


def test_evidence_as_an_option_adds_a_term_that_predicts_is_saved_and_explained(tmp_path):
    likes = groups_of_friends()
    fit = plait.fit(MODEL, {"likes": likes}, evidence="neighbours", **QUICK)
    assert str(fit.model) == ("likes[user, film] = U[user, r] F[film, r] + w_neighbours[] neighbours[user, film]")
    top = fit.top("likes", 5, given={"user": "u00"})
    assert set(top["film"]) <= {f"f{f:02}" for f in range(15)}
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert loaded.settings["evidence_terms"]["neighbours"]["relation"] == "likes"
    assert "\nEvidence: neighbours of likes." in str(loaded)
    cell = top.row(0, named=True)
    for one in (fit, loaded):
        assert one.predict("likes", top.head(1).select("user", "film"))["mean"][0] == cell["mean"]
        reasons = one.explain("likes", {"user": "u00", "film": cell["film"]}).reasons
        assert reasons
        assert all("u00" in r.cell.values() or cell["film"] in r.cell.values() for r in reasons)
        assert 0 < sum(r.responsibility for r in reasons) <= 1.5


def test_auto_keeps_evidence_that_ranks_held_out_links_higher_and_drops_the_rest():
    users, films = np.nonzero(np.abs(np.subtract.outer(range(40), range(40))) <= 3)
    kept = np.random.default_rng(0).random(len(users)) < 0.8
    near = pl.DataFrame({"user": users[kept], "film": films[kept]})  # a band: many neighbours, no two groups
    assert "neighbours" in str(plait.fit(MODEL, {"likes": near}, evidence="auto", **QUICK).model)
    assert plait.fit(MODEL, {"likes": near.head(90)}, evidence="auto", **QUICK).model == MODEL  # too few to tell


def test_evidence_works_with_restarts_an_open_rank_and_other_methods():
    likes = groups_of_friends()
    options = {"evidence": "neighbours", "max_iter": 4, "warmup": 0, "seed": 0}
    fit = plait.fit(MODEL, {"likes": plait.Relation(likes, likelihood="bernoulli")}, restarts=2, rank=2, **options)
    assert len(fit.members) == 2
    assert plait.fit(MODEL, {"likes": likes}, method="em", rank=2, **{**options, "warmup": None}).objective < 0


def test_graphs_get_paths_next_to_neighbours_with_equal_values_both_ways():
    edges = pl.DataFrame({"a": [0, 0, 1, 1, 2, 3], "b": [1, 2, 2, 3, 3, 4]})
    model = "links[a, b] = U[a, r] U[b, r]\nb: a"
    fit = plait.fit(model, {"links": edges}, evidence=["neighbours", "paths"], **QUICK)
    assert fit.exposures.names == {"neighbours", "paths"}
    for number in (1, 2):
        V = fit.exposures.of("links", number)
        pairs = np.array([[a, b] for a in range(5) for b in range(5) if a != b])
        np.testing.assert_array_equal(V.at(pairs), V.at(pairs[:, ::-1]))


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("neighbors", "neighbours"),
        ({"like": "paths"}, "likes"),
        (3, "evidence"),
        (["paths", "roads"], "paths"),
        (["auto", "paths"], "cannot be in a list"),
    ],
)
def test_wrong_evidence_is_refused(evidence, words):
    with pytest.raises(ParameterError, match=words):
        plait.fit(MODEL, {"likes": groups_of_friends()}, evidence=evidence, **QUICK)


def test_rules_of_a_symmetric_equation_are_refused():
    facts = pl.DataFrame([("a", "knows", "b"), ("b", "likes", "c")], ["h", "k", "t"], orient="row")
    with pytest.raises(ParameterError, match=r'`evidence="rules"`: the equation of facts is symmetric'):
        plait.fit("facts[h, k, t] = A[h, r] B[k, r] A[t, r]\nt: h", {"facts": facts}, evidence="rules", **QUICK)


def test_evidence_is_refused_where_few_cells_are_observed_and_warned_of_where_half_are_not():
    likes = groups_of_friends()
    stars = likes.sample(30, seed=0).with_row_index().with_columns(value=1 + pl.col("index") % 2).drop("index")
    listed = {"likes": plait.Relation(stars, observed="listed")}
    with pytest.raises(DataError, match="observed"):
        plait.evidence.neighbours(MODEL.bind(listed), "likes")
    films = likes["film"].unique().sort().head(20)
    partly = {"likes": plait.Relation(likes, missing=pl.DataFrame({"film": films}))}
    with pytest.warns(EvidenceWarning, match="observed"):
        plait.evidence.neighbours(MODEL.bind(partly), "likes")


def test_a_factor_of_evidence_has_the_indices_of_its_relation():
    data = MODEL.bind({"likes": groups_of_friends()})
    evidence = plait.evidence.neighbours(data, "likes", ridge={"user": 3.0, "film": 30.0})
    assert evidence.params == {"user": 3.0, "film": 30.0}
    model = "likes[user, film] = U[user, r] F[film, r] + w[] N[user]"
    with pytest.raises(ParameterError, match=r"N\[user, film\]"):
        plait.fit(model, {"likes": groups_of_friends()}, fixed={"N": evidence}, **QUICK)
    with pytest.raises(ParameterError, match="likes"):
        plait.evidence.neighbours(data, "like")
    with pytest.raises(ParameterError, match="ridge"):
        plait.evidence.neighbours(data, "likes", ridge=0)
    with pytest.raises(ParameterError, match="axis"):
        plait.evidence.neighbours(data, "likes", ridge={"item": 1.0})


def test_the_ridge_ranks_sampled_links_and_is_inside_its_range():
    X = csr_array(np.kron(np.eye(3), np.ones((8, 8))) * (np.random.default_rng(0).random((24, 24)) < 0.7))
    assert choose_ridge(X, 0) in module.RIDGES
    assert choose_ridge(csr_array((5, 4)), 0) == module.RIDGES[0]


def test_data_without_a_model_have_one_axis_per_index():
    evidence = plait.evidence.neighbours({"likes": groups_of_friends()}, "likes")
    assert isinstance(evidence, LinkEvidence)
    assert set(evidence.params) == {"user", "film"}


def test_a_report_reproduces_the_model_as_it_was_given():
    fit = plait.fit(MODEL, {"likes": groups_of_friends()}, evidence="neighbours", **QUICK)
    text = fitting(ReportData(fit))
    assert f'"""\n{MODEL}\n"""' in text
    assert "evidence='neighbours'" in text


def test_evidence_is_refused_for_packed_data(tmp_path):
    likes = groups_of_friends()
    packed = plait.pack(MODEL, {"likes": likes}, tmp_path / "blocks")
    with pytest.raises(ParameterError, match="in memory"):
        plait.fit(MODEL, packed, evidence="neighbours", **QUICK)


@pytest.mark.parametrize("options", [{"weight": 0.5}, {"missing": pl.DataFrame({"film": ["f00", "f01"]})}])
def test_evidence_works_with_weights_missing_cells_and_coupled_relations(options):
    likes = groups_of_friends()
    data = {"likes": plait.Relation(likes, **options), "tags": likes.rename({"user": "tag"})}
    fit = plait.fit(f"{MODEL}\ntags[tag, film] = T[tag, r] F[film, r]", data, evidence={"likes": "neighbours"}, **QUICK)
    assert "neighbours" in str(fit.model.equation("likes"))
    assert "neighbours" not in str(fit.model.equation("tags"))
    assert fit.factors["w_neighbours"].mean > 0.1


def test_scales_of_neighbours_are_fitted_alone_and_then_with_the_components():
    links = np.random.default_rng(5).random((14, 12)) < 0.4
    data = {"likes": plait.Relation(links.astype(int), likelihood="poisson")}
    evidence = plait.evidence.neighbours(data, "likes", model=MODEL, ridge=3)
    cells, values = evidence.entries(MODEL.bind(data))
    text = f"{MODEL} + w[] N[user, film]"

    def scale(sweeps, own):
        given = {"rank": 3, "fixed": {"N": own}, "max_iter": sweeps, "seed": 0}
        return float(plait.fit(text, data, **given).factors["w"].mean)

    alone = links[tuple(cells.T)].sum() / values.sum()  # the maximum of the Poisson likelihood where N is not 0
    np.testing.assert_allclose(scale(0, evidence), alone, rtol=0.02)
    assert 0.1 * alone < scale(40, evidence) < 0.98 * alone  # components have taken some links
    table = pl.DataFrame(cells, schema=["user", "film"]).with_columns(value=values)
    assert scale(0, plait.Exposure(table, default=0)) < 1e-3 * alone  # of a table: it joins later
