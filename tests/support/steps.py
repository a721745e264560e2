"""Steps with random operands and entries, built from the equations of tests/support/models.py."""

import math
import zlib
from dataclasses import dataclass, replace

import numpy as np

from plait.codegen.layout import Layout
from plait.codegen.plan import ALONE, plan_counts
from plait.codegen.step import Operand, Step, make_step
from plait.data.sparse.csf import CSFTensor, grow
from plait.executors import Stats
from plait.likelihood import as_likelihood
from tests.support import oracle
from tests.support.models import DOUBLED, GIVEN, MODELS, RANKS, SIZES, SUMS


def equations():
    """Every equation of tests/support/models.py, those of couplings too, without those that give the same step."""
    seen, found = set(), {}
    for name, text in (MODELS | SUMS | DOUBLED).items():
        plain = oracle.from_text(text)
        for relation in oracle.relations_of(plain):
            shape = Equation.of([term for term in plain if term[0] == relation])
            step = shape.step("poisson", shape.order, ()).renamed()
            if step not in seen:
                seen.add(step)
                found[name if relation == "X" else f"{name}.{relation}"] = shape
    return found


@dataclass(frozen=True)
class Equation:
    """The indices of a relation and of its factors, as written; sizes by visible, ranks by latent index.

    places: the term of each factor; given: the terms that have a given factor, which is not among the factors.
    """

    indices: tuple[str, ...]
    factors: tuple[tuple[str, ...], ...]
    sizes: dict[str, int] | None = None
    ranks: dict[str, int] | None = None
    places: tuple[int, ...] = ()
    terms: int = 1
    given: tuple[int, ...] = ()

    @classmethod
    def read(cls, text, sizes=None, ranks=None):
        return replace(cls.of(oracle.from_text(text)), sizes=sizes, ranks=ranks)

    @classmethod
    def of(cls, terms):
        """The equation of a relation's terms in the oracle's plain form."""
        free = [(n, inside) for n, (_, _, o) in enumerate(terms) for name, inside in o if name not in GIVEN]
        given = tuple(n for n, (_, _, o) in enumerate(terms) if any(name in GIVEN for name, _ in o))
        places, factors = tuple(n for n, _ in free), tuple(inside for _, inside in free)
        return cls(terms[0][1], factors, places=places, terms=len(terms), given=given)

    @property
    def single(self):
        return self.terms == 1

    def size(self, index):
        return {ALONE: 1, **SIZES, **RANKS, **(self.sizes or {}), **(self.ranks or {})}[index]

    @property
    def order(self):
        return self.indices or (ALONE,)

    @property
    def layouts(self):
        found = []
        for n, factor in enumerate(self.factors):
            visible = tuple(index for index in factor if index in self.indices)
            latent = tuple(index for index in factor if index not in self.indices)
            sizes = tuple(self.size(i) for i in visible + latent)
            found.append(Layout(f"Z{n}", factor, visible, latent, sizes, scaled=self.single))
        return tuple(found)

    @property
    def operands(self):
        places = self.places or (0,) * len(self.factors)
        return tuple(Operand(layout.visible, layout.latent, term) for layout, term in zip(self.layouts, places))

    def step(self, kind, order, wanted, **more) -> Step:
        ranks = {index: self.size(index) for factor in self.factors for index in factor if index not in self.indices}
        more = {"exposed": self.given if kind != "linear" else (), "terms": self.terms} | more
        kind = kind if kind == "linear" else as_likelihood(kind)
        return make_step(kind, tuple(order), self.operands, ranks, tuple(wanted), **more)

    def plan(self, kind, entries, threads, *, exposed=None):
        sizes = {index: self.size(index) for index in self.indices}
        exposed = self.given if exposed is None else exposed
        return plan_counts(
            "X", as_likelihood(kind), self.indices, sizes, self.operands, self.layouts, entries, threads,
            exposed=exposed, terms=self.terms,
        )  # fmt: skip

    def cells(self, rng, count, dtype=np.uint32):
        """Sorted distinct cells, at most `count` of them."""
        shape = [self.size(index) for index in self.order]
        total = math.prod(shape)
        flat = np.sort(rng.choice(total, size=min(count, total), replace=False))
        return np.stack(np.unravel_index(flat, shape), axis=1).astype(dtype)

    def tree(self, cells, entries, order, side_values=()) -> CSFTensor:
        sizes = {index: self.size(index) for index in self.order}
        return grow(self.order, sizes, cells, entries, tuple(order)).with_entries(entries, *side_values)

    def arrays(self, rng, scaled=True):
        """Stored operands as inference has them: rows scaled to maximum 1, or as they are; padding 0."""
        arrays = []
        for layout in self.layouts:
            inside = rng.gamma(0.7, 1.0, layout.sizes) + 1e-3
            over = tuple(range(len(layout.visible), inside.ndim))
            largest = inside.max(axis=over, keepdims=True) if over else inside
            arrays.append(layout.pack(inside / largest if scaled else inside))
        return arrays


