"""Vectors and scalar functions that kernels share, against long doubles and SciPy."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special

from plait import jit

wide = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a long double that is longer than a double")


@jit.uncached
def copy(source, row, column, target):
    jit.store(target, np.uint64(0), 0, jit.load(source, row, column))


@jit.uncached
def arithmetic(x, y, z, scalar, out):
    top = np.uint64(0)
    a, b, c = jit.load(x, top, 0), jit.load(y, top, 0), jit.load(z, top, 0)
    jit.store(out, np.uint64(0), 0, jit.splat(scalar))
    jit.store(out, np.uint64(1), 0, jit.mul(a, b))
    jit.store(out, np.uint64(2), 0, jit.add(a, b))
    jit.store(out, np.uint64(3), 0, jit.fma(a, b, c))
    return jit.total(a)


@jit.inlined
def eight(x, out, m):
    jit.store(out, np.uint64(0), m * 8, jit.log8(jit.load(x, np.uint64(0), m * 8)))


@jit.uncached
def logarithms(x, out):
    """As kernels take them: in an inlined function, called by a kernel whose arithmetic may be reassociated."""
    for m in range(x.shape[1] // 8):
        eight(x, out, m)


@jit.uncached
def weighted_logs(values, entries, begin, end):
    return jit.weighted_logs(values, entries, begin, end)


def log8(x):
    padded = np.ones((1, -(-len(x) // 8) * 8))
    padded[0, : len(x)] = x
    out = np.full(padded.shape, np.nan)
    logarithms(padded, out)
    return out[0, : len(x)]


def ulps(actual, exact):
    """Distance in units of the last place of the exact value's double."""
    return np.abs((actual.astype(np.longdouble) - exact) / np.spacing(np.abs(exact.astype(float))))


# vectors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("column", [8, 3])
def test_a_stored_vector_has_the_bits_of_the_loaded_one(kind, column):
    source = np.random.default_rng(0).normal(size=(256, 16))
    source[200, 8:13] = [np.inf, -np.inf, -0.0, 5e-324, np.nan]
    target = np.zeros((1, 8))
    copy(source, kind(200), column, target)
    assert target.tobytes() == source[200, column : column + 8].tobytes()


def test_vector_arithmetic_is_elementwise():
    x, y, z = (np.array([numbers], float) for numbers in (range(1, 9), range(11, 19), range(-4, 4)))
    out = np.zeros((4, 8))
    assert arithmetic(x, y, z, 2.5, out) == 36.0
    assert out[0].tolist() == [2.5] * 8
    assert out[1].tolist() == (x * y)[0].tolist()
    assert out[2].tolist() == (x + y)[0].tolist()
    assert out[3].tolist() == (x * y + z)[0].tolist()


def test_vectors_keep_nan_and_infinity():
    x, y, z = np.ones((1, 8)), np.ones((1, 8)), np.zeros((1, 8))
    x[0, 3], x[0, 5] = np.nan, np.inf
    out = np.zeros((4, 8))
    assert math.isnan(arithmetic(x, y, z, math.inf, out))
    assert np.isinf(out[0]).all()
    assert np.isnan(out[3, 3])
    assert np.isinf(out[3, 5])


@pytest.mark.parametrize("module", [None, "plait_nowhere"])
def test_a_function_without_a_module_is_not_cached(module, monkeypatch, tmp_path):
    """Numba would store it under the module's name `<dynamic>`, and such an entry never loads."""
    monkeypatch.setenv("PLAIT_CACHE_DIR", str(tmp_path))
    names = {"kernel": jit.kernel} | ({"__name__": module} if module else {})
    exec(compile("@kernel\ndef double(x):\n    return 2.0 * x\n", "<nowhere>", "exec"), names)
    assert names["double"](21.0) == 42.0
    assert list(tmp_path.iterdir()) == []


TWICE = "FACTOR = 2.0\ndef double(x):\n    return FACTOR * x\ndef outer(x):\n    return double(x) + 1.0\n"


