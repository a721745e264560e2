"""A step -> the source text of its kernel; a pure function.

The kernel walks a fibre tree. On the way down it multiplies operands as their rows become known (`chain`), on the way up it
returns gradients. Latent blocks of one index live in registers, eight doubles a name; larger ones in a scratch row.
Everything that the wanted gradients do not need is left out.
"""

from dataclasses import dataclass, field

from plait.compile.step import Link, Step, chain, padded
from plait.jit import WIDTH

UNROLL = 8  # vectors of one block that are named; beyond that, loops


@dataclass
class Block:
    """A latent tensor inside the kernel: a scalar, a few named vectors, or memory at array[row, offset:]."""

    name: str
    latent: tuple[str, ...]
    array: str = ""
    row: str = ""
    offset: int = 0
    named: bool = False  # in registers: the vectors are called name_0, name_1, …
    looped: bool = False  # some product visits its elements one by one, so it cannot live in registers only

    @property
    def scalar(self) -> bool:
        return not self.latent


@dataclass
class Product:
    """target (+)= Σ left · right over the latent indices that target lacks; `right` None: a plain sum or copy."""

    target: Block
    left: Block
    right: Block | None
    add: bool
    vector: str | None = None

    @property
    def blocks(self) -> list[Block]:
        return [block for block in (self.target, self.left, self.right) if block is not None]

    @property
    def indices(self) -> list[str]:
        return list(dict.fromkeys(index for block in self.blocks for index in block.latent))


@dataclass
class _Level:
    """What happens at one level of the tree: loads and products going down, products going up."""

    loads: list[Block] = field(default_factory=list)
    down: list[Product] = field(default_factory=list)
    zero: list[Block] = field(default_factory=list)
    up: list[Product] = field(default_factory=list)


class _Writer:
    """Lines of text with indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.fresh = 0

    def __call__(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, stem: str) -> str:
        self.fresh += 1
        return f"{stem}{self.fresh}"


def kernel_source(step: Step) -> str:
    """The text of the kernel of a step: `def run(lo, hi, …)`, see `arguments` for what it takes."""
    return _Kernel(step.renamed()).text()


def arguments(step: Step) -> list[str]:
    """The kernel's parameters: root range, sizes, tree, entries, operands, gradients, scratch, results."""
    depth, count = len(step.order), len(step.operands)
    names = ["lo", "hi", *(f"size{level}" for level in range(depth))]
    names += [f"starts{level}" for level in range(depth - 1)] + [f"rows{level}" for level in range(depth)] + ["entries"]
    names += ["log_exposure"] if step.exposed else []
    names += [f"z{position}" for position in range(count)]
    names += [f"shift{position}" for position in range(count)] if step.kind == "bernoulli" else []
    names += [f"grad{position}" for position in step.wanted] + ["scratch"]
    names += [] if step.kind == "linear" else ["value", "rare"]
    return names


