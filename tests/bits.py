"""Fits, fold-ins, updates, packed fits and answers as hashes of their bits: what a refactoring must not change.

python -m tests.bits                       # one line per case
python -m tests.bits --against main~3      # compare with another commit: "0 of 400 differ"

The script of this checkout runs on the other commit's sources, so both need the options that it uses.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import plait
from tests.support.models import DOUBLED, GIVEN, MODELS, RANKS, SIZES, SUMS

METHODS: dict[str, dict[str, Any]] = {
    "vb": {},
    "vb random": {"warmup": 0, "adapt_prior": "component"},
    "em": {"method": "em"},
    "float32": {"dtype": "float32", "accelerate": True},
}
LIKELIHOODS = ("poisson", "bernoulli", "negbin", "tweedie")
MATRIX = "plays[user, film] = U[user, r] F[film, r]"
COUPLED = f"{MATRIX}\ntags[film, tag] = F[film, r] T[tag, r]"
FRIENDS = f"{MATRIX}\nfriends[user, friend] = U[user, r] U[friend, r]\nfriend: user"
EVIDENCE = f"{MATRIX} + w[] N[user, film] + b[film]"


def fit(model: Any, data: Any, **options: Any) -> Any:
    options = {"seed": 0, "max_iter": 12, "threads": 1, "progress": False} | options
    return plait.fit(model, data, **options)


def digest(found: Any) -> str:
    """A hash of the objective and of every factor's concentration, scale and mean."""
    state = hashlib.sha256(np.float64(found.objective).tobytes())
    for member in found.members:
        for name in sorted(member.factors):
            for word in ("concentration", "scale", "mean"):
                array = getattr(member.factors[name], word)
                state.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return state.hexdigest()[:16]


def digest_table(table: Any) -> str:
    """A hash of a table's values, whatever its columns are called."""
    state = hashlib.sha256(repr(table.shape).encode())
    for column in table.columns:
        state.update(repr(table[column].to_list()).encode())
    return state.hexdigest()[:16]


def arrays_of(model: plait.Model, likelihood: str) -> dict[str, plait.Relation]:
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


def links(axes: dict[str, int], density: float, likelihood: str, seed: int) -> pl.DataFrame:
    """Random links of a relation as a table, some of them in no order."""
    rng = np.random.default_rng(seed)
    chosen = rng.random(list(axes.values())) < density
    steps = np.arange(max(axes.values()))
    chosen[tuple(steps % size for size in axes.values())] = True  # every entity has a link
    cells = np.argwhere(chosen)
    rng.shuffle(cells)
    columns = {name: [f"{name[0]}{row}" for row in cells[:, k]] for k, name in enumerate(axes)}
    values = {
        "poisson": 1.0 + rng.poisson(0.7, len(cells)),
        "bernoulli": np.ones(len(cells)),
        "negbin": rng.negative_binomial(1, 0.3, len(cells)) + 1.0,
        "tweedie": rng.gamma(1.5, 2.0, len(cells)),
    }[likelihood]
    return pl.DataFrame(columns | {"value": values})


def models() -> Iterator[tuple[str, Callable[[], str]]]:
    """Every model of `tests.support.models`, by four methods and two likelihoods."""
    for name, text in (MODELS | SUMS | DOUBLED).items():
        model = plait.Model(text)
        ranks = {index: RANKS[index] for index in model.latent}
        rng = np.random.default_rng(1)
        fixed = {
            f: rng.gamma(2.0, 1.0, [SIZES[i] for i in model.factor(f).indices]) for f in GIVEN if f in model.factors
        }
        if name == "symmetric_evidence":
            fixed["N"] = fixed["N"] + fixed["N"].T
        for likelihood in ("poisson", "bernoulli"):
            for method, options in METHODS.items():
                said = {"rank": ranks, "fixed": fixed or None} | options

                def case(model: Any = model, likelihood: str = likelihood, said: dict[str, Any] = said) -> str:
                    return digest(fit(model, arrays_of(model, likelihood), **said))

                yield f"{name} | {likelihood} | {method}", case


def observing() -> Iterator[tuple[str, Callable[[], str]]]:
    """Each way of observing under each likelihood, from tables and packed, with fold-in, update and answers."""
    films = {"user": 14, "film": 11}
    ways: dict[str, dict[str, Any]] = {
        "all": {},
        "listed": {"observed": "listed"},
        "light": {"observed": 0.3},
        "missing cells": {"missing": links(films, 0.1, "poisson", 5).drop("value")},
        "missing users": {"missing": pl.DataFrame({"user": ["u1", "u5"]}), "unseen": "zero"},
        "hidden": {"hidden": links(films, 0.1, "poisson", 6).drop("value")},
    }
    for likelihood in LIKELIHOODS:
        for way, options in ways.items():
            table = links(films, 0.3, likelihood, 2)
            for word in ("missing", "hidden"):  # a cell is not both listed and missing
                if word in options and options[word].width == 2:
                    options = options | {word: options[word].join(table, on=["user", "film"], how="anti")}
                elif word in options:
                    table = table.join(options[word], on="user", how="anti")

            def plays(table: Any = table, likelihood: str = likelihood, options: Any = options) -> plait.Relation:
                return plait.Relation(table, likelihood=likelihood, **options)

            def case(plays: Any = plays, likelihood: str = likelihood) -> str:
                return answers(fit(MATRIX, {"plays": plays()}, rank=3, entities={"user": ["u1", "u5"]}), likelihood)

            def packed(plays: Any = plays) -> str:
                with tempfile.TemporaryDirectory() as folder:
                    plait.pack(MATRIX, {"plays": plays()}, f"{folder}/x.blocks", progress=False)
                    found = fit(MATRIX, f"{folder}/x.blocks", rank=3)
                    return f"{digest(found)} {digest_table(found.top('plays', 7))}"

            yield f"{way} | {likelihood} | answers", case
            yield f"{way} | {likelihood} | packed", packed


