"""Saved and loaded fits; folders that are no runs."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.errors import StorageError
from tests.support.manifests import change, manifest
from tests.support.problems import make
from tests.support.store_runs import MATRIX, PowerCutError, assert_equal, cut_power, fitted, tables

CP3 = "visits[user, place, hour] = U[user, r] P[place, r] H[hour, r]"


def small(seed=0):
    return plait.fit(MATRIX, {"X": np.eye(3)}, rank=1, seed=seed, max_iter=2, warmup=0)


def named_files(run):
    return {entry["file"] for entry in manifest(run)["files"].values()} | {"manifest.json"}


def names(folder):
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("place", ["run", "deep/model.plait"])
def test_a_loaded_fit_equals_the_saved_one(place, fit, tmp_path):
    fit.save(tmp_path / place, extra={"note": 1})
    loaded = plait.load(tmp_path / place)
    assert_equal(fit, loaded)
    assert manifest(tmp_path / place)["extra"] == {"note": 1}
    cells, cell = tables()["visits"].drop("value"), {"user": "bob", "place": 1, "hour": 8}
    assert loaded.predict("visits", cells).equals(fit.predict("visits", cells))
    assert loaded.top("visits", 3, given={"user": "ann"}).equals(fit.top("visits", 3, given={"user": "ann"}))
    assert str(loaded.explain("visits", cell)) == str(fit.explain("visits", cell))


@pytest.mark.parametrize("method", ["em", "map", "vb"])
@pytest.mark.parametrize("name", ["tucker_mixed_order", "two_visible", "coupled_scalar", "no_index", "bias"])
def test_every_kind_of_factor_is_saved(name, method, tmp_path):
    fit = make(name, "missing_cells").fit(method, max_iter=3)
    fit.save(tmp_path)
    assert_equal(fit, plait.load(tmp_path))


@pytest.mark.parametrize(
    "names",
    [
        pl.Series([True, False]),
        pl.Series([3, 2**63 + 5], dtype=pl.UInt64),
        pl.Series(["2024-01-01", "2024-03-01"]).str.to_date(),
        pl.Series(["2024-01-01T10:00", "2024-03-01T11:00"]).str.to_datetime(time_zone="Europe/Berlin"),
        pl.Series(["", "a\nb"]),
    ],
    ids=lambda names: str(names.dtype),
)
def test_labels_of_every_type_are_saved(names, tmp_path):
    fit = plait.fit(MATRIX, {"X": pl.DataFrame({"i": names, "j": [0, 1]})}, rank=1, max_iter=1, seed=0)
    fit.save(tmp_path)
    assert plait.load(tmp_path).entities["i"] == fit.entities["i"]


def test_a_run_holds_no_pickle_and_has_the_usual_permissions(fit, tmp_path):
    (tmp_path / "plain").touch()
    fit.save(tmp_path / "run")
    files = list((tmp_path / "run").iterdir())
    assert {path.suffix for path in files} == {".json", ".safetensors", ".parquet"}
    assert {path.stat().st_mode for path in files} == {(tmp_path / "plain").stat().st_mode}


# --- replacing a run


@pytest.mark.parametrize(("name", "noun"), [("run", "folder"), ("run.plait", "file")])
def test_only_replace_overwrites_the_run_of_another_fit(name, noun, fit, tmp_path):
    path = tmp_path / name
    fit.save(path)
    other = small()
    with pytest.raises(StorageError, match=f"{name}: this {noun} already contains a run of another fit") as caught:
        other.save(path)
    assert "replace=True" in caught.value.hint
    assert_equal(fit, plait.load(path))
    other.save(path, replace=True, extra={"note": "second"})
    assert_equal(other, plait.load(path))
    assert manifest(path)["extra"] == {"note": "second"}
    with pytest.raises(StorageError, match="of another fit"):  # equal, but fitted again
        small().save(path)
    if noun == "folder":
        assert names(path) == named_files(path)


@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_saving_a_fit_again_keeps_extra(name, fit, tmp_path):
    path = tmp_path / name
    fit.save(path, extra={"note": "first"})
    fit.save(path)
    plait.load(path).save(path)
    assert manifest(path)["extra"] == {"note": "first"}
    fit.save(path, extra={})
    assert manifest(path)["extra"] == {}
    assert_equal(fit, plait.load(path))


def test_a_fit_replaces_its_own_checkpoint_but_not_a_later_one(tmp_path):
    data = {"X": np.eye(4)}
    early = plait.fit(MATRIX, data, rank=2, seed=0, max_iter=3, tol=0.0, checkpoint=tmp_path / "run")
    early.save(tmp_path / "early")
    late = plait.fit(MATRIX, data, rank=2, max_iter=8, tol=0.0, init=tmp_path / "run")
    late.save(tmp_path / "run")
    assert_equal(late, plait.load(tmp_path / "run"))
    with pytest.raises(StorageError, match="of another fit"):
        early.save(tmp_path / "run")


def test_other_files_are_not_overwritten(fit, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StorageError, match=r"this folder contains other files, such as 'thesis.tex'"):
        fit.save(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"expected a folder or a \.plait file, got another file"):
        fit.save(tmp_path / "file")
    with pytest.raises(StorageError, match="Not a directory") as caught:
        fit.save(tmp_path / "file" / "run")
    assert caught.value.hint.startswith("Save into another folder")
    with pytest.raises(plait.errors.ParameterError, match="`extra` cannot be written as JSON"):
        fit.save(tmp_path / "run", extra={"x": float("nan")})
    assert names(tmp_path) == {"thesis.tex", "file"}


# --- a crash while saving


MOMENTS = [("run", moment) for moment in range(30)] + [("run.plait", moment) for moment in range(0, 30, 3)]


@pytest.mark.quick(moment=[0, 7, 9, 14])
@pytest.mark.parametrize(("name", "moment"), MOMENTS)
def test_a_crash_leaves_the_old_run_or_the_new_one(name, moment, fit, tmp_path, monkeypatch):
    path, newer, finished = tmp_path / name, fitted(seed=1), False
    fit.save(path)
    with monkeypatch.context() as patch:
        cut_power(patch, moment)
        try:
            newer.save(path, replace=True)
            finished = True
        except PowerCutError:
            pass
    loaded = plait.load(path)
    assert_equal(loaded, newer if loaded.seed == 1 else fit)
    assert not finished or loaded.seed == 1
    newer.save(path, replace=True)
    assert names(tmp_path) == {name}
    if name == "run":
        assert names(path) == named_files(path)


# --- folders that cannot be read


def rewrite(text):
    return lambda path: path.write_text(text)


MANIFESTS = {
    "missing": (lambda path: path.unlink(), "run: this is not a run of Plait: manifest"),
    "cut": (lambda path: path.write_text(path.read_text()[:100]), "manifest is damaged"),
    "another program's": (rewrite('{"name": "app"}'), "not the manifest of a run of Plait"),
    "newer": (lambda path: change(path, version=8), "version 8, but this version of Plait reads versions up to 7"),
    "nested": (rewrite("[" * 100_000), "manifest is damaged"),
    "without a file": (lambda path: change(path, files={}), "manifest is damaged: labels-0-user"),
    "without a key": (rewrite('{"format": "plait-run", "version": 1}'), "manifest is damaged: it has no 'model'"),
}


@pytest.mark.parametrize("damage", MANIFESTS)
def test_a_damaged_manifest_is_refused(damage, tmp_path):
    small().save(tmp_path / "run")
    harm, message = MANIFESTS[damage]
    if damage == "without a file":
        message = message.replace("user", "i")
    harm(tmp_path / "run" / "manifest.json")
    with pytest.raises(StorageError, match=message) as caught:
        plait.load(tmp_path / "run")
    assert str(tmp_path / "run") in str(caught.value)
    assert caught.value.hint


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(StorageError, match="the folder does not exist"):
        plait.load(tmp_path / "run")


# --- the fingerprint


def fingerprint(data, model=CP3, **options):
    return plait.fit(model, data, rank=1, max_iter=0, seed=0, **options).fingerprint


@pytest.mark.thorough
@given(order=st.permutations(range(6)))
def test_the_order_of_rows_keeps_the_fingerprint(order):
    visits = tables()["visits"]
    assert fingerprint({"visits": visits}) == fingerprint({"visits": visits[order]})


def test_values_of_1_and_the_order_of_factors_keep_the_fingerprint():
    links = tables()["visits"].drop("value")
    assert fingerprint({"visits": links}) == fingerprint({"visits": links.with_columns(value=1.0)})
    given = {"A": np.ones((2, 1)), "B": np.full((2, 1), 2.0)}
    first, second = (
        fingerprint({"X": np.eye(2)}, "X[i,j] = A[i,r] B[j,r] w[r]", fixed={name: given[name] for name in order})
        for order in ("AB", "BA")
    )
    assert first == second


def test_every_change_of_the_data_changes_the_fingerprint():
    visits = tables()["visits"]
    ways = [
        visits,
        visits.with_columns(value=pl.col("value") + 1),
        visits.with_columns(user=pl.col("user").str.replace("ann", "Ann")),
        visits.head(5),
        plait.Relation(visits, weight=2.0),
        plait.Relation(visits, missing=pl.DataFrame({"user": ["ann"], "place": [3], "hour": [8]})),
        plait.Relation(visits, observed=0.5),
    ]
    assert len({fingerprint({"visits": data}) for data in ways}) == len(ways)


@pytest.mark.thorough
def test_many_links_are_found_in_a_fit_and_a_loaded_run(tmp_path):
    cells = np.random.default_rng(0).permutation(400 * 300)[:50_009]
    table = pl.DataFrame({"i": cells // 300, "j": cells % 300, "value": 1 + cells % 3})
    fit = plait.fit(MATRIX, {"X": table}, rank=2, seed=0, max_iter=2, progress=False)
    fit.save(tmp_path / "run")
    wanted = {(i, j): value for i, j, value in table.iter_rows()}
    rows = np.stack(np.unravel_index(np.arange(400 * 300), (400, 300)), axis=1)
    for known in (fit.known["X"], plait.load(tmp_path / "run").known["X"]):
        assert known.values_at(rows).tolist() == [wanted.get(tuple(row), 0.0) for row in rows.tolist()]
        assert known.contain(rows).sum() == len(table)
        np.testing.assert_array_equal(known.cells, rows[known.contain(rows)])
