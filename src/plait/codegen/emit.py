"""Code generation: the source text of a step's kernel, as a pure function."""

from functools import reduce

from plait.codegen.loop_nest import LoopNest, Tile
from plait.codegen.products import ProductWriter, SourceWriter, from_row
from plait.codegen.step import Operand, Step
from plait.jit import LOGS, WIDTH
from plait.likelihood import Entry, KernelNames


def kernel_source(step: Step) -> str:
    """Source of the kernel of a step: `def run(lo, hi, …)`, with the parameters of `arguments`."""
    return _Kernel(step.renamed()).text()


def arguments(step: Step) -> list[str]:
    """Parameters of the kernel: root range, sizes, tree, entries, operands, gradients, scratch, results."""
    depth, count = len(step.order), len(step.operands)
    names = ["lo", "hi", *(f"size{level}" for level in range(depth))]
    names += [f"starts{level}" for level in range(depth - 1)] + [f"rows{level}" for level in range(depth)] + ["entries"]
    names += ["values"] if step.valued else []
    names += [f"given{term}" for term in step.exposed]
    names += [f"number{position}" for position in step.listed]
    names += [f"z{position}" for position in range(count)]
    names += ["parameters"] if step.packed else []
    names += [f"grad{position}" for position in step.wanted] + ["scratch"]
    names += [] if step.likelihood is None else ["tiny", "value", "underflow"]
    return names


def _describe_operand(operand: Operand) -> str:
    """An operand in the header of a kernel."""
    return f"[{','.join(operand.visible)}{'…' if operand.listed else ''}|{','.join(operand.latent)}]"


