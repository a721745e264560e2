"""Loop nest of a kernel: at which level of the tree each product is computed, and where each block is stored.

Going down, operands are multiplied as their rows become known (`chain`); going up, gradients are returned. Latent
blocks of one index are in registers, larger ones in a scratch row. Products that no wanted gradient needs are left out.
"""

from dataclasses import dataclass, field

from plait.codegen.step import ChainLink, Step, chain, padded
from plait.jit import LOGS, WIDTH

MAX_NAMED_VECTORS = 8  # of one block; larger blocks use loops


@dataclass
class Tile:
    """A latent tensor in the kernel: a scalar, a few named vectors, or memory of an array from row + offset on."""

    name: str
    latent: tuple[str, ...]
    array: str = ""
    row: str = ""  # start of its row in memory; "": 0
    offset: int = 0
    named: bool = False  # in registers: the vectors are called name_0, name_1, …
    looped: bool = False  # some product visits its elements one by one, so it needs memory

    @property
    def scalar(self) -> bool:
        return not self.latent


@dataclass
class Product:
    """target (+)= Σ left · right over the latent indices that target lacks; `right` None: a plain sum or copy."""

    target: Tile
    left: Tile
    right: Tile | None
    add: bool
    vector: str | None = None

    @property
    def blocks(self) -> list[Tile]:
        """All blocks, the target first."""
        return [block for block in (self.target, self.left, self.right) if block is not None]

    @property
    def indices(self) -> list[str]:
        return list(dict.fromkeys(index for block in self.blocks for index in block.latent))


@dataclass
class Level:
    """Operations at one level of the tree: loads and products going down, products going up."""

    loads: list[Tile] = field(default_factory=list)
    down: list[Product] = field(default_factory=list)
    zero: list[Tile] = field(default_factory=list)
    up: list[Product] = field(default_factory=list)


class LoopNest:
    """Loop nest of a step (renamed). Level −1 is before the root, level depth − 1 that of the entries."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.depth = len(step.order)
        self.chains = [chain(step, term) for term in range(step.terms)]
        self.forward = step.likelihood is not None
        self.levels = {level: Level() for level in range(-1, self.depth)}
        self.logged = step.bound and self.forward
        self.scratch = LOGS if self.logged else WIDTH  # starts with the numbers to be logged
        self.values: list[list[Tile]] = []  # partial products of every term, after each link of its chain
        for term in range(step.terms):
            self._plan(term)
        self._place_products()

    def size(self, latent: tuple[str, ...]) -> int:
        """Numbers in a block of latent indices, including padding."""
        size = padded(self.step.extent(latent[-1])) if latent else 1
        for index in latent[:-1]:
            size *= self.step.extent(index)
        return size

    @property
    def results(self) -> list[Tile | None]:
        """Result of every term at an entry; None: 1, for a term without operands."""
        return [values[-1] if values else None for values in self.values]

    def outer(self, term: int) -> str:
        """Factor of the gradient of a term at an entry."""
        return f"q{term}" if term in self.step.exposed else "q"

    def _plan(self, term: int) -> None:
        """Products of one term; names of blocks continue those of earlier terms."""
        links, begin = self.chains[term], sum(map(len, self.values))
        wanted = [n for n, link in enumerate(links) if link.position in self.step.wanted]
        first, last = (wanted[0], wanted[-1]) if wanted else (len(links), -1)
        values: list[Tile] = []
        for n, link in enumerate(links):
            operand, before = self._operand(link), (values[-1] if values else None)
            after = self._value(begin + n, link, operand, before)
            values.append(after)
            needed = self.forward or n < last
            if needed and after is not operand:
                self._down(link, after, operand, before)
        self.values.append(values)
        if wanted or self.step.terms == 1:
            self._plan_up(term, begin, first)

    def _plan_up(self, term: int, begin: int, first: int) -> None:
        """Gradients of a term from the entry upwards, up to the first wanted operand."""
        links, values, outer = self.chains[term], self.values[term], Tile(self.outer(term), ())
        if links[-1].level < self.depth - 1:  # sum entries over levels without an operand first
            total = Tile(f"d{outer.name}" if self.step.terms == 1 else f"dq{term}", ())
            self.levels[self.depth - 1].up.append(Product(total, outer, None, add=True))
            self.levels[links[-1].level].zero.append(total)
            outer = total
        for n in range(len(links) - 1, first - 1, -1):
            link, operand = links[n], self._operand(links[n])
            before = values[n - 1] if n else None
            level = self.levels[link.level]
            if link.position in self.step.wanted:
                target = Tile("", operand.latent, f"grad{link.position}", operand.row)
                level.up.append(Product(target, outer, before, add=True))
            if before is not None and n > first:
                inner = Tile(f"d{begin + n - 1}", before.latent)
                here = links[n - 1].level == link.level
                level.up.append(Product(inner, outer, operand, add=not here))
                if not here:
                    self.levels[links[n - 1].level].zero.append(inner)
                outer = inner

    def _operand(self, link: ChainLink) -> Tile:
        operand = self.step.operands[link.position]
        row = f"at{link.position}" if operand.visible else ""
        return Tile(f"a{link.position}", operand.latent, f"z{link.position}", row)

    def _value(self, n: int, link: ChainLink, operand: Tile, before: Tile | None) -> Tile:
        """The product so far; the first operand itself where nothing of it is summed."""
        if before is None and set(link.after) == set(operand.latent):
            return operand
        return Tile(f"t{n}", link.after)

    def _down(self, link: ChainLink, after: Tile, operand: Tile, before: Tile | None) -> None:
        product = Product(after, operand, None, add=False) if before is None else Product(after, before, operand, False)
        self.levels[link.level].down.append(product)

    def _place_products(self) -> None:
        """Choose every product's vector index, then which blocks are in registers and which in scratch."""
        products = [p for level in self.levels.values() for p in (*level.down, *level.up)]
        shared: dict[str, Tile] = {}
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
        self._plan_loads([block for product in products for block in product.blocks])

    def _plan_loads(self, blocks: list[Tile]) -> None:
        """Load register operands where their row becomes known, and the one that is Xhat itself."""
        xhat = [block for block in self.results if block is not None] if self.forward else []
        operands = {block.name: block for block in (*blocks, *xhat) if block.array.startswith("z")}
        for block in operands.values():
            if block.named or block.scalar:
                self.levels[self._entry_level(block)].loads.append(block)

    def _entry_level(self, operand: Tile) -> int:
        return self.step.level(int(operand.name[1:]))

    def _locate(self, block: Tile, shared: dict[str, Tile]) -> None:
        if block.scalar or block.array.startswith("grad"):
            return
        small = len(block.latent) == 1 and padded(self.step.extent(block.latent[0])) <= WIDTH * MAX_NAMED_VECTORS
        if block.array:  # an operand: in memory, and in registers too where that helps
            # The operands of all terms at an entry would take the registers that sums need: they are read twice.
            crowded = self.step.terms > 1 and self._entry_level(block) == self.depth - 1
            block.named = small and not block.looped and not crowded
        elif small and not block.looped:
            block.named = True
        elif block.name in shared:
            block.array, block.offset = "scratch", shared[block.name].offset
        else:
            block.array, block.offset = "scratch", self.scratch
            self.scratch += self.size(block.latent)
            shared[block.name] = block

    def _vector_index(self, product: Product) -> str | None:
        """An index that is contiguous in every block that has it; preferably one of the target."""
        good = [i for i in product.indices if all(i not in b.latent or b.latent[-1] == i for b in product.blocks)]
        kept = [index for index in good if index in product.target.latent]
        return next(iter(kept or good), None)
