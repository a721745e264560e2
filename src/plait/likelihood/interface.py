"""What a likelihood is: x is made of n ~ Poisson(λ) events, and x = 0 exactly where n = 0.

So a zero costs e^−λ whatever the likelihood, and of a nonzero entry the fit needs two numbers only:

    E[n | x, λ]     how many events are behind it: the counts that factors share
    term(x, λ)      = log Σ_{n≥1} p(x|n) λⁿ/n!, but for fixed(x) + x · tilt: its term of the ELBO without −λ

They belong together: E[n] is the slope of the term in log λ, and Var[n | x, λ] the slope of E[n].

A likelihood may have parameters that are learnt, its *state*: a dict of floats, {"burst": 0.7}. Kernels get
them packed into one array of doubles, so that they can change with every sweep and nothing is compiled again.

A likelihood of one's own is a subclass of `Likelihood`, in any module. The smallest one says its name, which values are
allowed, `link`, `bursts` and, where the term leaves something out, `tilt` or `fixed`; all else follows from these, and
can be overridden by something faster. Here each event is a burst of 1, 2, 3, … with probabilities (1 − g) gᵇ⁻¹ (Pólya
and Aeppli's distribution):

    import math
    import numpy as np
    from plait.jit import rate_of
    from plait.likelihood import Likelihood

    def geometric_link(x, xhat, log_scale, parameters):
        # w_n = yⁿ/n! · (x−1 over n−1) with y = λ (1 − g)/g, each from the one before; w_1 = 1 here, so log y is added
        g = parameters[0]
        y = rate_of(xhat, log_scale) * (1.0 - g) / g
        w, total, events, lost = 1.0, 0.0, 0.0, 0.0
        for n in range(1, int(x) + 1):
            total += w
            events += n * w
            w *= y * (x - n) / (n * (n + 1.0))
            if total > 1e200:
                w, total, events, lost = w * 1e-200, total * 1e-200, events * 1e-200, lost + 1.0
        term = math.log(xhat) + log_scale + math.log((1.0 - g) / g) + lost * 200.0 * math.log(10.0)
        return events / total, term, total

    class Geometric(Likelihood):
        name = "geometric"
        wanted = "Bursts add up to whole numbers"
        hint = "Round them."
        link = geometric_link

        def __init__(self, g):
            self.g = g

        def settings(self):
            return {"g": self.g}

        def start(self, sums):
            return {"g": self.g}

        def bad(self, values):
            return (values < 0) | (values != np.floor(values))

        def tilt(self, state):
            return math.log(state["g"])

        def bursts(self, state):
            g = state["g"]
            return 1.0 / (1.0 - g), (1.0 + g) / (1.0 - g) ** 2

`link` is compiled by numba into every kernel: `link(x, xhat, log_scale, parameters) → (E[n], term, number)` for an
entry x > 0 of rate λ = xhat · e^log_scale, of any size. The logarithm of `number` is added to the term: logarithms are
taken eight at a time. It must be a normal positive double; 1.0 where there is nothing to add.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Floats
from plait.errors import ParameterError
from plait.jit import Deferred, fingerprint, inlined, uncached
from plait.likelihood import predictive

State = Mapping[str, float]

COLUMNS = ("mean", "sd", "probability", "lower", "upper")
SLOPE_STEP = 1e-3  # of log λ, where a slope is taken by differences

KNOWN: dict[str, type["Likelihood"]] = {}  # by name; a class enters when its module is imported


class Sums(NamedTuple):
    """Sums over nonzero entries: Σ M, Σ M x, Σ M log x and Σ M fixed(x).

    Sums of parts of the data add up: ``sums + others``.

    Attributes
    ----------
    weight, value, log_value, fixed : float
        The sums.

    Examples
    --------
    >>> sums = plait.likelihood.Poisson().sums(np.array([2.0, 3.0]), np.ones(2))
    >>> sums.weight, sums.value
    (2.0, 5.0)
    """

    weight: float
    value: float
    log_value: float
    fixed: float

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        return Sums(*(a + b for a, b in zip(self, other)))


class KernelNames(NamedTuple):
    """Names of variables in a kernel.

    Attributes
    ----------
    xhat : str
        The rate of the entry.
    entry : str
        Its weight M, or M x.
    value : str
        Its value x.
    parameters : str
        The packed state.

    Examples
    --------
    >>> names = plait.likelihood.KernelNames("xhat", "m", "x", "state")
    >>> plait.likelihood.Poisson().entry(names).lines
    ('q = m / xhat',)
    """

    xhat: str
    entry: str
    value: str
    parameters: str


class Entry(NamedTuple):
    """Source lines of a kernel for one entry.

    Attributes
    ----------
    lines : tuple of str
        Lines that set q = M E[n] / xhat.
    score : str or None
        Line that adds to the score.
    logged : str
        Expression whose logarithm is added.

    Examples
    --------
    >>> names = plait.likelihood.KernelNames("xhat", "m", "x", "state")
    >>> plait.likelihood.Poisson().entry(names).logged
    'xhat'
    """

    lines: tuple[str, ...]
    score: str | None
    logged: str


class Likelihood:
    """Base class of likelihoods: how values arise from Poisson counts.

    Subclass it to define your own likelihood; it is registered by its ``name``.

    Attributes
    ----------
    name : str
        Its name in ``likelihood="…"``.
    wanted, hint : str
        Sentences for values that are not allowed.
    link : callable
        ``link(x, xhat, log_scale, parameters)`` returns E[n], the term and a number; numba
        compiles it into every kernel.
    true_scale : bool
        Whether the size of λ matters, or only proportions.
    reads_values : bool
        Whether kernels read x in addition to the weight M.
    packs : bool
        Whether kernels read the packed state.
    takes_logs : bool
        Whether the third number of ``link`` can differ from 1.
    binary : bool
        Whether a value only says that n ≥ 1.
    plain : bool
        Whether a value is n itself.
    whole : bool
        Whether values are whole numbers.
    columns : tuple of str
        Columns of a prediction.

    Notes
    -----
    A value x is made of n ~ Poisson(λ) events, and x = 0 exactly where n = 0. A fit needs two
    numbers per nonzero entry: E[n | x, λ], and the *term*, the part of log p(x | λ) that
    depends on λ, without −λ. A subclass defines at least ``name``, ``wanted``, ``hint``,
    ``link`` and `bursts`. The *state* is a dict of its learnt parameters.

    Guide: <https://tensorplait.github.io/tensorplait/api/likelihood.html>.

    Examples
    --------
    >>> likelihood = plait.likelihood.Negbin(mean_burst=2.0)
    >>> isinstance(likelihood, plait.likelihood.Likelihood)
    True
    >>> likelihood.name
    'negbin'
    """

    name: ClassVar[str]
    wanted: ClassVar[str]
    hint: ClassVar[str]
    link: ClassVar[Callable[..., tuple[float, float, float]]]
    true_scale: ClassVar[bool] = True
    reads_values: ClassVar[bool] = True
    packs: ClassVar[bool] = True
    takes_logs: ClassVar[bool] = True
    binary: ClassVar[bool] = False
    plain: ClassVar[bool] = False
    whole: ClassVar[bool] = True
    columns: ClassVar[tuple[str, ...]] = (*COLUMNS, "rate")

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        link = cls.__dict__.get("link")
        if link is not None:
            link = getattr(link, "__func__", link)
            setattr(cls, "link", staticmethod(link if isinstance(link, Deferred) else inlined(link)))  # noqa: B010
        if "name" in cls.__dict__:
            _enter(cls)

    # --- what it is

    def settings(self) -> dict[str, float]:
        """Return the parameters that the user gave.

        Returns
        -------
        dict of str to float
            With the name, all that distinguishes this likelihood from another.

        Examples
        --------
        >>> plait.likelihood.Tweedie(shape=2).settings()
        {'shape': 2.0}
        """
        return {}

    def __eq__(self, other: object) -> bool:
        """Equal to a likelihood of the same words; a name alone is such words."""
        if isinstance(other, str):
            return self.to_words() == {"name": other}
        return isinstance(other, Likelihood) and self.to_words() == other.to_words()

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v:g}' for k, v in self.settings().items())})"

    def to_words(self) -> dict[str, Any]:
        """For a saved run: {"name": …} and the settings; `plait.likelihood.from_words` makes it back."""
        return {"name": self.name, **self.settings()}

    def describe(self, state: State) -> str:
        """The name and the learnt parameters, in a few words."""
        return ", ".join([self.name, *(f"{name} {value:.4g}" for name, value in state.items())])

    # --- values

    def bad(self, values: Floats) -> NDArray[np.bool_]:
        """Find values that are not allowed.

        Parameters
        ----------
        values : numpy.ndarray
            Finite numbers, 0 or more, of shape ``(n,)``.

        Returns
        -------
        numpy.ndarray of bool
            Which of them are not allowed.

        Examples
        --------
        >>> plait.likelihood.Bernoulli().bad(np.array([0.0, 1.0, 2.0])).tolist()
        [False, False, True]
        """
        return np.zeros(np.shape(values), np.bool_)

    def doubt(self, values: Floats) -> str:
        """Why another likelihood may be better for these values > 0, in a sentence; nothing: it is not."""
        return ""

    def entries(self, values: Floats, weights: Floats) -> Floats:
        """Return the factors by which kernels multiply logarithms and E[n].

        Parameters
        ----------
        values, weights : numpy.ndarray
            Nonzero values x and their weights M, of shape ``(n,)``.

        Returns
        -------
        numpy.ndarray
            M for most likelihoods, M x for Poisson.

        Examples
        --------
        >>> x, M = np.array([3.0, 5.0]), np.array([1.0, 2.0])
        >>> plait.likelihood.Negbin().entries(x, M).tolist()
        [1.0, 2.0]
        """
        return weights

    def stored(self, values: Floats) -> Floats:
        """Return the numbers that kernels read in place of x.

        Parameters
        ----------
        values : numpy.ndarray
            Nonzero values x, of shape ``(n,)``.

        Returns
        -------
        numpy.ndarray
            x for most likelihoods, log x for Tweedie.

        Examples
        --------
        >>> plait.likelihood.Tweedie().stored(np.array([1.0])).tolist()
        [0.0]
        """
        return values

    def restored(self, stored: Floats) -> Floats:
        """x from its stored numbers."""
        return stored

    # --- its own numbers

    def start(self, sums: Sums) -> dict[str, float]:
        """Return the initial state.

        Parameters
        ----------
        sums : Sums
            Sums over the nonzero values, from ``likelihood.sums(values, weights)``.

        Returns
        -------
        dict of str to float
            The state.

        Examples
        --------
        >>> likelihood = plait.likelihood.Tweedie(shape=2)
        >>> likelihood.start(likelihood.sums(np.array([4.0, 4.0]), np.ones(2)))
        {'shape': 2.0, 'scale': 2.0}
        """
        return {}

    def update(self, state: State, sums: Sums, expected: float) -> dict[str, float]:
        """Return the best state for the current q(n).

        Parameters
        ----------
        state : dict of str to float
            The current state.
        sums : Sums
            Sums over the nonzero values.
        expected : float
            Total expected number of events, Σ M E[n].

        Returns
        -------
        dict of str to float
            The new state. It never lowers the ELBO.

        Examples
        --------
        >>> likelihood = plait.likelihood.Tweedie(shape=2)
        >>> sums = likelihood.sums(np.array([4.0, 4.0]), np.ones(2))
        >>> likelihood.update({"shape": 2.0, "scale": 2.0}, sums, expected=4.0)
        {'shape': 2.0, 'scale': 1.0}
        """
        return dict(state)

    def choose(self, state: State, values: Floats, weights: Floats, log_rate: Array) -> dict[str, float]:
        """Return the best state by a pass over all entries, with the rates fixed.

        Parameters
        ----------
        state : dict of str to float
            The current state.
        values, weights : numpy.ndarray
            Nonzero values x and their weights M, of shape ``(n,)``.
        log_rate : numpy.ndarray
            log λ of each entry, of shape ``(n,)``.

        Returns
        -------
        dict of str to float
            The new state; by default the current one.

        Examples
        --------
        >>> x = np.array([1.0, 4.0])
        >>> state = {"shape": 2.0, "scale": 1.0}
        >>> plait.likelihood.Tweedie(shape=2).choose(state, x, np.ones(2), np.zeros(2))
        {'shape': 2.0, 'scale': 1.0}
        """
        return dict(state)

    @property
    def chooses(self) -> bool:
        """Whether `choose` does anything."""
        return type(self).choose is not Likelihood.choose

    def packed(self, state: State) -> Array:
        """Return the state as kernels read it.

        Parameters
        ----------
        state : dict of str to float
            The state.

        Returns
        -------
        numpy.ndarray
            One read-only array of doubles.

        Examples
        --------
        >>> plait.likelihood.Negbin().packed({"burst": 0.5}).flags.writeable
        False
        """
        numbers = np.array([*state.values()] or [0.0])
        numbers.flags.writeable = False
        return numbers

    # --- the fit

    def expect(self, values: Floats, log_rate: Array, state: State) -> tuple[Array, Array]:
        """Compute the expected number of events, and the term of the ELBO.

        Parameters
        ----------
        values : numpy.ndarray
            Nonzero values x, of shape ``(n,)``.
        log_rate : numpy.ndarray
            log λ of each entry, of shape ``(n,)``.
        state : dict of str to float
            The state.

        Returns
        -------
        tuple of numpy.ndarray
            E[n | x, λ] and the term, of shape ``(n,)`` each.

        Examples
        --------
        >>> expected, term = plait.likelihood.Poisson().expect(np.array([3.0]), np.zeros(1), {})
        >>> expected.tolist()
        [3.0]
        """
        expected, term = np.empty(len(values)), np.empty(len(values))
        stored = np.asarray(self.stored(values), np.float64)
        _loop(type(self).link)(stored, log_rate, self.packed(state), expected, term)
        return expected, term

    def variance(self, values: Floats, log_rate: Array, state: State) -> Array:
        """Compute the variance of the number of events, d E[n] / d log λ.

        Parameters
        ----------
        values : numpy.ndarray
            Nonzero values x, of shape ``(n,)``.
        log_rate : numpy.ndarray
            log λ of each entry, of shape ``(n,)``.
        state : dict of str to float
            The state.

        Returns
        -------
        numpy.ndarray
            Var[n | x, λ], of shape ``(n,)``.

        Examples
        --------
        >>> plait.likelihood.Poisson().variance(np.array([3.0]), np.zeros(1), {}).tolist()
        [0.0]
        """
        higher, lower = (self.expect(values, log_rate + nudge, state)[0] for nudge in (SLOPE_STEP, -SLOPE_STEP))
        return np.maximum((higher - lower) / (2 * SLOPE_STEP), 0.0)

    def follow(self, values: Floats, log_rate: Array, state: State) -> Array:
        """d log E[n] / d log λ, (n,): how E[n] follows the rate; 0 where it is fixed, 1 where all is the rate's."""
        return self.variance(values, log_rate, state) / self.expect(values, log_rate, state)[0]

    def fixed(self, values: Floats) -> Array:
        """Compute the part of log p(x | λ) that depends on x alone.

        Parameters
        ----------
        values : numpy.ndarray
            Nonzero values x, of shape ``(n,)``.

        Returns
        -------
        numpy.ndarray
            fixed(x) in log p(x | λ) = term + fixed(x) + x · tilt − λ, of shape ``(n,)``.

        Examples
        --------
        >>> plait.likelihood.Poisson().fixed(np.array([2.0])).round(3).tolist()
        [-0.693]
        """
        return np.zeros(len(values))

    def tilt(self, state: State) -> float:
        """Compute the coefficient of x in log p(x | λ).

        Parameters
        ----------
        state : dict of str to float
            The state.

        Returns
        -------
        float
            tilt in log p(x | λ) = term + fixed(x) + x · tilt − λ.

        Examples
        --------
        >>> plait.likelihood.Tweedie().tilt({"shape": 2.0, "scale": 4.0})
        -0.25
        """
        return 0.0

    def constants(self, values: Floats, state: State) -> Array:
        """fixed(x) + x · tilt, (n,)."""
        return self.fixed(values) + np.asarray(values, np.float64) * self.tilt(state)

    def sums(self, values: Floats, weights: Floats) -> Sums:
        """What start, update and constant need of nonzeros x > 0 and their weights M."""
        x, M = np.asarray(values, np.float64), np.asarray(weights, np.float64)
        return Sums(float(M.sum()), float(M @ x), float(M @ np.log(x)), float(M @ self.fixed(x)))

    def constant(self, sums: Sums, state: State) -> float:
        """ΣM (fixed(x) + x · tilt): the part of the bound that no λ changes."""
        return sums.fixed + sums.value * self.tilt(state)

    def by_unit(self, sums: Sums) -> float:
        """The part of `constant` that is there because values have a unit: another unit changes the bound by it."""
        return 0.0

    # --- prediction

    def bursts(self, state: State) -> tuple[float, float]:
        """Compute mean and mean square of the amount that one event adds to x.

        Parameters
        ----------
        state : dict of str to float
            The state.

        Returns
        -------
        tuple of float
            Mean and mean square.

        Examples
        --------
        >>> plait.likelihood.Tweedie().bursts({"shape": 2.0, "scale": 4.0})
        (8.0, 96.0)
        """
        raise NotImplementedError

    def moments(self, mean: Array, variance: Array, state: State) -> tuple[Array, Array]:
        """E[x] = m μ₁ and Var[x] = m μ₂ + var μ₁², from mean and variance of λ."""
        first, second = self.bursts(state)
        return mean * first, mean * second + variance * first * first

    def log_chance(self, values: Floats, rates: Array, state: State) -> Array:
        """log p(x | λ), (n,) for rates (n,)."""
        log_p, some, possible = -np.asarray(rates, np.float64), values > 0, rates > 0
        at = some & possible
        x, rate = np.asarray(values[at], np.float64), rates[at]
        log_p[at] += self.expect(x, np.log(rate), state)[1] + self.constants(x, state)
        log_p[some & ~possible] = -np.inf
        return log_p

    def below(self, values: Array, rates: Array, state: State) -> Array:
        """P(value ≤ x), (n,), where rates (n, points) are equally probable; here by summing over whole numbers."""
        return predictive.summed(self, values, rates, state)

    def log_probability(self, values: Floats, rates: Array, state: State) -> Array:
        """log p(x), (n,), where rates (n, points) are equally probable."""
        return predictive.log_mixture(self, values, rates, state)

    def log_probability_by_moments(self, values: Floats, mean: Array, variance: Array, state: State) -> Array:
        """log p(x), (n,), where λ is a Gamma of this mean and variance, (n,) each."""
        return predictive.log_integral(self, values, mean, variance, state)

    def quantiles(self, rates: Array, level: Array | float, state: State) -> Array:
        """The smallest value v with P(x ≤ v) ≥ level, (n,), where rates (n, points) are equally probable; `level`: one,
        or (n,).
        """

        def below(rows: NDArray[np.int64], values: Array) -> Array:
            return self.below(values, rates[rows], state)

        scale = self.bursts(state)[0]
        return predictive.quantiles(below, scale, scale * rates.max(axis=1), level, whole=self.whole)

    # --- kernels

    def entry(self, names: KernelNames) -> Entry:
        """The text of a kernel for an entry whose Xhat can be divided by."""
        called = f"{self.name}_link({names.value}, {names.xhat}, 0.0, {names.parameters})"
        lines = f"expected, term, logged = {called}", f"q = {names.entry} * expected / {names.xhat}"
        return Entry(lines, f"score += {names.entry} * term", "logged")

    def preamble(self) -> str:
        """The lines that make the link known to a kernel's module; they change when the link does."""
        return f'from plait.likelihood import link_of\n\n{self.name}_link = link_of("{self.name}")  # {self.stamp()}\n'

    def stamp(self) -> str:
        """A hash of the link and of all that it calls: machine code made with another one is stale."""
        return fingerprint(type(self).link)[:16]


def _enter(cls: type[Likelihood]) -> None:
    other = KNOWN.get(cls.name)
    if other is not None and other.__module__.startswith("plait.") and cls.__module__ != other.__module__:
        raise ParameterError(
            f"likelihood {cls.name!r} of {cls.__module__}: the name belongs to a likelihood of Plait.",
            hint="Choose another name.",
        )
    if not cls.name.isidentifier():
        raise ParameterError(
            f"likelihood {cls.name!r}: the name must consist of letters, digits and _.",
            hint="Choose another name.",
        )
    KNOWN[cls.name] = cls


_loops: dict[Any, Callable[..., None]] = {}


def _loop(link: Any) -> Callable[..., None]:
    """The link over arrays, compiled once."""
    if link not in _loops:

        def run(values: Any, log_rate: Any, parameters: Any, expected: Any, term: Any) -> None:
            for n in range(len(values)):
                count, own, logged = link(values[n], 1.0, log_rate[n], parameters)
                expected[n], term[n] = count, own + np.log(logged)

        _loops[link] = uncached(run)
    return _loops[link]
