"""A fit saved and loaded is the same fit; a folder that is not a run says so."""

import os
from dataclasses import fields

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError

import plait
from plait.data.cells.ranges import MANY
from plait.errors import StoreError
from plait.run import folder as folders
from tests.cases import make
from tests.sealed import change

TEXT = """
    visits[user, place, hour] = V[user, place] U[user, r] P[place, r] H[hour, r]
    friends[user, friend]     = U[user, r] F[friend, r]
    friend: user
"""


def tables():
    visits = pl.DataFrame(
        {
            "user": ["ann", "ann", "bob", "cem lee", "dee", 'e"v,a'],
            "place": [1, 2, 2, 3, 1, 3],
            "hour": [8, 9, 8, 20, 9, 21],
            "value": [2.0, 1.0, 3.0, 1.0, 1.0, 4.0],
        }
    )
    friends = pl.DataFrame({"user": ["ann", "bob", "dee"], "friend": ["bob", "cem lee", "zoë"]})
    return {"visits": visits, "friends": plait.Relation(friends, likelihood="bernoulli")}


@pytest.fixture
def fit():
    been = plait.Exposure(pl.DataFrame({"user": ["ann", "bob"], "place": [1, 2]}), default=0.1)
    return plait.fit(TEXT, tables(), rank=2, seed=0, sweeps=15, fixed={"V": been})


def assert_equal(left, right):
    """Two fits are the same to the last bit."""
    for word in ("method", "rank", "bound", "stop", "seed", "likelihood", "settings", "fingerprint", "history"):
        assert getattr(left, word) == getattr(right, word), word
    assert left.model == right.model
    assert dict(left.labels) == dict(right.labels)
    assert list(left.factors) == list(right.factors)
    for name, factor in left.factors.items():
        for field in fields(factor):
            assert np.array_equal(getattr(factor, field.name), getattr(right.factors[name], field.name)), field.name
    for name, prior in left.prior.items():
        assert np.array_equal(prior.concentration, right.prior[name].concentration)
        assert np.array_equal(prior.mean, right.prior[name].mean)
    for name, known in left.known.items():
        for word in ("shape", "cells", "values", "weights"):
            assert np.array_equal(getattr(known, word), getattr(right.known[name], word)), word


def test_loaded_fit_is_the_saved_one_and_answers_alike(fit, tmp_path):
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert_equal(fit, loaded)
    cells = tables()["visits"].drop("value")
    assert loaded.predict("visits", cells).equals(fit.predict("visits", cells))
    assert loaded.top("visits", 3, given={"user": "ann"}).equals(fit.top("visits", 3, given={"user": "ann"}))
    cell = {"user": "bob", "place": 1, "hour": 8}
    assert str(loaded.explain("visits", cell)) == str(fit.explain("visits", cell))


@pytest.mark.parametrize("method", ["em", "map", "vb"])
@pytest.mark.parametrize("name", ["tucker_mixed_order", "two_visible", "coupled_scalar", "no_index", "bias"])
def test_every_kind_of_factor_survives(name, method, tmp_path):
    fit = make(name, "missing_cells").fit(method, sweeps=3)
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
def test_labels_of_every_kind_survive(names, tmp_path):
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": pl.DataFrame({"i": names, "j": [0, 1]})}, rank=1, sweeps=1, seed=0)
    fit.save(tmp_path)
    assert plait.load(tmp_path).labels["i"] == fit.labels["i"]


def test_replacing_a_run_leaves_no_other_file(fit, tmp_path):
    fit.save(tmp_path)
    before = {p.name for p in tmp_path.iterdir()}
    other = plait.fit("visits[user, place, hour] = U[user, r] P[place, r] H[hour, r]", {"visits": tables()["visits"]},
                      rank=1, seed=1, sweeps=2)  # fmt: skip
    other.save(tmp_path, replace=True, extra={"note": "second"})
    assert_equal(other, plait.load(tmp_path))
    assert folders.manifest(tmp_path)["extra"] == {"note": "second"}
    assert {p.name for p in tmp_path.iterdir()} & before == {"manifest.json"}
    named = {entry["file"] for entry in folders.manifest(tmp_path)["files"].values()}
    assert {p.name for p in tmp_path.iterdir()} == named | {"manifest.json"}