def seeded(*parts):
    """A generator that depends on the test's own parameters only."""
    return np.random.default_rng(zlib.crc32(" ".join(map(str, parts)).encode()))


@dataclass(frozen=True)
class Case:
    """One call of an executor."""

    equation: Equation
    step: Step
    cells: np.ndarray  # in the order of the relation's indices
    entries: np.ndarray
    side_values: tuple[np.ndarray, ...]  # what kernels read in place of x, then V of every exposed term
    arrays: list[np.ndarray]
    state: dict[str, float]

    @classmethod
    def draw(cls, equation, step, rng, count=400, dtype=np.uint32):
        cells = equation.cells(rng, count, dtype)
        arrays = equation.arrays(rng, equation.single and not (step.likelihood and step.likelihood.true_scale))
        entries = rng.gamma(2.0, 1.0, len(cells))
        side_values = tuple(np.exp(rng.normal(size=len(cells))) for _ in step.exposed)
        state = {}
        if step.valued:
            values = rng.geometric(0.2, len(cells)).astype(float)
            side_values = (step.likelihood.stored(values), *side_values)
            state = step.likelihood.start(step.likelihood.sums(values, entries))
        return cls(equation, step, cells, entries, side_values, arrays, state)

    def tree(self, chosen=slice(None)):
        side_values = [array[chosen] for array in self.side_values]
        return self.equation.tree(self.cells[chosen], self.entries[chosen], self.step.order, side_values)

    def sum(self, executor, blocks=None):
        """The sum over all entries, or over those of some trees, added up."""
        stats = Stats.zero(self.step, self.arrays)
        if blocks is None:
            return executor.sum(self.step, self.tree(), self.arrays, self.state)
        return sum((executor.sum(self.step, tree, self.arrays, self.state) for tree in blocks), stats)

    def with_entries(self, entries):
        return replace(self, entries=entries)


def assert_equal_stats(case, actual, expected, rtol=1e-12):
    """Equal to rounding; padding columns mean nothing and are not looked at."""
    layouts = [case.equation.layouts[position] for position in case.step.wanted]
    assert len(actual.gradients) == len(expected.gradients) == len(layouts)
    for layout, a, e in zip(layouts, actual.gradients, expected.gradients):
        a, e = layout.unpack(a), layout.unpack(e)
        scale = float(np.abs(e).max(initial=0.0))
        np.testing.assert_allclose(a, e, rtol=rtol, atol=1e-15 * scale, err_msg=f"gradient of {layout.name}")
    if case.step.bound:
        np.testing.assert_allclose(actual.value, expected.value, rtol=rtol, atol=1e-12 * len(case.entries))
    for a, e in zip(sorted_underflow(actual), sorted_underflow(expected)):
        np.testing.assert_array_equal(a, e)


def sorted_underflow(stats):
    order = np.lexsort(stats.underflow_cells.T[::-1])
    return stats.underflow_cells[order], stats.underflow_entries[order], stats.underflow_side_values[order]


def assert_same_bits(one, other):
    """Assert that two sums are bitwise identical, with the same underflowing entries."""
    for a, b in zip(one.gradients, other.gradients, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    assert (one.value, one.events) == (other.value, other.events)
    for word in ("underflow_cells", "underflow_entries", "underflow_side_values"):
        np.testing.assert_array_equal(getattr(one, word), getattr(other, word))
