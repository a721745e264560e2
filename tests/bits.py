"""Fits of all models of `tests.models` as hashes of their bits: equal lists from two commits mean that nothing moved.

python -m tests.bits > now.txt
PYTHONPATH=/path/to/another/checkout/src python -m tests.bits > then.txt
diff then.txt now.txt
"""

import hashlib
import sys
import warnings

import numpy as np

import plait
from tests.models import DOUBLED, GIVEN, MODELS, RANKS, SIZES, SUMS

METHODS = {
    "vb": {},
    "vb random per-factor": {"start": "random", "order": "per-factor", "adapt": "component"},
    "em": {"method": "em"},
    "float32": {"dtype": "float32", "accelerate": True},
}


def digest(fit: plait.Fit) -> str:
    """A hash of the bound and of every factor's concentration, scale and mean."""
    found = hashlib.sha256(np.float64(fit.bound).tobytes())
    for name in sorted(fit.factors):
        for word in ("concentration", "scale", "mean"):
            array = getattr(fit.factors[name], word)
            found.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def data_of(model: plait.Model, likelihood: str) -> dict[str, plait.Relation]:
    """Random arrays of counts or links for every relation."""
    rng, found = np.random.default_rng(0), {}
    for equation in model.equations:
        counts = rng.poisson(0.8, [SIZES[index] for index in equation.indices]).astype(float)
        if likelihood == "bernoulli":
            counts = (counts > 0) * 1.0
        if equation.exchanged:
            counts = np.maximum(counts, counts.T) if counts.ndim == 2 else counts
        found[equation.relation] = plait.Relation(counts, likelihood=likelihood)
    return found


def main() -> None:
    """A line for every model, likelihood and method."""
    warnings.simplefilter("ignore")
    for name, text in (MODELS | SUMS | DOUBLED).items():
        model = plait.Model(text)
        ranks = {index: RANKS[index] for index in model.latent}
        rng = np.random.default_rng(1)
        fixed = {
            f: rng.gamma(2.0, 1.0, [SIZES[i] for i in model.factor(f).indices]) for f in GIVEN if f in model.factors
        }
        for likelihood in ("poisson", "bernoulli"):
            for method, options in METHODS.items():
                try:
                    fit = plait.fit(
                        model, data_of(model, likelihood), rank=ranks, seed=0, sweeps=12, threads=1, progress=False,
                        fixed=fixed or None, **options,
                    )  # fmt: skip
                    said = digest(fit)
                except plait.PlaitError as error:
                    said = f"refused: {str(error).splitlines()[0]}"
                print(f"{name} | {likelihood} | {method} | {said}", flush=True)
    print(plait.__file__, file=sys.stderr)


if __name__ == "__main__":
    main()