def test_the_run_of_another_fit_is_replaced_only_where_that_is_said(fit, tmp_path):
    fit.save(tmp_path / "run")
    other = plait.fit(TEXT, tables(), rank=2, seed=0, sweeps=15, fixed={"V": plait.Exposure(_been(), default=0.1)})
    with pytest.raises(StoreError) as caught:
        other.save(tmp_path / "run")
    assert str(caught.value) == (
        f"{tmp_path / 'run'}: this folder holds a run already, of another fit.\n"
        "Save into another folder, or give `replace=True`."
    )
    assert_equal(fit, plait.load(tmp_path / "run"))
    other.save(tmp_path / "run", replace=True)
    assert_equal(other, plait.load(tmp_path / "run"))


def test_the_same_fit_made_again_is_another_one(tmp_path):
    first, second = (plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.eye(3)}, rank=1, seed=0, sweeps=3) for _ in range(2))
    first.save(tmp_path / "run")
    with pytest.raises(StoreError, match="of another fit"):
        second.save(tmp_path / "run")


def test_a_fit_may_be_saved_where_it_is_already_and_what_was_beside_it_stays(fit, tmp_path):
    fit.save(tmp_path, extra={"note": "first"})
    fit.save(tmp_path)
    plait.load(tmp_path).save(tmp_path)
    assert folders.manifest(tmp_path)["extra"] == {"note": "first"}
    fit.save(tmp_path, extra={})
    assert folders.manifest(tmp_path)["extra"] == {}
    assert_equal(fit, plait.load(tmp_path))


def test_a_fit_may_be_saved_over_its_own_checkpoint_but_not_over_what_became_of_it(tmp_path):
    text, data = "X[i,j] = A[i,r] B[j,r]", {"X": np.eye(4)}
    early = plait.fit(text, data, rank=2, seed=0, sweeps=3, tol=0.0, checkpoint=tmp_path / "run")
    early.save(tmp_path / "early")
    late = plait.fit(text, data, rank=2, sweeps=8, tol=0.0, init=tmp_path / "run")
    late.save(tmp_path / "run")
    assert_equal(late, plait.load(tmp_path / "run"))
    with pytest.raises(StoreError, match="of another fit"):
        early.save(tmp_path / "run")


def test_nothing_in_a_run_is_a_pickle(fit, tmp_path):
    fit.save(tmp_path)
    assert {p.suffix for p in tmp_path.iterdir()} == {".json", ".safetensors", ".parquet"}


# --- a crash while saving


class PowerCutError(Exception):
    pass