def fingerprint(text, compiled=jit.inlined):
    names = {"__name__": "a_module"}
    exec(text, names)
    names["double"] = compiled(names["double"])
    return jit.fingerprint(names["outer"])


def test_a_fingerprint_covers_called_functions_flags_and_constants():
    own = fingerprint(TWICE)
    assert fingerprint("# a comment\n\n" + TWICE) == own
    changed = [TWICE.replace("2.0", "3.0"), TWICE.replace("FACTOR *", "FACTOR /"), TWICE.replace("1.0", "1")]
    others = [*map(fingerprint, changed), fingerprint(TWICE, jit.uncached)]
    assert len({own, *others}) == 5


def test_python_runs_the_text_of_an_inlined_function():
    compiled = len(jit.log_minus_digamma.compiled.overloads)  # what kernels of other tests inlined
    assert jit.log_minus_digamma(1.0)[0] == pytest.approx(np.euler_gamma)
    assert jit.log_minus_digamma(np.float32(1.0))[0] == pytest.approx(np.euler_gamma)
    assert len(jit.log_minus_digamma.compiled.overloads) == compiled


# logarithms -----------------------------------------------------------------------------------------------------------


@wide
def test_log8_is_within_2_ulp_over_all_normal_numbers():
    rng = np.random.default_rng(1)
    bits = rng.integers(0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 400_000, endpoint=True)
    x = bits.view(np.float64)
    assert x.min() < 1e-300
    assert x.max() > 1e300
    assert ulps(log8(x), np.log(x.astype(np.longdouble))).max() <= 2.0


@wide
@pytest.mark.parametrize("centre", [1.0, math.sqrt(0.5), math.sqrt(2.0), 0.5, 2.0, 1e-290])
def test_log8_is_within_2_ulp_where_the_exponent_changes(centre):
    near = centre + np.arange(-500, 501) * np.spacing(centre)
    around = centre * (1.0 + np.random.default_rng(2).uniform(-0.3, 0.3, 100_000))
    x = np.concatenate([near, around])
    exact = np.log(x.astype(np.longdouble))
    x, exact = x[exact != 0], exact[exact != 0]
    assert ulps(log8(x), exact).max() <= 2.0


def test_log8_of_1_of_powers_of_2_and_of_the_ends_of_the_range():
    x = np.array([1.0, np.finfo(float).tiny, np.finfo(float).max, jit.TINY, *np.ldexp(1.0, np.arange(-1022, 1024))])
    assert log8(x)[0] == 0.0
    np.testing.assert_array_max_ulp(log8(x), np.log(x), maxulp=2)


@pytest.mark.parametrize(("begin", "end"), [(0, 256), (0, 1), (0, 8), (3, 256), (5, 12), (250, 256), (7, 7), (1, 200)])
@pytest.mark.parametrize("block", [0, 3])
def test_weighted_logs_are_the_sum_over_any_part_of_a_block(begin, end, block):
    rng = np.random.default_rng(begin + end)
    values = np.exp(rng.uniform(-600, 600, (1, jit.LOGS)))
    entries = rng.gamma(1.0, 1.0, 4 * jit.LOGS)
    first, last = block * jit.LOGS + begin, block * jit.LOGS + end
    for kept in (
        entries,
        entries.astype(np.float32),
        np.rint(9 * entries).astype(np.uint8),
        np.arange(1024, dtype="u2"),
    ):
        weights = kept[first:last].astype(float)
        expected = weights @ np.log(values[0, : end - begin])
        scale = weights @ np.abs(np.log(values[0, : end - begin]))
        assert weighted_logs(values, kept, first, last) == pytest.approx(expected, abs=1e-14 * scale, rel=0.0)


# ψ and log Γ ----------------------------------------------------------------------------------------------------------


def inside_a_kernel(function):
    """A scalar function compiled into a kernel: numba passes a caller's float flags to the functions it calls."""
    fresh = jit.inlined(function.py_func)

    @jit.uncached
    def all_of(xs, out):
        for n in range(xs.size):
            out[n, 0], out[n, 1] = fresh(xs[n])

    def call(xs):
        out = np.zeros((len(xs), 2))
        all_of(np.asarray(xs, float), out)
        return out

    return call


