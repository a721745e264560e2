"""Resumed fits are bitwise identical to uninterrupted ones."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import plait
from plait.errors import ParameterError, StorageError
from plait.storage import checkpoint as checkpoints
from tests.support.manifests import manifest
from tests.support.problems import make
from tests.support.resuming import same_bits
from tests.support.store_runs import MATRIX, assert_equal, counts


def fitted(data=None, **options):
    settings = {"rank": 2, "tol": 0.0} | ({} if "init" in options else {"seed": 0}) | options
    return plait.fit(settings.pop("model", MATRIX), {"X": counts() if data is None else data}, **settings)


CUT = [(name, kind, False) for name in ("cp3", "tucker", "coupled_paper", "two_visible", "coupled_scalar")
       for kind in ("poisson", "bernoulli")] + [("cp3", "poisson", True), ("cp3", "bernoulli", True)]  # fmt: skip


@pytest.mark.quick(name=["cp3", "coupled_paper"])
@pytest.mark.parametrize("method", ["em", "map", "vb"])
@pytest.mark.parametrize(("name", "likelihood", "exposed"), CUT)
def test_a_fit_resumes(name, method, likelihood, exposed, tmp_path):
    case = make(name, "missing_cells", likelihood, exposed=exposed)
    whole = case.fit(method, max_iter=17)
    for cut in (0, 1, 12):
        run = tmp_path / str(cut)
        case.fit(method, max_iter=cut, checkpoint=run)
        same_bits(case.fit(method, max_iter=17, init=run), whole)


@pytest.mark.quick(name=["pairwise"])
@pytest.mark.parametrize("method", ["em", "vb"])
@pytest.mark.parametrize("name", ["pairwise", "given_in_terms", "symmetric_coupled", "rescal_bias"])
def test_a_fit_of_a_sum_resumes(name, method, tmp_path):
    case = make(name, "missing_cells")
    settings = {"method": method, "accelerate": True} | ({"warmup": 50} if method == "vb" else {})
    whole = case.fit(max_iter=30, **settings)
    for cut in (-20, 0, 21) if method == "vb" else (0, 21):
        run = tmp_path / str(cut)
        case.fit(max_iter=30, checkpoint=run, progress=lambda record, cut=cut: record.sweep < cut, **settings)
        same_bits(case.fit(max_iter=30, init=run, **settings | ({"warmup": None} if method == "vb" else {})), whole)


@pytest.mark.quick(method=["vb"])
@pytest.mark.parametrize("method", ["em", "map", "vb"])
def test_an_accelerated_fit_resumes(method, tmp_path):
    case = make("coupled_paper", "missing_cells")
    settings = {"method": method, "tol": 1e-4, "accelerate": True, "max_iter": 50}
    whole, states = case.fit(**settings), []
    for cut in (19, 20, 21, 22, 25, 30, 41):
        run = tmp_path / str(cut)
        states.append(case.fit(checkpoint=run, progress=lambda record, cut=cut: record.sweep < cut, **settings).state)
        same_bits(case.fit(init=run, **settings), whole)
    assert any(state.momentum.extrapolated for state in states)


@pytest.mark.parametrize("adapt_prior", ["component", "rank-one", "entity"])
def test_a_fit_with_pruning_and_adaptation_resumes(adapt_prior, tmp_path):
    rng = np.random.default_rng(4)
    X = rng.poisson(np.outer(rng.gamma(0.5, 1.0, 30), rng.gamma(0.5, 1.0, 20))).astype(float)
    settings = {"rank": 6, "seed": 4, "prune": True, "adapt_prior": adapt_prior}
    whole = fitted(X, max_iter=70, warmup=0, **settings)
    for cut in (11, 21, 22, 40):
        fitted(X, max_iter=cut, warmup=0, checkpoint=tmp_path / str(cut), **settings)
        same_bits(fitted(X, max_iter=70, init=tmp_path / str(cut), **settings), whole)
    if adapt_prior == "component":
        assert whole.rank["r"] < 3


def test_a_resumed_fit_keeps_its_adaptation_unless_another_is_given(tmp_path):
    case = make("coupled_paper")
    case.fit(max_iter=12, adapt_prior="factor", checkpoint=tmp_path)
    whole = case.fit(max_iter=15, adapt_prior="factor")
    assert whole.settings["adapt_prior"] == dict.fromkeys(case.model.factors, "factor")
    same_bits(case.fit(max_iter=15, init=tmp_path, adapt_prior="auto"), whole)
    assert "rank-one" in case.fit(max_iter=15, init=tmp_path, adapt_prior="rank-one").settings["adapt_prior"].values()


def test_a_saved_fit_resumes(tmp_path):
    fitted(rank=3, max_iter=13, seed=1).save(tmp_path)
    same_bits(fitted(rank=3, max_iter=30, init=str(tmp_path)), fitted(rank=3, max_iter=30, seed=1))


@pytest.mark.filterwarnings("ignore::plait.errors.BelowBaselineWarning")  # an optimum below popularity is one
def test_a_converged_run_does_nothing(tmp_path):
    done = fitted(rank=3, seed=1, tol=1e-3, checkpoint=tmp_path)
    assert done.stop.reason == "converged"
    assert_equal(fitted(rank=3, tol=1e-3, init=tmp_path), done)


KILLED = """
import sys
import plait
from tests.support.store_runs import MATRIX, counts
run, init = sys.argv[1], sys.argv[2] or None
plait.fit(MATRIX, {"X": counts(rows=400, columns=300)}, rank=8, max_iter=120, seed=2, tol=0.0, threads=2, init=init,
          checkpoint=plait.Checkpoint(run, sweeps=1), progress=False)