@pytest.mark.sampled(12)
@pytest.mark.parametrize("moment", range(30))
def test_crash_at_any_moment_leaves_the_old_run_or_the_new_one(moment, fit, tmp_path, monkeypatch):
    """Cut the power at the n-th call that changes the disk: nothing is cleaned up after it."""
    fit.save(tmp_path)
    newer = plait.fit(TEXT, tables(), rank=3, seed=1, sweeps=2, fixed={"V": plait.Exposure(_been(), default=0.5)})
    calls = 0

    def cut(function):
        def wrapper(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls > moment:
                raise PowerCutError
            return function(*arguments, **named)

        return wrapper

    with monkeypatch.context() as patch:
        for name in ("fsync", "replace", "open"):
            patch.setattr(folders.os, name, cut(getattr(os, name)))
        patch.setattr(folders.Path, "unlink", cut(folders.Path.unlink))
        try:
            newer.save(tmp_path, replace=True)
            finished = True
        except PowerCutError:
            finished = False
    loaded = plait.load(tmp_path)
    assert_equal(loaded, newer if loaded.seed == 1 else fit)
    if finished:
        assert loaded.seed == 1
    newer.save(tmp_path, replace=True)  # and what the cut left behind is cleared by the next save
    named = {entry["file"] for entry in folders.manifest(tmp_path)["files"].values()}
    assert {p.name for p in tmp_path.iterdir()} == named | {"manifest.json"}


def _been():
    return pl.DataFrame({"user": ["dee"], "place": [1]})


FULL = {
    "system": OSError(28, "No space left on device"),
    "safetensors": SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    "polars": pl.exceptions.ComputeError("parquet: underlying IO error: No space left on device (os error 28)"),
}


@pytest.mark.parametrize("who", FULL)
def test_full_disk_is_reported_and_the_old_run_stays(who, fit, tmp_path, monkeypatch):
    fit.save(tmp_path)
    before = {p.name for p in tmp_path.iterdir()}

    def full(handle):
        raise FULL[who]

    monkeypatch.setattr(folders.os, "fsync", full)
    with pytest.raises(StoreError) as caught:
        fit.save(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: the run cannot be saved: No space left on device.\n"
        "Make room, or save into another folder; what was there is as it was."
    )
    assert {p.name for p in tmp_path.iterdir()} == before


def test_folder_that_cannot_be_made_is_reported(fit, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as caught:
        fit.save(tmp_path / "file" / "run")
    assert str(caught.value).endswith("Not a directory.\nSave into another folder; what was there is as it was.")


def test_files_of_a_run_are_as_readable_as_any_other(fit, tmp_path):
    (tmp_path / "plain").touch()
    fit.save(tmp_path / "run")
    assert {p.stat().st_mode for p in (tmp_path / "run").iterdir()} == {(tmp_path / "plain").stat().st_mode}


# --- folders that cannot be read


DAMAGE = {
    "no manifest": (lambda run: (run / "manifest.json").unlink(), "{run}: this is no run of Plait: it has no manifest"),
    "cut manifest": (
        lambda run: (run / "manifest.json").write_text((run / "manifest.json").read_text()[:100]),
        "{run}/manifest.json: the manifest is damaged: ",
    ),
    "another program's": (
        lambda run: (run / "manifest.json").write_text('{"name": "app"}'),
        "{run}/manifest.json: this is not the manifest of a run of Plait.",
    ),
    "newer": (
        lambda run: change(run / "manifest.json", version=7),
        "{run}: the run has format version 7, but this Plait knows versions up to 6.\nUpgrade Plait",
    ),
    "nested": (
        lambda run: (run / "manifest.json").write_text("[" * 100_000),
        "{run}/manifest.json: the manifest is damaged: ",
    ),
    "entry gone": (
        lambda run: change(run / "manifest.json", files={}),
        "{run}/manifest.json: the manifest is damaged: it names no labels-0-user.",
    ),
    "key gone": (
        lambda run: (run / "manifest.json").write_text('{"format": "plait-run", "version": 1}'),
        "{run}/manifest.json: the manifest is damaged: it has no 'model'.",
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_or_foreign_folder_is_refused(damage, fit, tmp_path):
    fit.save(tmp_path / "run")
    harm, message = DAMAGE[damage]
    harm(tmp_path / "run")
    with pytest.raises(StoreError) as caught:
        plait.load(tmp_path / "run")
    assert str(caught.value).startswith(message.format(run=tmp_path / "run"))


@pytest.mark.parametrize("harm", ["gone", "cut", "bit"])
def test_damage_to_any_file_is_found(harm, fit, tmp_path):
    for name in ("state-0", "labels-0-user", "known-0-visits", "known-1-friends", "exposures"):
        run = tmp_path / name
        fit.save(run)
        path = run / folders.manifest(run)["files"][name]["file"]
        if harm == "gone":
            path.unlink()
        elif harm == "cut":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(bytes(content))
        with pytest.raises(StoreError) as caught:
            plait.load(run)
        assert str(caught.value).startswith(
            f"{path}: this file of the run is {'missing' if harm == 'gone' else 'damaged'}."
        )


def test_missing_folder_is_refused(tmp_path):
    with pytest.raises(StoreError, match="there is no such folder"):
        plait.load(tmp_path / "run")


def test_folder_with_other_things_is_not_written_to(fit, tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(StoreError, match=r"this folder holds other things, such as 'thesis.tex'"):
        fit.save(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"a run is a folder or an archive of one \(\.plait\), but this is a file"):
        fit.save(tmp_path / "file")
    assert {p.name for p in tmp_path.iterdir()} == {"thesis.tex", "file"}


def test_extra_that_json_cannot_hold_is_refused(fit, tmp_path):
    with pytest.raises(plait.SettingError, match="extra cannot be written as JSON"):
        fit.save(tmp_path / "run", extra={"x": float("nan")})
    assert not (tmp_path / "run").exists()


# --- the fingerprint


@given(order=st.permutations(range(6)))
def test_fingerprint_does_not_depend_on_the_order_of_rows(order):
    first, second = (
        plait.fit("visits[user, place, hour] = U[user, r] P[place, r] H[hour, r]", {"visits": table},
                  rank=1, sweeps=0, seed=0).fingerprint
        for table in (tables()["visits"], tables()["visits"][order])
    )  # fmt: skip
    assert first == second


def test_fingerprint_does_not_depend_on_how_a_single_value_is_kept():
    links = tables()["visits"].drop("value")
    first, second = (
        plait.fit("visits[user, place, hour] = U[user, r] P[place, r] H[hour, r]", {"visits": table},
                  rank=1, sweeps=0, seed=0).fingerprint
        for table in (links, links.with_columns(value=1.0))
    )  # fmt: skip
    assert first == second


def test_fingerprint_does_not_depend_on_the_order_of_given_factors():
    given = {"A": np.ones((2, 1)), "B": np.full((2, 1), 2.0)}
    model, data = "X[i,j] = A[i,r] B[j,r] w[r]", {"X": np.eye(2)}
    marks = {
        plait.fit(model, data, rank=1, sweeps=0, seed=0, fixed={name: given[name] for name in names}).fingerprint
        for names in ("AB", "BA")
    }
    assert len(marks) == 1


def test_fingerprint_differs_with_anything_that_matters():
    visits = tables()["visits"]
    ways = {
        "as it is": visits,
        "value": visits.with_columns(value=pl.col("value") + 1),
        "name": visits.with_columns(user=pl.col("user").str.replace("ann", "Ann")),
        "row": visits.head(5),
        "weight": plait.Relation(visits, weight=2.0),
        "hidden": plait.Relation(visits, missing=pl.DataFrame({"user": ["ann"], "place": [3], "hour": [8]})),
        "zeros": plait.Relation(visits, observed=0.5),
    }
    text = "visits[user, place, hour] = U[user, r] P[place, r] H[hour, r]"
    marks = {
        word: plait.fit(text, {"visits": data}, rank=1, sweeps=0, seed=0).fingerprint for word, data in ways.items()
    }
    assert len(set(marks.values())) == len(ways)


def test_looking_links_up_and_saving_them_leaves_nothing_behind(tmp_path):
    """Neither cells nor keys of many links stay beside their fibres, in a fresh fit or a loaded one."""
    cells = np.random.default_rng(0).permutation(400 * 300)[: MANY + 9]
    table = pl.DataFrame({"i": cells // 300, "j": cells % 300, "value": 1 + cells % 3})
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": table}, rank=2, seed=0, sweeps=2, progress=False)
    fit.save(tmp_path / "run")
    wanted = {(i, j): value for i, j, value in table.iter_rows()}
    rows = np.stack(np.unravel_index(np.arange(400 * 300), (400, 300)), axis=1)
    for one in (fit, plait.load(tmp_path / "run")):
        known = one.known["X"]
        assert known.values_at(rows).tolist() == [wanted.get(tuple(row), 0.0) for row in rows.tolist()]
        assert known.contain(rows).sum() == len(table)
        assert known.links.stored.dtype == np.uint8
        assert not {"_read", "_lookup"} & known.__dict__.keys()
        np.testing.assert_array_equal(known.cells, rows[known.contain(rows)])