def alone(function):
    fresh = jit.exact_kernel(function.py_func)
    return lambda xs: np.array([fresh(float(x)) for x in xs])


@jit.inlined
def both_at(x, out, m):
    psi, lgamma = jit.digamma_lgamma8(jit.load(x, np.uint64(0), m * 8))
    jit.store(out, np.uint64(0), m * 8, psi)
    jit.store(out, np.uint64(1), m * 8, lgamma)


@jit.exact_kernel
def both_exactly(x, out):
    for m in range(x.shape[1] // 8):
        both_at(x, out, m)


@jit.uncached
def both_among_others(x, out):
    for m in range(x.shape[1] // 8):
        both_at(x, out, m)


def in_eights(both):
    """ψ and log Γ of any number of doubles: (n, 2)."""

    def call(xs):
        padded = np.ones((1, -(-len(xs) // 8) * 8))
        padded[0, : len(xs)] = xs
        out = np.full((2, padded.shape[1]), np.nan)
        both(padded, out)
        return out[:, : len(xs)].T

    return call


DIGAMMA = {"alone": in_eights(both_exactly), "inside a kernel": in_eights(both_among_others)}


@jit.inlined
def link(log_rate):
    expected, term, miss = jit.bernoulli_link(1.0, log_rate)
    return expected, term + math.log(miss)


LINK = {"alone": alone(link), "inside a kernel": inside_a_kernel(link)}
everywhere = pytest.mark.parametrize("where", ["alone", "inside a kernel"])


HALF_LOG_PI = math.log(math.pi) / 2.0
DIGAMMAS = {
    1.0: -np.euler_gamma,
    2.0: 1.0 - np.euler_gamma,
    5.0: 25.0 / 12.0 - np.euler_gamma,
    0.5: -np.euler_gamma - 2.0 * math.log(2.0),
    0.25: -np.euler_gamma - math.pi / 2.0 - 3.0 * math.log(2.0),
    2.5: 8.0 / 3.0 - np.euler_gamma - 2.0 * math.log(2.0),
    1.4616321449683622: 0.0,
}
LOG_GAMMAS = {1.0: 0.0, 2.0: 0.0, 0.5: HALF_LOG_PI, 1.5: HALF_LOG_PI - math.log(2.0)}
LOG_GAMMAS |= {n + 1.0: math.log(math.factorial(n)) for n in (5, 20, 170)}


@everywhere
def test_digamma_and_lgamma_have_their_known_values(where):
    for x, psi in DIGAMMAS.items():
        assert DIGAMMA[where]([x])[0, 0] == pytest.approx(psi, abs=4e-15)
    for x, log_gamma in LOG_GAMMAS.items():
        assert DIGAMMA[where]([x])[0, 1] == pytest.approx(log_gamma, rel=4e-15, abs=4e-15)


RANGES = [(1e-300, 1e300), (1e-300, 1e-6), (1e-3, 1e3), (0.5, 6.0), (0.9, 1.1), (1.4, 1.5), (4.9, 5.1), (1e4, 1e300)]


@everywhere
@pytest.mark.parametrize(("low", "high"), RANGES)
def test_digamma_and_lgamma_equal_40_digits_to_1e14(low, high, where):
    xs = np.exp(np.random.default_rng(5).uniform(np.log(low), np.log(high), 600))
    with mpmath.workdps(40):
        exact = [(mpmath.digamma(x), mpmath.loggamma(x)) for x in map(mpmath.mpf, xs.tolist())]
        errors = [
            [abs(mpmath.mpf(found) - true) / (1 + abs(true)) for found, true in zip(pair, truth)]
            for pair, truth in zip(DIGAMMA[where](xs).tolist(), exact)
        ]
    assert max(map(max, errors)) <= 1e-14


def test_digamma_and_lgamma_have_the_same_bits_in_every_lane_and_caller():
    x = np.repeat(np.exp(np.random.default_rng(6).uniform(-10, 10, 500)), 8)
    found = DIGAMMA["alone"](x)
    assert (found.reshape(500, 8, 2) == found[::8, None, :]).all()
    assert found.tobytes() == DIGAMMA["inside a kernel"](x).tobytes()


GAP = {"alone": alone(jit.log_minus_digamma), "inside a kernel": inside_a_kernel(jit.log_minus_digamma)}


@everywhere
def test_log_minus_digamma_and_its_slope_equal_scipy(where):
    x = np.exp(np.random.default_rng(9).uniform(np.log(1e-6), np.log(1e3), 5000))
    value, slope = GAP[where](x).T
    np.testing.assert_allclose(value, np.log(x) - special.psi(x), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(slope, 1.0 / x - special.polygamma(1, x), rtol=1e-11, atol=1e-14)


@everywhere
def test_log_minus_digamma_of_large_numbers_keeps_all_its_digits(where):
    x = np.geomspace(1e5, 1e9, 50)  # in the difference of log and ψ only six digits would be left
    value, slope = GAP[where](x).T
    np.testing.assert_allclose(value, 1.0 / (2.0 * x) + 1.0 / (12.0 * x**2), rtol=1e-15)
    np.testing.assert_allclose(slope, -1.0 / (2.0 * x**2) - 1.0 / (6.0 * x**3), rtol=1e-15)


# exact vectors --------------------------------------------------------------------------------------------------------


@jit.exact_kernel
def exact_operations(x, y, count, single, out):
    top = np.uint64(0)
    a, b = jit.load(x, top, 0), jit.load(y, top, 0)
    jit.store(out, np.uint64(0), 0, a + b)
    jit.store(out, np.uint64(1), 0, a - b)
    jit.store(out, np.uint64(2), 0, a * b)
    jit.store(out, np.uint64(3), 0, a / b)
    jit.store(out, np.uint64(4), 0, jit.maximum(a, b))
    jit.store(out, np.uint64(5), 0, jit.where_positive(a, b, a))
    jit.store(out, np.uint64(6), 0, jit.cut(a, count, -7.0))
    jit.store(out, np.uint64(7), 0, jit.rounded(a, single))
    jit.store(out, np.uint64(8), 0, jit.rounded(a, x))
    return jit.first(a), jit.largest(a)


def test_exact_vectors_have_the_bits_of_numpy():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(1, 8)), rng.normal(size=(1, 8))
    single, out = np.zeros((1, 8), np.float32), np.zeros((9, 8))
    assert exact_operations(x, y, 3, single, out) == (x[0, 0], x.max())
    kept = np.where(np.arange(8) < 3, x[0], -7.0)
    expected = [
        x + y,
        x - y,
        x * y,
        x / y,
        np.maximum(x, y),
        np.where(x > 0, y, x),
        kept[None],
        x.astype(np.float32),
        x,
    ]
    np.testing.assert_array_equal(out, np.concatenate(expected).astype(float))


@jit.exact_kernel
def there_and_back(x, y, out):
    a, b = jit.load(x, np.uint64(0), 0), jit.load(y, np.uint64(0), 0)
    jit.store(out, np.uint64(0), 0, a + b - b)


def test_exact_kernels_do_not_reassociate():
    x, y, out = np.full((1, 8), 1e-3), np.full((1, 8), 1e6), np.zeros((1, 8))
    there_and_back(x, y, out)
    np.testing.assert_array_equal(out, x + y - y)
    assert (out != x).all()


# exponentials ---------------------------------------------------------------------------------------------------------


@jit.exact_kernel
def exponentials(x, out):
    for m in range(x.shape[1] // 8):
        jit.store(out, np.uint64(0), m * 8, jit.exp8(jit.load(x, np.uint64(0), m * 8)))


@jit.exact_kernel
def any_logarithms(x, out):
    for m in range(x.shape[1] // 8):
        jit.store(out, np.uint64(0), m * 8, jit.log_any8(jit.load(x, np.uint64(0), m * 8)))


@wide
@pytest.mark.parametrize(("low", "high"), [(-708.0, 709.0), (-1.0, 1.0), (-1e-8, 1e-8)])
def test_exp8_is_within_2_ulp(low, high):
    x = np.random.default_rng(8).uniform(low, high, (1, 80_000))
    out = np.zeros(x.shape)
    exponentials(x, out)
    assert ulps(out, np.exp(x.astype(np.longdouble))).max() <= 2.0


def test_exp8_at_0_at_subnormal_results_and_at_nan():
    x = np.array([[0.0, -0.0, -708.0, -708.1, -745.0, -1e308, -np.inf, np.nan]])
    out = np.zeros(x.shape)
    exponentials(x, out)
    assert out[0, :2].tolist() == [1.0, 1.0]
    assert out[0, 2] == pytest.approx(np.exp(-708.0), rel=1e-15)
    assert out[0, 3:7].tolist() == [0.0] * 4
    assert np.isnan(out[0, 7])


def test_log_any8_from_0_to_the_largest_number():
    x = np.array([[0.0, 5e-324, 1e-310, np.finfo(float).tiny, 1e-200, 1.0, 3.0, np.finfo(float).max]])
    out = np.zeros(x.shape)
    any_logarithms(x, out)
    assert out[0, 0] == -np.inf
    np.testing.assert_allclose(out[0, 1:], np.log(x[0, 1:]), rtol=1e-15)


# the Bernoulli link ---------------------------------------------------------------------------------------------------


@wide
@everywhere
def test_bernoulli_link_equals_long_doubles_from_minus_800_to_690(where):
    log_rates = np.concatenate(
        [np.linspace(-800, 690, 5001), np.linspace(-40, 6, 5001), np.linspace(-37.1, -36.9, 501)]
    )
    rate = np.exp(log_rates.astype(np.longdouble))
    miss = -np.expm1(-rate)
    found = LINK[where](log_rates)
    exact_mean, exact_term = rate / miss, rate + np.log(miss)
    assert np.max(np.abs(found[:, 0] / exact_mean - 1)) <= 1e-15
    assert np.max(np.abs(found[:, 1] - exact_term) / (np.abs(exact_term) + 1)) <= 1e-15


@everywhere
@pytest.mark.parametrize("log_rate", [-1e308, -800.0, -37.0, -1.0, 0.0, 3.0, 690.0, 700.0, 709.9, 1e5])
def test_bernoulli_link_is_finite_and_expects_at_least_one(log_rate, where):
    ((mean, term),) = LINK[where]([log_rate])
    assert 1.0 <= mean < math.inf
    assert math.isfinite(term)


@jit.uncached
def link_of(xhat, log_scale):
    return jit.bernoulli_link(xhat, log_scale)


@wide
@pytest.mark.parametrize("xhat", [1e-270, 1e-20, 0.3, 50.0])
@pytest.mark.parametrize("log_scale", [-1000.0, -700.0, -300.0, -5.0, 0.0, 40.0, 300.0, 689.0, 700.0, 800.0])
def test_bernoulli_link_takes_the_scale_apart(xhat, log_scale):
    log_rate = np.log(np.longdouble(xhat)) + log_scale
    rate = np.exp(np.minimum(log_rate, np.longdouble(700.0)))
    miss = -np.expm1(-rate)
    expected, term, number = link_of(xhat, log_scale)
    assert float(expected) == pytest.approx(float(rate / miss), rel=1e-12)
    assert term + math.log(number) == pytest.approx(float(rate + np.log(miss)), rel=1e-12)


@jit.uncached
def rate_of(xhat, log_scale):
    return jit.rate_of(xhat, log_scale)


def test_a_rate_of_any_size_is_xhat_times_its_scale():
    for xhat, log_scale in ((0.3, 0.0), (1e-200, 500.0), (2.0, -600.0), (5.0, 689.9), (1e-260, 900.0), (1.0, -720.0)):
        wanted = math.exp(min(math.log(xhat) + log_scale, 700.0))
        assert rate_of(xhat, log_scale) == pytest.approx(wanted, rel=1e-12)
    assert rate_of(1.0, -800.0) == 0.0
    assert rate_of(1e300, 689.0) == rate_of(1.0, 5000.0) == math.exp(700.0)
