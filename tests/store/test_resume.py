"""An interrupted fit goes on as if it had not been: bit-equal, wherever it was cut."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import SettingError, StoreError
from tests.cases import make
from tests.sealed import change
from tests.store.test_runs import assert_equal

TEXT = "X[i,j] = A[i,r] B[j,r]"


def counts(seed=0, rows=40, columns=30):
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 1.0, (rows, 4)) @ rng.gamma(0.5, 1.0, (4, columns)))
    i, j = np.nonzero(X)
    return pl.DataFrame({"i": i, "j": j, "value": X[i, j]})


def same_bits(left, right):
    for name, factor in left.factors.items():
        for word in ("concentration", "scale", "mean", "geomean"):
            assert np.array_equal(getattr(factor, word), getattr(right.factors[name], word)), (name, word)
        if name in left.prior:
            assert np.array_equal(left.prior[name].concentration, right.prior[name].concentration)
            assert np.array_equal(left.prior[name].mean, right.prior[name].mean)
    assert [record[:3] for record in left.history] == [record[:3] for record in right.history]
    assert left.bound == right.bound
    assert left.stop == right.stop


CUT = [(name, kind, False) for name in ("cp3", "tucker", "coupled_paper", "two_visible", "coupled_scalar")
       for kind in ("poisson", "bernoulli")] + [("cp3", "poisson", True), ("cp3", "bernoulli", True)]  # fmt: skip


@pytest.mark.sampled(14)
@pytest.mark.parametrize("method", ["em", "map", "vb"])
@pytest.mark.parametrize(("name", "likelihood", "exposed"), CUT)
def test_fit_cut_between_sweeps_ends_bit_equal(name, method, likelihood, exposed, tmp_path):
    case = make(name, "missing_cells", likelihood, exposed=exposed)
    settings = {"method": method}
    whole = case.fit(sweeps=17, **settings)
    for cut in (0, 1, 12):
        run = tmp_path / str(cut)
        case.fit(sweeps=cut, checkpoint=run, **settings)
        same_bits(case.fit(sweeps=17, init=run, **settings), whole)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["em", "vb"])
@pytest.mark.parametrize("name", ["pairwise", "given_in_terms", "symmetric_coupled", "rescal_bias"])
def test_fit_of_a_sum_cut_between_sweeps_ends_bit_equal(name, method, tmp_path):
    case = make(name, "missing_cells")
    settings = {"method": method, "accelerate": True} | ({"start": "em"} if method == "vb" else {})
    whole = case.fit(sweeps=30, **settings)
    for cut in (-20, 0, 21) if method == "vb" else (0, 21):
        run = tmp_path / str(cut)
        case.fit(sweeps=30, checkpoint=run, progress=lambda record, cut=cut: record.sweep < cut, **settings)
        same_bits(case.fit(sweeps=30, init=run, **settings | ({"start": None} if method == "vb" else {})), whole)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["em", "map", "vb"])
def test_fit_cut_between_leaps_ends_bit_equal(method, tmp_path):
    case = make("coupled_paper", "missing_cells")
    settings = {"method": method, "tol": 1e-4}
    settings["accelerate"] = True
    states = []
    whole = case.fit(sweeps=50, **settings)
    for cut in (19, 20, 21, 22, 25, 30, 41):
        run = tmp_path / str(cut)
        cut_off = case.fit(sweeps=50, checkpoint=run, progress=lambda record, cut=cut: record.sweep < cut, **settings)
        states.append(cut_off.state)
        same_bits(case.fit(sweeps=50, init=run, **settings), whole)
    assert any(state.trail.leapt for state in states), "nothing leapt: the test shows less than it says"


@pytest.mark.parametrize("adapt", ["component", "rank-one", "entity"])
def test_fit_with_pruning_and_adaptation_goes_on_bit_equal(adapt, tmp_path):
    rng = np.random.default_rng(4)
    X = rng.poisson(np.outer(rng.gamma(0.5, 1.0, 30), rng.gamma(0.5, 1.0, 20))).astype(float)
    settings = {"rank": 6, "seed": 4, "tol": 0.0, "prune": True, "adapt": adapt}
    whole = plait.fit(TEXT, {"X": X}, sweeps=70, start="random", **settings)
    for cut in (11, 21, 22, 40):
        plait.fit(TEXT, {"X": X}, sweeps=cut, start="random", checkpoint=tmp_path / str(cut), **settings)
        same_bits(plait.fit(TEXT, {"X": X}, sweeps=70, init=tmp_path / str(cut), **settings), whole)
    if adapt == "component":
        assert whole.rank["r"] < 3, "nothing was pruned: the test shows less than it says"


def test_a_run_of_another_tying_goes_on_under_it_unless_another_is_asked_for(tmp_path):
    case = make("coupled_paper")
    case.fit(sweeps=12, adapt="factor", checkpoint=tmp_path)
    ties = dict.fromkeys(case.model.factors, "factor")
    whole = case.fit(sweeps=15, adapt="factor")
    assert whole.settings["adapt"] == ties
    same_bits(case.fit(sweeps=15, init=tmp_path, adapt="auto"), whole)
    assert "rank-one" in case.fit(sweeps=15, init=tmp_path, adapt="rank-one").settings["adapt"].values()


def test_saved_fit_goes_on_from_fit_save_too(tmp_path):
    whole = plait.fit(TEXT, {"X": counts()}, rank=3, sweeps=30, seed=1, tol=0.0)
    plait.fit(TEXT, {"X": counts()}, rank=3, sweeps=13, seed=1, tol=0.0).save(tmp_path)
    same_bits(plait.fit(TEXT, {"X": counts()}, rank=3, sweeps=30, init=str(tmp_path), tol=0.0), whole)


@pytest.mark.filterwarnings("ignore::plait.BoundWarning")  # an optimum below popularity is one
def test_converged_run_has_nothing_left_to_do(tmp_path):
    done = plait.fit(TEXT, {"X": counts()}, rank=3, seed=1, tol=1e-3, checkpoint=tmp_path)
    assert done.stop.reason == "converged"
    assert_equal(plait.fit(TEXT, {"X": counts()}, rank=3, tol=1e-3, init=tmp_path), done)


KILLED = """
import sys
import plait
from tests.store.test_resume import TEXT, counts
run, init = sys.argv[1], sys.argv[2] or None
plait.fit(TEXT, {"X": counts(rows=400, columns=300)}, rank=8, sweeps=120, seed=2, tol=0.0, threads=2, init=init,
          checkpoint=plait.Checkpoint(run, sweeps=1), progress=False)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on this system")
