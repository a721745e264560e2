"""A case of the audit from one integer: what is decided, and the data, the oracle's problem and the fits that follow.

Cases of one model stand side by side, KINDS of them, so that they share compiled kernels: case n is of model
n // len(KINDS) and of kind KINDS[n % len(KINDS)]. Everything random has a stream of its own, so that one decision can
be replaced (see `shrink`) without a change of all the others.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

import plait
from tests.audit import equations, observing
from tests.audit.equations import Drawn
from tests.audit.observing import Given, Observed, Way
from tests.support import oracle, problems

KINDS = (
    *("sweeps",) * 6, "long", "long", "em", "adapted", "adapted", "declared", "permuted", "hidden", "hidden",
    "predicted", "predicted", "top",
)  # fmt: skip
SAMPLE = 12  # models of the sample: most of them are not compiled, which would take longer than all else
LONE = "v"  # an index that only an exposure has
TIES = ("factor", "component", "entity", "rank-one", "first", "last")


@dataclass(frozen=True)
class Decided:
    """All decisions of a case; `held` is a factor with latent indices that is given, `threads` 0 the dense executor."""

    number: int
    kind: str
    drawn: Drawn
    likelihood: dict[str, str]
    ways: dict[str, Way]
    given: Given | None = None
    held: str | None = None
    method: str = "vb"
    dtype: str = "float64"
    threads: int = 1
    concentration: float = 0.7
    mean: float = 1.3
    accelerate: bool = False
    tie: str = "factor"

    def stream(self, *purpose: int) -> np.random.Generator:
        """Random numbers for one purpose."""
        return np.random.default_rng([self.number, 7, *purpose])

    def __str__(self) -> str:
        lines = [f"audit case {self.number}: pytest tests/audit --audit 1 --audit-seed {self.number}"]
        lines += [f"  smaller: python -m tests.audit.shrink {self.number}", f"  {self.kind} of", str(self.drawn)]
        plain = {"number", "kind", "drawn", "ways", "likelihood"}
        lines += [f"{name}: {self.likelihood[name]}, {way}" for name, way in self.ways.items()]
        lines += [f"{f.name} = {getattr(self, f.name)!r}" for f in fields(self) if f.name not in plain]
        return "\n".join(lines)


def decide(number: int) -> Decided:
    """The decisions of a case, all from its number."""
    model, kind = number // len(KINDS), KINDS[number % len(KINDS)]
    whole, own = (np.random.default_rng([n, k]) for n, k in ((model, 0), (number, 1)))
    decided = _em_model(number) if kind == "em" else _model(whole, number, kind)
    ways = {name: _way(own, kind, indices) for name, indices in visible(decided.drawn).items()}
    if kind == "em":
        ways = _em_ways(own, ways)
    method = _method(own, kind)
    floats = whole.random() < 0.2 and method == "vb" and kind in ("sweeps", "long") and own.random() < 0.7
    dense = whole.random() < (0.7 if model < SAMPLE else 0.3)
    threads = 0 if dense and not floats else int(own.choice([1, 1, 1, 2, 3]))
    A = own.choice([1.0, 1.6, 4.0] if method == "map" else [0.001, 0.05, 0.5, 0.7, 2.0, 10.0])
    return replace(
        decided,
        ways=ways,
        method=method,
        dtype="float32" if floats else "float64",
        threads=threads,
        concentration=float(A),
        mean=float(own.choice([0.1, 1.3, 10.0])),
        accelerate=bool(kind == "long" and own.random() < 0.4),
        tie=str(own.choice(TIES)),
    )


def visible(drawn: Drawn) -> dict[str, tuple[str, ...]]:
    """The indices of every relation."""
    return {relation: indices for relation, indices, _ in oracle.from_text(drawn.text)}


def _method(rng: np.random.Generator, kind: str) -> str:
    if kind in ("em", "adapted", "declared"):
        return "em" if kind == "em" else "vb"
    return str(rng.choice(["vb", "em", "map"], p=[0.4, 0.35, 0.25]))


def _model(rng: np.random.Generator, number: int, kind: str) -> Decided:
    """A random model with likelihoods, perhaps an exposure of its first relation, perhaps a factor that is given."""
    drawn = equations.draw(rng)
    plain = oracle.from_text(drawn.text)
    likelihood = {name: str(rng.choice(["poisson", "poisson", "bernoulli"])) for name, *_ in plain}
    with_latent = [f for f, indices in oracle.factor_indices(plain).items() if set(indices) & set(drawn.ranks)]
    held = None
    if rng.random() < 0.15 and len(oracle.factor_indices(plain)) > 1 and with_latent:
        held = str(rng.choice(with_latent))
    indices = plain[0][1]
    given = None
    if indices and rng.random() < 0.35:
        over = tuple(map(str, rng.permutation(list(indices))[: int(rng.integers(1, 3))]))
        drawn, over = _exposed(drawn, over, lone=bool(rng.random() < 0.3))
        given = observing.draw_given(np.random.default_rng([number, 2]), over)
    return Decided(number, kind, drawn, likelihood, {}, given, held)


def _exposed(drawn: Drawn, over: tuple[str, ...], *, lone: bool) -> tuple[Drawn, tuple[str, ...]]:
    """The model with a factor V in its first equation; lone: V has an index that no other factor has."""
    head, *rest = drawn.text.split("\n")
    if lone:
        head, over = head.replace("]", f",{LONE}]", 1), (*over, LONE)
        drawn = replace(drawn, sizes=drawn.sizes | {LONE: 3})
    return replace(drawn, text="\n".join([f"{head} V[{','.join(over)}]", *rest])), over


def _way(rng: np.random.Generator, kind: str, indices: tuple[str, ...]) -> Way:
    way = observing.draw(rng, indices)
    if kind == "declared":  # who is declared and never seen is missing only there
        return replace(way, table=bool(indices), gaps=0.0, unseen="missing")
    if kind == "permuted":  # names are given another order, which arrays have not
        return replace(way, table=bool(indices), gaps=0.0)
    if kind == "hidden" and rng.random() < 0.5:
        way = replace(way, hidden=())
    if kind == "top":
        return replace(way, hidden=(), gaps=min(way.gaps, 0.3), weight=max(way.weight, 0.3))
    return way


# --- EM of coupled relations that are mostly missing: where differences of sums have no digits left


def _em_model(number: int) -> Decided:
    """Two relations of the same factors, one of them weighted; sizes from 8 × 5 to 30 × 15, ranks 5, 8 and 20."""
    rng = np.random.default_rng([number, 3])
    text = "X[i,j] = A[i,r] B[j,r]\nY[i,j] = A[i,r] B[j,r] w[r]"
    sizes = {"i": int(rng.integers(8, 31)), "j": int(rng.integers(5, 16))}
    drawn = Drawn(text, sizes, {"r": int(rng.choice([5, 8, 20]))})
    return Decided(number, "em", drawn, {"X": "poisson", "Y": "poisson"}, {})


def _em_ways(rng: np.random.Generator, ways: dict[str, Way]) -> dict[str, Way]:
    """More than half of one relation missing: NaN, or a table of missing cells."""
    shares = [float(rng.choice([0.55, 0.7, 0.9])), float(rng.choice([0.0, 0.3, 0.7]))]
    table = bool(rng.random() < 0.4)
    return {
        name: Way(table=True, unseen="zero", hidden=((("i", "j"), share),)) if table else Way(False, gaps=share)
        for name, share in zip(ways, shares)
    }


# --- data


@dataclass(frozen=True)
class Audited(problems.Case):
    """A case with its data: relations as they are handed over, and what the oracle knows of them."""

    decided: Decided
    observed: dict[str, Observed]
    V: dict[str, np.ndarray]

    @property
    def rank(self) -> Any:
        return self.decided.drawn.ranks or None

    @property
    def relations(self) -> dict[str, plait.Relation]:
        """The data as they are handed over."""
        return {name: seen.relation for name, seen in self.observed.items()}

    @property
    def entities(self) -> dict[str, range]:
        """All entities by axis."""
        return {axis: range(self.decided.drawn.sizes[axis]) for axis in self.model.axes}

    @property
    def settings(self) -> dict[str, Any]:
        """What every fit of the case is called with."""
        d = self.decided
        common: dict[str, Any] = {"rank": self.rank, "fixed": self.fixed, "method": d.method}
        common |= {"tol": 0.0, "seed": d.number, "dtype": d.dtype, "accelerate": d.accelerate}
        common |= {"threads": d.threads} if d.threads else {"executor": plait.executors.Reference()}
        if d.method != "em":
            common["prior"] = plait.Gamma(d.concentration, d.mean)
        return common

    def fit(self, method: str | None = None, **settings: Any) -> Any:
        """A fit that stops for nothing but `max_iter`; its priors stay as they are unless told."""
        adapt = {"adapt_prior": None} if self.decided.method == "vb" else {}
        return plait.fit(self.model, settings.pop("data", self.data), **(self.settings | adapt | settings))

    def start(self, seed: int = 0, method: str | None = None) -> Any:
        """A random state, as the oracle has it."""
        drawn = self.decided.drawn
        rng = self.decided.stream(4, seed)
        return oracle.start(self.problem, drawn.sizes | drawn.ranks, rng, self.decided.method)  # type: ignore[arg-type]


def _values(decided: Decided, relation: int, rate: np.ndarray, likelihood: str) -> np.ndarray:
    """Few links for long runs of EM, whose components then die; else anything."""
    rng = decided.stream(2, relation)
    if decided.kind == "em":
        return (rng.random(rate.shape) < 0.1).astype(float)
    return observing.values(rng, rate, likelihood)


def build(decided: Decided) -> Audited:
    """The data of a case."""
    drawn = decided.drawn
    model = plait.Model(drawn.text)
    plain = oracle.from_model(model)
    rng = decided.stream(0)
    shapes = oracle.factor_shapes(plain, drawn.sizes | drawn.ranks)
    Z = {name: rng.gamma(1.0, 1.0, shape) + 1e-3 for name, shape in shapes.items() if name != "V"}
    fixed, V = {}, {}
    if decided.given is not None:
        fixed["V"], Z["V"] = observing.expose(decided.given, drawn.sizes, decided.stream(1))
    template = {name: np.zeros([drawn.sizes[index] for index in indices]) for name, indices, _ in plain}
    rates = oracle.rate(oracle.Problem(plain, template), Z)
    observed = {}
    for n, (name, indices, _) in enumerate(plain):
        X = _values(decided, n, rates[name], decided.likelihood[name])
        axes = {index: model.axis(index) for index in indices}
        way, likelihood = decided.ways[name], decided.likelihood[name]
        observed[name] = observing.observe(way, indices, axes, X, likelihood, decided.stream(3, n))
    if decided.given is not None:
        V[plain[0][0]] = np.broadcast_to(
            oracle.spread(Z["V"], decided.given.over, plain[0][1]), template[plain[0][0]].shape
        )
        plain = [(name, indices, [o for o in occurrences if o[0] != "V"]) for name, indices, occurrences in plain]
    held = {decided.held: Z[decided.held]} if decided.held else {}
    data = model.bind(
        {name: seen.relation for name, seen in observed.items()},
        entities={axis: range(drawn.sizes[axis]) for axis in model.axes},
    )
    free = [name for name in Z if name not in held and name != "V"]
    prior = {} if decided.method == "em" else dict.fromkeys(free, (decided.concentration, decided.mean))
    X, M = ({name: getattr(seen, what) for name, seen in observed.items()} for what in "XM")
    problem = oracle.Problem(plain, X, prior, M, V, decided.likelihood, held)
    return Audited(model, data, problem, (fixed | held) or None, decided, observed, V)