class _Kernel:
    """Writes one kernel. Planning first (which products, which blocks in registers), then text."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.depth = len(step.order)
        self.links = chain(step)
        self.forward = step.kind != "linear"
        self.levels = {level: _Level() for level in range(-1, self.depth)}
        self.scratch = 2 * WIDTH  # the first two vectors of the scratch row collect Xhat and entries for the bound
        self.values: list[Block] = []  # the product so far, after each link of the chain
        self.out = _Writer()
        self._plan()
        self._place()

    # planning ---------------------------------------------------------------------------------------------------------

    def _plan(self) -> None:
        wanted = [n for n, link in enumerate(self.links) if link.position in self.step.wanted]
        first, last = (wanted[0], wanted[-1]) if wanted else (len(self.links), -1)
        for n, link in enumerate(self.links):
            operand, before = self._operand(link), (self.values[-1] if self.values else None)
            after = self._value(n, link, operand, before)
            self.values.append(after)
            needed = self.forward or n < last
            if needed and after is not operand:
                self._down(link, after, operand, before)
        self._plan_up(first)

    def _plan_up(self, first: int) -> None:
        """Gradients from the entry upwards, as far as the first wanted operand."""
        outer = Block("q", ())
        for n in range(len(self.links) - 1, first - 1, -1):
            link, operand = self.links[n], self._operand(self.links[n])
            before = self.values[n - 1] if n else None
            level = self.levels[link.level]
            if link.position in self.step.wanted:
                target = Block("", operand.latent, f"grad{link.position}", operand.row)
                level.up.append(Product(target, outer, before, add=True))
            if before is not None and n > first:
                inner = Block(f"d{n - 1}", before.latent)
                here = self.links[n - 1].level == link.level
                level.up.append(Product(inner, outer, operand, add=not here))
                if not here:
                    self.levels[self.links[n - 1].level].zero.append(inner)
                outer = inner

    def _operand(self, link: Link) -> Block:
        operand = self.step.operands[link.position]
        row = f"at{link.position}" if operand.visible else "top"
        return Block(f"a{link.position}", operand.latent, f"z{link.position}", row)

    def _value(self, n: int, link: Link, operand: Block, before: Block | None) -> Block:
        """The product so far; the first operand itself where nothing of it is summed at once."""
        if before is None and set(link.after) == set(operand.latent):
            return operand
        return Block(f"t{n}", link.after)

    def _down(self, link: Link, after: Block, operand: Block, before: Block | None) -> None:
        product = Product(after, operand, None, add=False) if before is None else Product(after, before, operand, False)
        self.levels[link.level].down.append(product)

    def _place(self) -> None:
        """Choose every product's vector index, then which blocks live in registers and which in scratch."""
        products = [p for level in self.levels.values() for p in (*level.down, *level.up)]
        shared: dict[str, Block] = {}
        looped: set[str] = set()
        for product in products:
            product.vector = self._vector_index(product)
            for block in product.blocks:
                if block.latent and block.latent != (product.vector,):
                    looped.add(block.name)
        for level in self.levels.values():
            for block in [b for p in (*level.down, *level.up) for b in p.blocks] + level.zero:
                block.looped = block.name in looped
                self._locate(block, shared)
        for n, level in self.levels.items():
            used = {b.name: b for p in (*level.down, *level.up) for b in p.blocks if b.array.startswith("z")}
            deeper = {
                b.name: b
                for below in range(n + 1, self.depth)
                for p in (*self.levels[below].down, *self.levels[below].up)
                for b in p.blocks
                if b.array.startswith("z") and self._entry_level(b) == n
            }
            level.loads = [
                b for b in {**used, **deeper}.values() if (b.named or b.scalar) and self._entry_level(b) == n
            ]

    def _entry_level(self, operand: Block) -> int:
        return self.step.level(int(operand.name[1:]))

    def _locate(self, block: Block, shared: dict[str, Block]) -> None:
        if block.scalar or block.array.startswith("grad"):
            return
        small = len(block.latent) == 1 and padded(self.step.extent(block.latent[0])) <= WIDTH * UNROLL
        if block.array:  # an operand: in memory anyway, and in registers too where that helps
            block.named = small and not block.looped
        elif small and not block.looped:
            block.named = True
        elif block.name in shared:
            block.array, block.row, block.offset = "scratch", "top", shared[block.name].offset
        else:
            block.array, block.row, block.offset = "scratch", "top", self.scratch
            self.scratch += self._size(block)
            shared[block.name] = block

    def _size(self, block: Block) -> int:
        size = padded(self.step.extent(block.latent[-1]))
        for index in block.latent[:-1]:
            size *= self.step.extent(index)
        return size

    def _vector_index(self, product: Product) -> str | None:
        """An index that is contiguous in every block that has it; one that stays in the target, if possible."""
        good = [i for i in product.indices if all(i not in b.latent or b.latent[-1] == i for b in product.blocks)]
        kept = [index for index in good if index in product.target.latent]
        return (kept or good or [None])[0]

    # text -------------------------------------------------------------------------------------------------------------

    def text(self) -> str:
        out = self.out
        out(f"def run({', '.join(arguments(self.step))}):")
        out.depth = 1
        out("zero = splat(0.0)")
        out("top = np.uint64(0)")
        if self.step.bound:
            out("bound = zero")
            out("filled = 0")
        if self.step.kind == "bernoulli":
            out("score = 0.0")
        self._write_level(-1)
        if self.step.bound and self.step.kind == "poisson":
            self._write_last_logs()
        if self.step.kind == "bernoulli":
            out("value[0] += score")
        return "\n".join([*self._header(), *out.lines]) + "\n"

    def _header(self) -> list[str]:
        s = self.step
        spec = " ".join(f"[{','.join(o.visible)}|{','.join(o.latent)}]" for o in s.operands)
        sizes = " ".join(f"{index}={extent}" for index, extent in s.extents)
        return [
            f"# {s.kind} over the tree {' > '.join(s.order)}: {spec}  {sizes}  gradients of {list(s.wanted)}",
            f"SCRATCH = {self.scratch}",
            "",
            "",
            "@kernel",
        ]

    def _write_level(self, level: int) -> None:
        """One level of the tree: its rows, its products, the level below, its gradients."""
        out, plan = self.out, self.levels[level]
        if level >= 0:
            out(f"v{level} = np.uint64(rows{level}[e{level}])")
            self._write_rows(level)
        self._write_shift(level)
        for block in plan.loads:
            self._write_load(block)
        for product in plan.down:
            self._write_product(product)
        for block in plan.zero:
            self._write_zero(block)
        if level + 1 < self.depth:
            bounds = "lo, hi" if level < 0 else f"starts{level}[e{level}], starts{level}[e{level} + 1]"
            out(f"for e{level + 1} in range({bounds}):")
            out.depth += 1
            self._write_level(level + 1)
            out.depth -= 1
        else:
            self._write_entry()
        for product in plan.up:
            self._write_product(product)

    def _write_rows(self, level: int) -> None:
        for position, operand in enumerate(self.step.operands):
            if self.step.level(position) == level and operand.visible:
                row = operand.visible[0]
                for index in operand.visible[1:]:
                    row = f"({row}) * np.uint64(size{self.step.order.index(index)}) + {index}"
                self.out(f"at{position} = {row}")

    def _write_shift(self, level: int) -> None:
        """Bernoulli needs the true scale: the rows' log-scales are added up on the way down."""
        if self.step.kind != "bernoulli":
            return
        terms = [
            f"shift{p}[{f'at{p}' if o.visible else 'top'}]"
            for p, o in enumerate(self.step.operands)
            if self.step.level(p) == level
        ]
        above = ["0.0"] if level < 0 else [f"shift_{level - 1}" if level else "shift_top"]
        self.out(f"shift_{level if level >= 0 else 'top'} = {' + '.join(above + terms)}")

    def _write_load(self, block: Block) -> None:
        if block.scalar:
            self.out(f"{block.name} = {block.array}[{block.row}, 0]")
            return
        for m in range(self._vectors(block.latent[0])):
            self.out(f"{block.name}_{m} = load({block.array}, {block.row}, {m * WIDTH})")

    def _write_zero(self, block: Block) -> None:
        if block.scalar:
            self.out(f"{block.name} = 0.0")
        elif block.named:
            for m in range(self._vectors(block.latent[0])):
                self.out(f"{block.name}_{m} = zero")
        else:
            self.out(f"for m in range({self._size(block) // WIDTH}):")
            self.out(f"    store(scratch, top, {block.offset} + m * {WIDTH}, zero)")

    def _write_entry(self) -> None:
        """The entry of the table: what multiplies the gradient of Xhat there."""
        out, kind, entry = self.out, self.step.kind, f"e{self.depth - 1}"
        if kind == "linear":
            out(f"q = entries[{entry}]")
            return
        xhat = self.values[-1].name
        out(f"if {xhat} >= TINY:")
        out.depth += 1
        if kind == "poisson":
            out(f"q = entries[{entry}] / {xhat}")
            if self.step.bound:
                self._write_log(xhat, entry)
        else:
            exposure = f" + log_exposure[{entry}]" if self.step.exposed else ""
            out(f"expected, term = bernoulli_link(math.log({xhat}) + shift_{self.depth - 1}{exposure})")
            out(f"q = entries[{entry}] * expected / {xhat}")
            out(f"score += entries[{entry}] * term")
        out.depth -= 1
        out("else:")
        out("    q = 0.0")
        out("    rare[0] += 1")
        out("    if rare[0] < rare.size:")
        out(f"        rare[rare[0]] = {entry}")

    def _write_log(self, xhat: str, entry: str) -> None:
        """Collect eight values and take their logarithms at once."""
        out = self.out
        out(f"scratch[0, filled] = {xhat}")
        out(f"scratch[0, {WIDTH} + filled] = entries[{entry}]")
        out("filled += 1")
        out(f"if filled == {WIDTH}:")
        out(f"    bound = fma(load(scratch, top, {WIDTH}), log8(load(scratch, top, 0)), bound)")
        out("    filled = 0")

    def _write_last_logs(self) -> None:
        out = self.out
        out("value[0] += total(bound)")
        out("for m in range(filled):")
        out(f"    value[0] += scratch[0, {WIDTH} + m] * math.log(scratch[0, m])")

    # products ---------------------------------------------------------------------------------------------------------

    def _vectors(self, index: str) -> int:
        return padded(self.step.extent(index)) // WIDTH

    def _write_product(self, product: Product) -> None:
        if not product.indices:
            self._write_scalar(product)
        elif product.vector is None:
            self._write_elements(product)
        elif product.vector in product.target.latent:
            self._write_vectors(product, product.vector)
        else:
            self._write_reduction(product, product.vector)

    def _element(self, block: Block) -> str:
        """A scalar of a block at the current loop variables."""
        if block.scalar:
            return block.name if not block.array.startswith("grad") else f"{block.array}[{block.row}, 0]"
        return f"{block.array}[{block.row}, {self._column(block, block.latent)}]"

    def _column(self, block: Block, indices: tuple[str, ...]) -> str:
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

    def _vector(self, block: Block, index: str, m: str) -> str:
        """The m-th vector of a block along the product's vector index; elsewhere a scalar, copied."""
        if index not in block.latent:
            return f"splat({self._element(block)})"
        if block.named:
            return f"{block.name}_{m}"
        column = self._column(block, block.latent[:-1])
        return f"load({block.array}, {block.row}, {_plus(column, m)})"

    def _write_scalar(self, product: Product) -> None:
        target = self._element(product.target)
        value = " * ".join(self._element(b) for b in product.blocks[1:])
        self.out(f"{target} {'+=' if product.add else '='} {value}")

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
        self.out(f"{self._element(target)} {'+=' if product.add else '='} {sum_name}")
        self.out.depth = depth

    def _write_vectors(self, product: Product, index: str) -> None:
        """The vector index stays: one accumulator a vector, looping over the other target indices outside."""
        depth, target = self.out.depth, product.target
        count = self._vectors(index)
        summed = [i for i in product.indices if i not in target.latent]
        self._loops([i for i in target.latent if i != index])
        parts = [str(m) for m in range(count)]
        if count > UNROLL:
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

    def _assign(self, target: Block, index: str, m: str, value: str) -> None:
        if target.named:
            self.out(f"{target.name}_{m} = {value}")
        else:
            column = _plus(self._column(target, target.latent[:-1]), m)
            self.out(f"store({target.array}, {target.row}, {column}, {value})")

    def _write_reduction(self, product: Product, index: str) -> None:
        """The vector index is summed: one vector accumulator, added up at the end."""
        depth, count = self.out.depth, self._vectors(index)
        summed = [i for i in product.indices if i not in product.target.latent and i != index]
        self._loops(list(product.target.latent))
        name, inner = self.out.name("s"), self.out.depth
        long = bool(summed) or count > UNROLL
        if long:
            self.out(f"{name} = zero")
            self._loops(summed)
        if count > UNROLL:
            self.out(f"for m in range({count}):")
            self.out.depth += 1
        for m in ["m"] if count > UNROLL else [str(m) for m in range(count)]:
            self.out(f"{name} = {self._term(product, index, m, name if long or m != '0' else None)}")
        self.out.depth = inner
        self.out(f"{self._element(product.target)} {'+=' if product.add else '='} total({name})")
        self.out.depth = depth


def _plus(column: str, m: str) -> str:
    """Column of the m-th vector, folded where both are numbers."""
    if m.isdigit():
        return str(int(column) + int(m) * WIDTH) if column.isdigit() else _sum(column, int(m) * WIDTH)
    return f"{column} + {m} * {WIDTH}"


def _sum(column: str, more: int) -> str:
    return f"{column} + {more}" if more else column