def test_run_killed_again_and_again_ends_bit_equal(tmp_path):
    """SIGKILL at moments of no one's choosing; every start goes on from what the last one left."""
    settings = {"rank": 8, "sweeps": 120, "seed": 2, "tol": 0.0, "threads": 2}
    whole = plait.fit(TEXT, {"X": counts(rows=400, columns=300)}, **settings)
    run, rng = tmp_path / "run", np.random.default_rng(0)
    cuts, path = 0, os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    for _ in range(40):
        begun = (run / "manifest.json").exists()
        command = [sys.executable, "-c", KILLED, str(run), str(run) if begun else ""]
        with subprocess.Popen(command, cwd=os.getcwd(), env=os.environ | {"PYTHONPATH": path}) as process:
            if cuts < 4:
                while process.poll() is None and not _moved(run, begun):
                    time.sleep(0.01)
                time.sleep(rng.uniform(0.0, 0.15))
                process.kill()
                cuts += 1
            elif process.wait() == 0:
                break
    loaded = plait.load(run)
    assert loaded.history[-1].sweep == 120
    same_bits(loaded, whole)


def _moved(run, begun):
    """Whether this start of the process has saved anything."""
    manifest = run / "manifest.json"
    return manifest.exists() and (not begun or time.time() - manifest.stat().st_mtime < 0.3)


# --- when checkpoints are written


@pytest.mark.parametrize(
    ("start", "last", "saved", "place"),
    [("random", 7, 6, "after sweep 6"), ("em", 7, 7, "after sweep 7"), ("em", -45, -47, "of the warm-up")],
)
def test_unfinished_run_loads_and_says_so(start, last, saved, place, tmp_path):
    def stop(record):
        if record.sweep == last:
            raise KeyboardInterrupt

    plan = plait.Checkpoint(tmp_path, sweeps=3)
    with pytest.raises(KeyboardInterrupt):
        plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, start=start, checkpoint=plan, progress=stop)
    loaded = plait.load(tmp_path)
    assert loaded.history[-1].sweep == saved
    assert str(loaded.stop) == f"not finished: this is the checkpoint {place}. `init` goes on from here."
    assert len(loaded.top("X", 2)) == 2


@pytest.mark.parametrize(
    ("sweeps", "seconds", "saves"),
    [(4, None, (4, 17)), (None, None, (2, 2)), (None, 0.0, (12, 62)), (100, 1e9, (2, 2))],
)
@pytest.mark.parametrize("start", ["random", "em"])  # after 10 sweeps, or after 50 and 10
def test_checkpoints_come_at_the_start_at_intervals_and_at_the_end(
    start, sweeps, seconds, saves, tmp_path, monkeypatch
):
    from plait.run import checkpoint as module

    seen, save = [], module.save
    monkeypatch.setattr(module, "save", lambda *a, **k: seen.append(a[2][0].state.history[-1].sweep) or save(*a, **k))
    plan = plait.Checkpoint(tmp_path, sweeps=sweeps, seconds=seconds)
    plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, sweeps=10, tol=0.0, checkpoint=plan, start=start)
    assert len(seen) == saves[start == "em"]
    assert (seen[0], seen[-1]) == (-50 if start == "em" else 0, 10)


