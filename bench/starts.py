"""How rough the random start should be: the figures behind docs/decisions/0004-start.md."""

import numpy as np
from scipy.io import loadmat

import plait
import plait.infer.start
from bench import measure
from bench.orders import SHARED, problems

CHOICES = (0.3, 1.0, 10.0, 100.0, 1000.0)
SEEDS = range(4)
TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"


def compare() -> None:
    """The mean bound after 200 sweeps, and the AUC on hidden cells of UCLAF, for every concentration of the start."""
    chosen = {
        name: problem for name, problem in problems().items() if name in ("synthetic 60×70×50", "kinships", "umls")
    }
    tensor = _uclaf()
    rows = []
    before = plait.infer.start.NOISE
    try:
        for concentration in CHOICES:
            plait.infer.start.NOISE = concentration
            cells = [f"{_bound(*problem):.0f}" for problem in chosen.values()]
            rows.append([f"{concentration:g}", *cells, "—" if tensor is None else _auc(tensor)])
    finally:
        plait.infer.start.NOISE = before
    columns = ["concentration", *chosen, "UCLAF 60 / 80 / 90 % missing"]
    measure.show(f"Random starts, mean of {len(SEEDS)} seeds: bound, and AUC", columns, rows, measure.machine())


def _bound(text: str, data: dict[str, object], rank: int) -> float:
    return float(np.mean([plait.fit(text, data, rank=rank, seed=seed).bound for seed in SEEDS]))


def _uclaf() -> np.ndarray | None:
    """User × place × activity as 0/1, users with any link; None where the file is not at hand."""
    path = SHARED / "uclaf" / "aaai10.uclaf.data.mat"
    if not path.exists():
        return None
    counts = np.asarray(loadmat(path)["UserLocAct"], float)
    return (counts[counts.sum(axis=(1, 2)) > 0] > 0).astype(float)


def _auc(X: np.ndarray) -> str:
    from sklearn.metrics import roc_auc_score

    means = []
    for missing in (0.6, 0.8, 0.9):
        scores = []
        for seed in SEEDS:
            hidden = np.random.default_rng(seed).random(X.shape) < missing
            fit = plait.fit(TEXT, {"X": np.where(hidden, np.nan, X)}, rank=5, seed=seed, sweeps=100)
            mean = np.einsum("ir,jr,kr->ijk", *(fit.factors[name].mean for name in "ABC"))
            scores.append(roc_auc_score(X[hidden], mean[hidden]))
        means.append(f"{np.mean(scores):.3f}")
    return " / ".join(means)