"""


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL on this system")
def test_a_fit_killed_four_times_ends_bitwise_identical(tmp_path):
    whole = fitted(counts(rows=400, columns=300), rank=8, max_iter=120, seed=2, threads=2)
    run, rng = tmp_path / "run", np.random.default_rng(0)
    cuts, path = 0, os.pathsep.join([os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])])
    for _ in range(40):
        begun = (run / "manifest.json").exists()
        command = [sys.executable, "-c", KILLED, str(run), str(run) if begun else ""]
        with subprocess.Popen(command, cwd=os.getcwd(), env=os.environ | {"PYTHONPATH": path}) as process:
            if cuts < 4:
                while process.poll() is None and not has_saved(run, begun):
                    time.sleep(0.01)
                time.sleep(rng.uniform(0.0, 0.15))
                process.kill()
                cuts += 1
            elif process.wait() == 0:
                break
    loaded = plait.load(run)
    assert loaded.history[-1].sweep == 120
    same_bits(loaded, whole)


def has_saved(run, begun):
    """Whether this process has saved a checkpoint."""
    path = run / "manifest.json"
    return path.exists() and (not begun or time.time() - path.stat().st_mtime < 0.3)


# --- when checkpoints are written


@pytest.mark.parametrize(
    ("warmup", "last", "saved", "place"),
    [(0, 7, 6, "after sweep 6"), (50, 7, 7, "after sweep 7"), (50, -45, -47, "of the warm-up")],
)
def test_an_unfinished_run_loads(warmup, last, saved, place, tmp_path):
    def stop(record):
        if record.sweep == last:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(warmup=warmup, checkpoint=plait.Checkpoint(tmp_path, sweeps=3), progress=stop)
    loaded = plait.load(tmp_path)
    assert loaded.history[-1].sweep == saved
    assert str(loaded.stop) == f"not finished: this is the checkpoint {place}. Continue with `init`."
    assert len(loaded.top("X", 2)) == 2


@pytest.mark.parametrize(
    ("sweeps", "seconds", "saves"),
    [(4, None, (4, 17)), (None, None, (2, 2)), (None, 0.0, (12, 62)), (100, 1e9, (2, 2))],
)
@pytest.mark.parametrize("warmup", [0, 50])  # after 10 sweeps, or after 50 and 10
def test_checkpoints_come_at_the_start_at_intervals_and_at_the_end(
    warmup, sweeps, seconds, saves, tmp_path, monkeypatch
):
    seen, save = [], checkpoints.save
    monkeypatch.setattr(
        checkpoints, "save", lambda *a, **k: seen.append(a[2][0].state.history[-1].sweep) or save(*a, **k)
    )
    fitted(max_iter=10, checkpoint=plait.Checkpoint(tmp_path, sweeps=sweeps, seconds=seconds), warmup=warmup)
    assert len(seen) == saves[warmup > 0]
    assert (seen[0], seen[-1]) == (-warmup, 10)


def test_a_checkpoint_overwrites_a_run_only_if_allowed(tmp_path):
    fitted(max_iter=3, checkpoint=tmp_path)
    with pytest.raises(StorageError, match=r"this folder already contains a run\.\nContinue it with `init="):
        fitted(seed=9, max_iter=3, checkpoint=tmp_path)
    assert plait.load(tmp_path).seed == 0
    fitted(seed=9, max_iter=3, checkpoint=plait.Checkpoint(tmp_path, overwrite=True))
    assert plait.load(tmp_path).seed == 9


def test_extra_of_a_checkpoint_stays_when_the_fit_resumes(tmp_path):
    fitted(max_iter=2, checkpoint=plait.Checkpoint(tmp_path, extra={"config": {"rank": 2}}))
    fitted(max_iter=4, init=tmp_path, checkpoint=tmp_path)
    assert manifest(tmp_path)["extra"] == {"config": {"rank": 2}}


# --- another fit


OTHER = {
    "model": ({"model": "X[i,j] = A[i,r] C[j,r]"}, "its model differs"),
    "data": ({"data": counts(1)}, "its data differs"),
    "rank": ({"rank": 3}, r"its rank differs \({'r': 2} then, {'r': 3} now\)"),
    "method": ({"method": "em"}, r"its method differs \(vb then, em now\)"),
}


@pytest.mark.parametrize("what", OTHER)
def test_the_run_of_another_fit_cannot_resume(what, tmp_path):
    fitted(max_iter=2).save(tmp_path)
    options, message = OTHER[what]
    with pytest.raises(ParameterError, match=message) as caught:
        fitted(init=tmp_path, **options)
    assert caught.value.hint == (f"To start from its factors instead, use `init=plait.load({str(tmp_path)!r})`.")


@pytest.mark.parametrize("option", [{"folder": 3}, {"sweeps": 0}, {"sweeps": 1.5}, {"seconds": -1}])
def test_a_wrong_checkpoint_is_refused(option):
    ((name, value),) = option.items()
    with pytest.raises(ParameterError, match=f"`{name}` must be .*, got {value}"):
        plait.Checkpoint(**{"folder": "run"} | option)