def test_folder_that_holds_a_run_is_not_begun_anew(tmp_path):
    first = plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, sweeps=3, checkpoint=tmp_path)
    with pytest.raises(StoreError, match=r"this folder holds a run already\.\nGo on with it by `init="):
        plait.fit(TEXT, {"X": counts()}, rank=2, seed=9, sweeps=3, checkpoint=tmp_path)
    assert plait.load(tmp_path).seed == first.seed == 0
    plait.fit(TEXT, {"X": counts()}, rank=2, seed=9, sweeps=3, checkpoint=plait.Checkpoint(tmp_path, overwrite=True))
    assert plait.load(tmp_path).seed == 9


def test_disk_that_fills_up_later_costs_a_warning_and_not_the_fit(tmp_path, monkeypatch):
    from plait.run import checkpoint as module

    save = module.save

    def filling(folder, origin, members, stop, **named):
        if members[0].state.history[-1].sweep > 4:
            raise StoreError("the run cannot be saved: No space left on device.")
        save(folder, origin, members, stop, **named)

    monkeypatch.setattr(module, "save", filling)
    plan = plait.Checkpoint(tmp_path, sweeps=2)
    with pytest.warns(plait.CheckpointWarning, match="checkpoint not saved: the run cannot be saved: No space left"):
        fit = plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, sweeps=8, tol=0.0, checkpoint=plan)
    assert fit.history[-1].sweep == 8
    assert plait.load(tmp_path).history[-1].sweep == 4


def test_what_was_saved_beside_a_run_stays_when_it_goes_on(tmp_path):
    plan = plait.Checkpoint(tmp_path, extra={"config": {"rank": 2}})
    plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, sweeps=2, checkpoint=plan)
    plait.fit(TEXT, {"X": counts()}, rank=2, sweeps=4, init=tmp_path, checkpoint=tmp_path)
    from plait.run.folder import manifest

    assert manifest(tmp_path)["extra"] == {"config": {"rank": 2}}


# --- another fit


OTHER = {
    "model": ({"text": "X[i,j] = A[i,r] C[j,r]"}, "for its model differs."),
    "data": ({"seed_of_data": 1}, "for its data differs."),
    "rank": ({"rank": 3}, "for its rank differs ({'r': 2} then, {'r': 3} now)."),
    "method": ({"method": "em"}, "for its method differs (vb then, em now)."),
}


@pytest.mark.parametrize("what", OTHER)
def test_run_of_another_fit_is_refused_with_the_way_to_start_from_it(what, tmp_path):
    plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, sweeps=2).save(tmp_path)
    change, message = OTHER[what]
    settings = {"rank": 2} | change
    text, data = settings.pop("text", TEXT), counts(settings.pop("seed_of_data", 0))
    with pytest.raises(SettingError) as caught:
        plait.fit(text, {"X": data}, init=tmp_path, **settings)
    assert str(caught.value) == (
        f"`init`: the run in {tmp_path} cannot go on, {message}\n"
        f"To start from its factors instead, give `init=plait.load({str(tmp_path)!r})`."
    )


def test_run_of_an_older_version_is_read_but_does_not_go_on(tmp_path):
    fit = plait.fit(TEXT, {"X": counts()}, rank=2, seed=0, sweeps=2)
    fit.save(tmp_path)
    change(tmp_path / "manifest.json", version=1, fingerprint="0" * 32)
    with pytest.raises(SettingError) as caught:
        plait.fit(TEXT, {"X": counts()}, rank=2, init=tmp_path)
    assert "an older version of Plait made it" in str(caught.value)
    loaded = plait.load(tmp_path)
    assert loaded.top("X", 3).equals(fit.top("X", 3))
    assert plait.fit(TEXT, {"X": counts()}, rank=2, sweeps=1, init=loaded).bound >= fit.bound


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folder": 3}, "`folder` must be a path, got 3."),
        ({"sweeps": 0}, "`sweeps` must be a whole number, 1 or more, or None, got 0."),
        ({"sweeps": 1.5}, "`sweeps` must be a whole number, 1 or more, or None, got 1.5."),
        ({"seconds": -1}, "`seconds` must be a number, 0 or more, or None, got -1."),
    ],
)
def test_wrong_checkpoint_is_refused(arguments, message):
    with pytest.raises(SettingError) as caught:
        plait.Checkpoint(**({"folder": "run"} | arguments))
    assert str(caught.value) == message
