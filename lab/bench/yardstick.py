"""The yardstick: one counts pass of X[i,j,k] = A[i,r] B[j,r] C[k,r], written by hand for this one equation.

It shows how fast CP-3 can go, so it shares nothing with Plait. Rows are padded to a multiple of 8 doubles, the source
names one explicit LLVM vector per 8 columns, and all that the inner loop needs stays in registers. The kernel releases
the GIL and takes a range of root fibres; each thread adds into its own buffers.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, models, register_model
from numba.np.arrayobj import make_array

WIDTH = 8
FLAGS = ("contract", "reassoc", "nsz", "arcp")  # not full fast-math: that would delete NaN and infinity tests
VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
I32, I64 = ir.IntType(32), ir.IntType(64)


class Vector(types.Type):
    def __init__(self):
        super().__init__(name=f"YardstickVector{WIDTH}")


vector = Vector()


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, VECTOR)


def _address(context, builder, array_type, array, row, column):
    """Pointer to WIDTH doubles of a C-contiguous 2-d array; rows are unsigned, so no wrap-around test is emitted."""
    a = make_array(array_type)(context, builder, array)
    row = builder.zext(row, I64) if row.type.width < 64 else row
    flat = builder.add(builder.mul(row, builder.extract_value(a.shape, 1)), column)
    return builder.bitcast(builder.gep(a.data, [flat]), VECTOR.as_pointer())


@intrinsic
def load(typingctx, array, row, column):
    def codegen(context, builder, sig, args):
        return builder.load(_address(context, builder, sig.args[0], *args), align=8)

    return vector(array, row, column), codegen


@intrinsic
def store(typingctx, array, row, column, value):
    def codegen(context, builder, sig, args):
        builder.store(args[3], _address(context, builder, sig.args[0], *args[:3]), align=8)
        return context.get_dummy_value()

    return types.void(array, row, column, value), codegen


@intrinsic
def splat(typingctx, x):
    def codegen(context, builder, sig, args):
        undefined = ir.Constant(VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, args[0], I32(0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, WIDTH), [0] * WIDTH))

    return vector(x), codegen


@intrinsic
def mul(typingctx, x, y):
    def codegen(context, builder, sig, args):
        return builder.fmul(*args, flags=FLAGS)

    return vector(x, y), codegen


@intrinsic
def fma(typingctx, x, y, z):
    def codegen(context, builder, sig, args):
        return builder.fadd(builder.fmul(args[0], args[1], flags=FLAGS), args[2], flags=FLAGS)

    return vector(x, y, z), codegen


@intrinsic
def total(typingctx, x):
    """The sum of a vector, by halves."""

    def codegen(context, builder, sig, args):
        value = args[0]
        while value.type.count > 1:
            half = value.type.count // 2
            undefined = ir.Constant(value.type, ir.Undefined)
            masks = [ir.Constant(ir.VectorType(I32, half), list(range(s, s + half))) for s in (0, half)]
            value = builder.fadd(*(builder.shuffle_vector(value, undefined, mask) for mask in masks), flags=FLAGS)
        return builder.extract_element(value, I32(0))

    return types.float64(x), codegen


def source(padded: int) -> str:
    """Kernel text for a padded rank: the fibre tree walked down (products) and up (gradients)."""
    parts = range(padded // WIDTH)

    def each(depth: int, text: str) -> list[str]:
        """The line once per vector: # stands for its number, @ for its first column."""
        return ["    " * depth + text.replace("#", str(m)).replace("@", str(m * WIDTH)) for m in parts]

    lines = [
        "def kernel(lo, hi, jptr, kptr, i_, j_, k_, x, A, B, C, a, b, c):",
        "    zero = splat(0.0)",
        "    one = splat(1.0)",
        "    for s in range(lo, hi):",
        "        i = i_[s]",
        *each(2, "A# = load(A, i, @); h# = zero"),
        "        for q in range(jptr[s], jptr[s + 1]):",
        "            j = j_[q]",
        *each(3, "B# = load(B, j, @); t# = mul(A#, B#); g# = zero"),
        "            for n in range(kptr[q], kptr[q + 1]):",
        "                k = k_[n]",
        *each(4, "C# = load(C, k, @)"),
        "                xhat = mul(t0, C0)",
        *each(4, "xhat = fma(t#, C#, xhat)")[1:],
        "                ratio = splat(x[n] / total(xhat))",
        *each(4, "g# = fma(ratio, C#, g#); store(c, k, @, fma(ratio, t#, load(c, k, @)))"),
        *each(3, "h# = fma(g#, B#, h#); store(b, j, @, fma(g#, A#, load(b, j, @)))"),
        *each(2, "store(a, i, @, fma(one, h#, load(a, i, @)))"),
    ]
    return "\n".join(lines)


def fibres(index: np.ndarray) -> tuple[np.ndarray, ...]:
    """index (n, 3) -> the order that sorts it, and the fibre tree: jptr, kptr, i_, j_, k_."""
    order = np.argsort(np.ravel_multi_index(tuple(index.T), index.max(axis=0) + 1))  # much faster than lexsort
    index = index[order]
    new_i = np.r_[True, index[1:, 0] != index[:-1, 0]]
    new_j = new_i | np.r_[True, index[1:, 1] != index[:-1, 1]]
    at_j = np.flatnonzero(new_j)
    at_i = np.flatnonzero(new_i[at_j])
    names = (index[at_j[at_i], 0], index[at_j, 1], index[:, 2])
    return order, np.r_[at_i, len(at_j)], np.r_[at_j, len(index)], *(np.ascontiguousarray(a, np.uint32) for a in names)


def build(
    index: np.ndarray, x: np.ndarray, factors: Sequence[np.ndarray], threads: int
) -> Callable[[], list[np.ndarray]]:
    """Sort, pad and compile; the result, when called, does one pass and returns the counts of A, B and C.

    index (n, 3), x (n,), factors three arrays (size, rank). Time the calls only: `build` is preparation.
    """
    rank = factors[0].shape[1]
    padded = -(-rank // WIDTH) * WIDTH
    order, jptr, kptr, i_, j_, k_ = fibres(index)
    x = np.asarray(x, float)[order]
    A, B, C = (np.pad(factor, ((0, 0), (0, padded - rank))) for factor in factors)
    sums = [[np.zeros_like(Z) for Z in (A, B, C)] for _ in range(threads)]
    cuts = [0, *(int(np.searchsorted(kptr[jptr[:-1]], len(x) * t // threads)) for t in range(1, threads)), len(i_)]

    scope = {"load": load, "store": store, "splat": splat, "mul": mul, "fma": fma, "total": total}
    exec(source(padded), scope)
    kernel = njit(nogil=True, fastmath=set(FLAGS), boundscheck=False, error_model="numpy")(scope["kernel"])
    kernel(0, 0, jptr, kptr, i_, j_, k_, x, A, B, C, *sums[0])  # compiles
    pool = ThreadPoolExecutor(threads)

    def part(t: int) -> None:
        for buffer in sums[t]:
            buffer[:] = 0
        kernel(cuts[t], cuts[t + 1], jptr, kptr, i_, j_, k_, x, A, B, C, *sums[t])

    def run() -> list[np.ndarray]:
        list(pool.map(part, range(threads)))
        return [(Z * sum(s[m] for s in sums))[:, :rank] for m, Z in enumerate((A, B, C))]

    return run
