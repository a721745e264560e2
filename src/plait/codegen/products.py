"""Source text of products between latent blocks: named vectors, loops over vectors, or plain loops."""

from plait.codegen.loop_nest import MAX_NAMED_VECTORS, Product, Tile
from plait.codegen.step import Step, padded
from plait.jit import WIDTH


class SourceWriter:
    """Lines of text with indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.fresh = 0

    def __call__(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str) -> str:
        """An unused name."""
        self.fresh += 1
        return f"{stem}{self.fresh}"


class ProductWriter:
    """Writes products: target (+)= Σ left · right."""

    def __init__(self, step: Step, out: SourceWriter, spread: frozenset[str] = frozenset()) -> None:
        self.step = step
        self.out = out
        self.spread = spread  # scalars that stay vectors until they are summed, …
        self.vector_of: dict[str, str] = {}  # … by the names of these

    def vectors(self, index: str) -> int:
        """Number of vectors of an index."""
        return padded(self.step.extent(index)) // WIDTH

    def __call__(self, product: Product) -> None:
        """Lines of one product."""
        if not product.indices:
            self._write_scalar(product)
        elif product.vector is None:
            self._write_elements(product)
        elif product.vector in product.target.latent:
            self._write_vectors(product, product.vector)
        else:
            self._write_reduction(product, product.vector)

    def _element(self, block: Tile) -> str:
        """Scalar of a block at the current loop variables."""
        if block.scalar and not block.array.startswith("grad"):
            return block.name
        return f"item({block.array}, {self._position(block)})"

    def _position(self, block: Tile) -> str:
        """Position of an element in the memory of a block's array."""
        return from_row(block, self._column(block, block.latent) if block.latent else "0")

    def _write_element(self, target: Tile, value: str, *, add: bool) -> None:
        """Set a scalar, or add to it."""
        if target.scalar and not target.array.startswith("grad"):
            self.out(f"{target.name} {'+=' if add else '='} {value}")
        else:
            more = f"{self._element(target)} + " if add else ""
            self.out(f"put({target.array}, {self._position(target)}, {more}{value})")

    def _column(self, block: Tile, indices: tuple[str, ...]) -> str:
        """Column of an element; for a vector the last index is left out of `indices`."""
        stride, terms = padded(self.step.extent(block.latent[-1])), []
        if len(indices) == len(block.latent):
            terms.append(indices[-1])
        for index in reversed(block.latent[:-1]):
            terms.append(f"{index} * {stride}")
            stride *= self.step.extent(index)
        if block.offset or not terms:
            terms.append(str(block.offset))
        return " + ".join(reversed(terms))

    def _vector(self, block: Tile, index: str, m: str) -> str:
        """The m-th vector of a block along the product's vector index; elsewhere a scalar, copied."""
        if index not in block.latent:
            return f"splat({self._element(block)})"
        if block.named:
            return f"{block.name}_{m}"
        column = self._column(block, block.latent[:-1])
        return f"load_at({block.array}, {from_row(block, _plus(column, m))})"

    def _write_scalar(self, product: Product) -> None:
        value = " * ".join(self._element(b) for b in product.blocks[1:])
        self._write_element(product.target, value, add=product.add)

    def _loops(self, indices: list[str]) -> None:
        for index in indices:
            self.out(f"for {index} in range({self.step.extent(index)}):")
            self.out.depth += 1

    def _write_elements(self, product: Product) -> None:
        """No index is contiguous in all blocks: plain loops."""
        depth, target = self.out.depth, product.target
        summed = [index for index in product.indices if index not in target.latent]
        self._loops(list(target.latent))
        sum_name = self.out.name("s")
        self.out(f"{sum_name} = 0.0")
        inner = self.out.depth
        self._loops(summed)
        self.out(f"{sum_name} += " + " * ".join(self._element(b) for b in product.blocks[1:]))
        self.out.depth = inner
        self._write_element(target, sum_name, add=product.add)
        self.out.depth = depth

    def _write_vectors(self, product: Product, index: str) -> None:
        """The vector index stays: one accumulator per vector, inside loops over the other target indices."""
        depth, target = self.out.depth, product.target
        count = self.vectors(index)
        summed = [i for i in product.indices if i not in target.latent]
        self._loops([i for i in target.latent if i != index])
        parts = [str(m) for m in range(count)]
        if count > MAX_NAMED_VECTORS:
            self.out(f"for m in range({count}):")
            self.out.depth += 1
            parts = ["m"]
        if summed:
            self._write_summed(product, index, parts, summed)
        else:
            for m in parts:
                self._assign(target, index, m, self._term(product, index, m, self._start(product, index, m)))
        self.out.depth = depth

    def _write_summed(self, product: Product, index: str, parts: list[str], summed: list[str]) -> None:
        sums = {m: self.out.name("s") for m in parts}
        for m in parts:
            self.out(f"{sums[m]} = {self._start(product, index, m) or 'zero'}")
        depth = self.out.depth
        self._loops(summed)
        for m in parts:
            self.out(f"{sums[m]} = {self._term(product, index, m, sums[m])}")
        self.out.depth = depth
        for m in parts:
            self._assign(product.target, index, m, sums[m])

    def _start(self, product: Product, index: str, m: str) -> str | None:
        return self._vector(product.target, index, m) if product.add else None

    def _term(self, product: Product, index: str, m: str, start: str | None) -> str:
        left = self._vector(product.left, index, m)
        if product.right is None:
            return left if start is None else f"add({left}, {start})"
        right = self._vector(product.right, index, m)
        return f"mul({left}, {right})" if start is None else f"fma({left}, {right}, {start})"

    def _assign(self, target: Tile, index: str, m: str, value: str) -> None:
        if target.named:
            self.out(f"{target.name}_{m} = {value}")
        else:
            column = _plus(self._column(target, target.latent[:-1]), m)
            self.out(f"store_at({target.array}, {from_row(target, column)}, {value})")

    def _write_reduction(self, product: Product, index: str) -> None:
        """The vector index is summed: one vector accumulator, summed at the end."""
        depth, count = self.out.depth, self.vectors(index)
        summed = [i for i in product.indices if i not in product.target.latent and i != index]
        self._loops(list(product.target.latent))
        name, inner = self.out.name("s"), self.out.depth
        long = bool(summed) or count > MAX_NAMED_VECTORS
        if long:
            self.out(f"{name} = zero")
            self._loops(summed)
        if count > MAX_NAMED_VECTORS:
            self.out(f"for m in range({count}):")
            self.out.depth += 1
        for m in ["m"] if count > MAX_NAMED_VECTORS else [str(m) for m in range(count)]:
            self.out(f"{name} = {self._term(product, index, m, name if long or m != '0' else None)}")
        self.out.depth = inner
        if product.target.name in self.spread:
            self.vector_of[product.target.name] = name
        else:
            self._write_element(product.target, f"total({name})", add=product.add)
        self.out.depth = depth


def from_row(block: Tile, column: str) -> str:
    """Position in memory of a column of the block's row."""
    if not block.row:
        return column
    return block.row if column == "0" else f"{block.row} + {column}"


def _plus(column: str, m: str) -> str:
    """Column of the m-th vector, folded where both are numbers."""
    if m.isdigit():
        return str(int(column) + int(m) * WIDTH) if column.isdigit() else _sum(column, int(m) * WIDTH)
    return f"{column} + {m} * {WIDTH}"


def _sum(column: str, more: int) -> str:
    return f"{column} + {more}" if more else column