def answers(found: Any, likelihood: str) -> str:
    """A fit, its predictions, best links and components, a fold-in and an update."""
    cells = pl.DataFrame({"user": ["u0", "u3", "u3"], "film": ["f0", "f1", "f7"]})
    new = links({"user": 3, "film": 11}, 0.5, likelihood, 3).with_columns(pl.col("user") + "new")
    parts: list[Callable[[], str]] = [
        lambda: digest(found),
        lambda: digest_table(found.predict("plays", cells)),
        lambda: digest_table(found.top("plays", 7)),
        lambda: digest_table(found.components()),
        lambda: digest_table(found.coupling()),
        lambda: digest(found.fold_in({"plays": new})),
        lambda: digest(found.update({"plays": new})),
    ]
    return " ".join(map(attempt, parts))


def whole() -> Iterator[tuple[str, Callable[[], str]]]:
    """Coupled fits from tables with options that few cases above have."""
    data = {
        "plays": links({"user": 14, "film": 11}, 0.3, "poisson", 2),
        "tags": links({"film": 11, "tag": 6}, 0.4, "poisson", 3),
        "friends": links({"user": 14, "friend": 14}, 0.2, "poisson", 4).with_columns(
            pl.col("friend").str.replace("f", "u")
        ),
    }
    evidence = links({"user": 14, "film": 11}, 0.3, "tweedie", 9)
    options: dict[str, dict[str, Any]] = {
        "coupled": {"model": COUPLED},
        "coupled map": {"model": COUPLED, "method": "map", "prior": plait.Gamma(2.0, 1.0)},
        "coupled restarts": {"model": COUPLED, "restarts": 3},
        "coupled bootstrap": {"model": COUPLED, "restarts": 2, "bootstrap": True},
        "coupled prune": {"model": COUPLED, "rank": 8, "prune": True, "adapt_prior": "component", "max_iter": 60},
        "coupled rank-one": {"model": COUPLED, "adapt_prior": "rank-one", "max_iter": 30},
        "coupled entity accelerated": {"model": COUPLED, "adapt_prior": "entity", "accelerate": True, "max_iter": 60},
        "coupled two threads": {"model": COUPLED, "threads": 2},
        "rank auto": {"model": COUPLED, "rank": "auto"},
        "friends": {"model": FRIENDS},
        "evidence": {"model": EVIDENCE, "fixed": {"N": plait.Exposure(evidence, default=0.0)}},
    }
    for name, said in options.items():

        def case(said: dict[str, Any] = said) -> str:
            model = plait.Model(said["model"])
            own = {r: plait.Relation(data[r], duplicates="sum") for r in model.relations}
            return digest(fit(model, own, **({"rank": 3} | {k: v for k, v in said.items() if k != "model"})))

        yield name, case


def attempt(case: Callable[[], str]) -> str:
    """What a case gives, or that it is refused: texts of errors may change."""
    try:
        return case()
    except plait.PlaitError:
        return "refused"


def write(only: str) -> None:
    """Print one line per case."""
    warnings.simplefilter("ignore")
    for cases in (whole, observing, models):
        for name, case in cases():
            if only in name:
                print(f"{name} | {attempt(case)}", flush=True)
    print(plait.__file__, file=sys.stderr)


def compare(revision: str, only: str) -> int:
    """Run this script on another commit's sources and on these, and list the cases that differ."""
    here = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, revision], check=True, cwd=here)
        try:
            runs = []
            for source in (Path(folder), here):
                command = [sys.executable, "-m", "tests.bits", "--only", only]
                env = os.environ | {"PYTHONPATH": str(source / "src")}
                runs.append(subprocess.Popen(command, cwd=here, env=env, stdout=subprocess.PIPE, text=True))
            then, now = (run.communicate()[0].splitlines() for run in runs)
            if any(run.returncode for run in runs):
                return 2
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", folder], check=True, cwd=here)
    differ = [line for pair in zip(then, now, strict=True) if pair[0] != pair[1] for line in pair]
    print(*differ, f"{len(differ) // 2} of {len(now)} differ", sep="\n")
    return int(bool(differ))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION", help="compare with this commit")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose name contains this text")
    arguments = parser.parse_args()
    sys.exit(compare(arguments.against, arguments.only) if arguments.against else write(arguments.only))