class _Kernel:
    """Writer of one kernel from its loop nest."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.nest = LoopNest(step)
        self.depth = self.nest.depth
        self.out = SourceWriter()
        self.takes_logs = step.likelihood is not None and step.likelihood.takes_logs
        self.product = ProductWriter(step, self.out, self._spread_terms())

    def text(self) -> str:
        out = self.out
        out(f"def run({', '.join(arguments(self.step))}):")
        out.depth = 1
        out("zero = splat(0.0)")
        if self.nest.logged:
            if self.takes_logs:
                self._write_range()
            out("score = 0.0")
            if self.step.packed:
                out("events = 0.0")
        self._write_level(-1)
        if self.nest.logged and self.takes_logs:
            out(f"rest = (last - first) & {LOGS - 1}")
            out("if rest:")
            out("    score += weighted_logs(scratch, entries, last - rest, last)")
        if self.nest.logged:
            out("value[0] += score")
            if self.step.packed:
                out("value[1] += events")
        return "\n".join([*self._header(), *out.lines]) + "\n"

    def _header(self) -> list[str]:
        s = self.step
        terms = [[o for o in s.operands if o.term == term] for term in range(s.terms)]
        shown = [" ".join(map(_describe_operand, term)) or "1" for term in terms]
        spec = " + ".join(f"given{n} {text}" if n in s.exposed else text for n, text in enumerate(shown))
        sizes = " ".join(f"{index}={extent}" for index, extent in s.extents)
        return [
            f"# {s.kind} over the tree {' > '.join(s.order)}: {spec}  {sizes}  gradients of {list(s.wanted)}",
            f"SCRATCH = {self.nest.scratch}",
            "",
            "",
        ]

    def _write_level(self, level: int) -> None:
        """One level of the tree: its rows, its products, the level below, its gradients."""
        out, plan = self.out, self.nest.levels[level]
        if level >= 0:
            out(f"v{level} = item(rows{level}, e{level})")
            self._write_rows(level)
        for block in plan.loads:
            self._write_load(block)
        for product in plan.down:
            self.product(product)
        for block in plan.zero:
            self._write_zero(block)
        if level + 1 < self.depth:
            bounds = "lo, hi" if level < 0 else f"item(starts{level}, e{level}), item(starts{level}, e{level} + 1)"
            out(f"for e{level + 1} in range({bounds}):")
            out.depth += 1
            self._write_level(level + 1)
            out.depth -= 1
        else:
            self._write_entry()
        for product in plan.up:
            self.product(product)

    def _write_rows(self, level: int) -> None:
        for position, operand in enumerate(self.step.operands):
            if self.step.level(position) == level and operand.visible:
                row = self._row(position)
                row = f"({row})" if row.count(" ") > 1 or row.startswith("(") else row
                self.out(f"at{position} = {row} * {self.nest.size(operand.latent)}")

    def _row(self, position: int) -> str:
        """Row number of an operand, at the level of its last visible index."""
        operand = self.step.operands[position]
        if operand.listed:
            return f"item(number{position}, e{self.step.level(position)})"
        row = operand.visible[0] if operand.visible else "0"
        for index in operand.visible[1:]:
            row = f"({row}) * size{self.step.order.index(index)} + {index}"
        return row

    def _write_load(self, block: Tile) -> None:
        if block.scalar:
            self.out(f"{block.name} = item({block.array}, {block.row or '0'})")
            return
        for m in range(self.product.vectors(block.latent[0])):
            self.out(f"{block.name}_{m} = load_at({block.array}, {from_row(block, str(m * WIDTH))})")

    def _write_zero(self, block: Tile) -> None:
        if block.scalar:
            self.out(f"{block.name} = 0.0")
        elif block.named:
            for m in range(self.product.vectors(block.latent[0])):
                self.out(f"{block.name}_{m} = zero")
        else:
            self.out(f"for m in range({self.nest.size(block.latent) // WIDTH}):")
            self.out(f"    store_at(scratch, {block.offset} + m * {WIDTH}, zero)")

    def _write_entry(self) -> None:
        """The entry of the table: the factor of the gradient of Xhat there."""
        out, likelihood, entry = self.out, self.step.likelihood, f"e{self.depth - 1}"
        if likelihood is None:
            out(f"q = real(entries, {entry})")
            return
        xhat = self._write_rate(entry)
        own = likelihood.entry(self._names(xhat, entry))
        out(f"if {xhat} >= tiny:")
        out.depth += 1
        self._write_lines(own, xhat)
        out.depth -= 1
        out("else:")
        out("    q = 0.0")
        if self.takes_logs:
            out(f"    {own.logged} = 1.0")
        out("    underflow[0] += 1")
        out("    if underflow[0] < underflow.size:")
        out(f"        underflow[underflow[0]] = {entry}")
        if self.nest.logged and self.takes_logs:
            self._write_log(own.logged, entry)
        for term in self.step.exposed:
            out(f"{self.nest.outer(term)} = q * item(given{term}, {entry})")

    def _spread_terms(self) -> frozenset[str]:
        """Terms of a sum that are accumulated as vectors: one horizontal sum costs as much as many products.

        Not terms of one shape: vectors are added with fewer roundings, so their order would change bits.
        """
        shapes = [
            sorted((operand.visible, operand.latent) for operand in self.step.operands if operand.term == term)
            for term in range(self.step.terms)
        ]
        spread = set()
        for block, links, shape in zip(self.nest.results, self.nest.chains, shapes):
            if block is not None and links[-1].level == self.depth - 1 and shapes.count(shape) == 1:
                spread.add(block.name)
        return frozenset(spread if self.step.terms > 1 else ())

    def _write_rate(self, entry: str) -> str:
        """The name of Xhat at an entry."""
        results = self.nest.results
        if self.step.terms == 1 and not self.step.exposed:
            (result,), (links,) = results, self.nest.chains
            assert result is not None
            if links[-1].level == self.depth - 1:
                return result.name
            self.out(f"xhat = {result.name}")  # shared by a fibre's entries: an underflowing one must not change it
            return "xhat"
        terms, vectors = [], []
        for term, block in enumerate(results):
            given = f"item(given{term}, {entry})" if term in self.step.exposed else ""
            if block is not None and block.name in self.product.vector_of:
                vector = self.product.vector_of[block.name]
                vectors.append(f"mul({vector}, splat({given}))" if given else vector)
            else:
                terms.append(" * ".join(filter(None, ["" if block is None else block.name, given])) or "1.0")
        if vectors:
            terms.append(f"total({reduce(lambda x, y: f'add({x}, {y})', vectors)})")
        self.out(f"xhat = {' + '.join(terms)}")
        return "xhat"

    def _names(self, xhat: str, entry: str) -> KernelNames:
        """Names of an entry's variables, for the likelihood."""
        value = f"item(values, {entry})" if self.step.valued else "1.0"
        return KernelNames(xhat, f"real(entries, {entry})", value, "parameters")

    def _write_lines(self, own: Entry, xhat: str) -> None:
        """Lines of the likelihood: q, and for F its term without the logarithm."""
        for line in own.lines:
            self.out(line)
        if self.nest.logged and own.score is not None:
            self.out(own.score)
        if self.nest.logged and self.step.packed:
            self.out(f"events += q * {xhat}")

    def _write_range(self) -> None:
        """First and last entry of this call."""
        first, last = "lo", "hi"
        for level in range(self.depth - 1):
            first, last = f"item(starts{level}, {first})", f"item(starts{level}, {last})"
        self.out(f"first = {first}")
        self.out(f"last = {last}")

    def _write_log(self, number: str, entry: str) -> None:
        """Collect a number; a full block takes all its logarithms together.

        Blocks start with the first entry of the call, so a leaf has the same sum wherever it lies.
        """
        out = self.out
        out(f"at = ({entry} - first) & {LOGS - 1}")
        out(f"put(scratch, at, {number})")
        out(f"if at == {LOGS - 1}:")
        out(f"    score += weighted_logs(scratch, entries, {entry} - {LOGS - 1}, {entry} + 1)")
