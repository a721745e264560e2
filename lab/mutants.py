"""Mutation testing: the share of small faults in the source that the tests notice.

python -m lab.mutants --output results.jsonl                     # 100 mutants of this checkout, first tier
python -m lab.mutants --checkout /path/to/checkout --tier all    # another checkout, first and second tier
python -m lab.mutants --count 6 --tests tests/likelihood         # a trial

A mutant is one file with one changed operator, constant or condition. A hash of its line and the seed draws it, so
checkouts with equal files have equal mutants. One run of the tests under `coverage` tells which tests run which lines
(.cache/mutants keeps it). Each mutant then meets the tests that run its line, in chunks, the cheapest first:

killed     a test fails, hangs or crashes
survived   all of them pass
uncovered  no test runs the line
capped     none failed within the time limit

Compiled functions and module constants have no lines of their own in `coverage`: all tests that run a line of the file
count, else those of the files that import it. Mutants that a result file has already are skipped.
"""

import argparse
import ast
import bisect
import compileall
import contextlib
import hashlib
import json
import math
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from coverage import CoverageData

PACKAGES = ("plait/inference", "plait/likelihood", "plait/data/observation")
SPEED_CONSTANTS = {  # any value gives right results
    "CHUNK_CELLS", "CHUNK_ROWS", "TABLE_SIZE", "SAMPLE_ENTRIES", "MAX_OPEN_CELLS",
    "MAX_SUMMED_VALUES",
}  # fmt: skip
COMPILED_METHODS = {"link"}  # `Likelihood.__init_subclass__` compiles it
CHUNK_SECONDS = (20.0, 120.0)  # tests of the first and the second chunk; all others are the third
FILE_SECONDS = 1.0  # to import a file of tests, shared by the tests that run: few files come first
MUTANT_SECONDS = 240.0  # wall clock of one mutant
HANG_SECONDS, HANG_FACTOR = 60.0, 10.0  # a test that takes this and this many times its usual time hangs
DATA_BYTES = 8 << 30  # memory of a mutant's process
NO_TESTS, TIME_OVER = 5, -1000  # exit code of pytest, and one that no process has
KEY = ("file", "line", "column", "operator", "before", "after")
OUTCOMES = ("killed", "survived", "uncovered", "capped")
SWAPS: dict[type, tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
EXTREMES = {"min": "max", "minimum": "maximum", "argmin": "argmax", "nanmin": "nanmax"}
EXTREMES |= {large: small for small, large in EXTREMES.items()}

# Pytest plugin of all runs. Recording: lines and seconds of each test, lines of each fixture that tests share. Else:
# only the tests of a file, in its order, each with a time limit that ends the process.
PLUGIN = f"""
import faulthandler, importlib, json, os, resource, sys, time
import pytest
HOME, NULL = os.environ["MUTANTS_HOME"], os.open(os.devnull, os.O_WRONLY)
with open(os.environ["MUTANTS_TESTS"]) as file:
    TESTS = json.load(file)
resource.setrlimit(resource.RLIMIT_DATA, ({DATA_BYTES}, {DATA_BYTES}))
cover, records, contexts = None, {{}}, [""]
if "include" in TESTS:
    import coverage
    cover = coverage.Coverage(data_file=HOME + "/lines", data_suffix=True, include=TESTS["include"], config_file=False)
    cover.set_option("run:disable_warnings", ["no-data-collected"])  # xdist's controller runs no test
    cover.start()

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items):
    yield
    if "tests.support.tiers" in sys.modules:  # no budgets of processor time: they depend on the machine
        sys.modules["tests.support.tiers"].processor_seconds = float
    for name in TESTS.get("modules", ()):  # now: else their module lines would count as lines of the first test
        importlib.import_module(name)
    if not cover:
        items[:] = [item for item in items if item.nodeid in TESTS]

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    start = time.perf_counter()
    if cover:
        shared = [one[-1] for one in item._fixtureinfo.name2fixturedefs.values() if one[-1].scope != "function"]
        records[item.nodeid] = dict(failed=False, fixtures=[one.baseid + "|" + one.argname for one in shared])
        contexts[0] = item.nodeid
        cover.switch_context(item.nodeid)
        yield
        records[item.nodeid]["seconds"] = time.perf_counter() - start
        return True
    with open(HOME + "/current", "w") as file:
        file.write(item.nodeid)
    faulthandler.dump_traceback_later(TESTS[item.nodeid], exit=True, file=NULL)
    yield
    faulthandler.cancel_dump_traceback_later()
    return True

@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    if not cover or fixturedef.scope == "function":
        return (yield)
    contexts.append(fixturedef.baseid + "|" + fixturedef.argname)
    cover.switch_context(contexts[-1])
    try:
        return (yield)
    finally:
        contexts.pop()
        cover.switch_context(contexts[-1])

def pytest_runtest_logreport(report):
    if report.failed and report.nodeid in records:
        records[report.nodeid]["failed"] = True

def pytest_unconfigure():
    if cover:
        cover.stop()
        cover.save()
        with open(HOME + f"/records-{{os.getpid()}}.json", "w") as file:
            json.dump(records, file)
"""


class Mutant(NamedTuple):
    """One change of one file; `lines` are those of its statement, None where coverage cannot see it."""

    file: str
    line: int
    column: int
    operator: str
    start: int
    end: int
    before: str
    after: str
    lines: tuple[int, int] | None

    @property
    def key(self) -> tuple[Any, ...]:
        """Identify the mutant in a result file."""
        return (*self[:4], self.before, self.after)

    def apply(self, data: bytes) -> bytes:
        """Return the changed file."""
        return data[: self.start] + self.after.encode() + data[self.end :]


class Finder:
    """The mutants of one file."""

    def __init__(self, file: str, data: bytes) -> None:
        self.file, self.data, self.mutants = file, data, list[Mutant]()
        self.starts = [0]
        for line in data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        tree = ast.parse(data)
        nodes = list(ast.walk(tree))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
        imports = [node for node in imports if node.module.startswith(("plait.jit", "numba"))]
        self.jit = {alias.asname or alias.name for node in imports for alias in node.names}
        calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in self.jit]
        self.compiled = COMPILED_METHODS | {a.id for call in calls for a in call.args if isinstance(a, ast.Name)}
        self.visit(tree, None, None)
        self.mutants.sort(key=lambda m: (m.line, m.column, m.operator))

    def span(self, node: Any) -> tuple[int, int]:
        """First and last byte of a node."""
        ends = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
        return tuple(self.starts[line - 1] + column for line, column in ends)  # type: ignore[return-value]

    def visit(self, node: ast.AST, function: Any, lines: tuple[int, int] | None) -> None:
        """Find the mutants of a node and of those inside it."""
        if isinstance(node, (ast.Assert, ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.Assign) and {ast.unparse(target) for target in node.targets} & SPEED_CONSTANTS:
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.stmt) and function is not None:
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            first = getattr(body[0], "lineno", node.lineno + 1) if body else node.end_lineno + 1  # type: ignore
            lines = (node.lineno, max(node.lineno, first - 1))
        for operator, start, end, after in self.edits(node, function):
            line = bisect.bisect_right(self.starts, start)
            before = self.data[start:end].decode()
            if before != after:
                column = start - self.starts[line - 1]
                own = None if function is None or self.is_compiled(function) else lines
                self.mutants.append(Mutant(self.file, line, column, operator, start, end, before, after, own))
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            inner = function
            if is_function and name == "body":
                inner = function if self.is_compiled(function) else node
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.visit(child, inner, lines)

    def is_compiled(self, function: Any) -> bool:
        """Whether numba compiles a function."""
        marks = {ast.unparse(mark).partition("(")[0] for mark in function.decorator_list} if function else set()
        return function is not None and (function.name in self.compiled or bool(marks & self.jit))

    def swap(self, operator: ast.AST, left: ast.AST, right: ast.AST) -> Iterator[tuple[str, int, int, str]]:
        """Swap the operator between two operands."""
        if type(operator) in SWAPS:
            before, after = SWAPS[type(operator)]
            start, end = self.span(left)[1], self.span(right)[0]
            gap = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment[0]), self.data[start:end])
            at = start + gap.index(before.encode())
            yield f"{before} to {after}", at, at + len(before), after

    def edits(self, node: Any, function: Any) -> Iterator[tuple[str, int, int, str]]:
        """Yield operator, first byte, last byte and new text of the changes of one node."""
        if isinstance(node, ast.Compare):
            for operator, left, right in zip(node.ops, [node.left, *node.comparators], node.comparators):
                yield from self.swap(operator, left, right)
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:]):
                yield from self.swap(node.op, left, right)
        elif isinstance(node, (ast.BinOp, ast.AugAssign)):
            left, right = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
            sequences = (ast.List, ast.Tuple, ast.JoinedStr)  # these can be joined and repeated only
            text = any(isinstance(one, ast.Constant) and isinstance(one.value, (str, bytes)) for one in (left, right))
            if not text and not isinstance(left, sequences) and not isinstance(right, sequences):
                yield from self.swap(node.op, left, right)
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            after = repr(not node.value if isinstance(node.value, bool) else node.value + 1)
            if after != repr(node.value):
                yield "constant", *self.span(node), after
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start = self.span(node)[0]
            gap = re.match(rb"not\s*", self.data[start:])
            yield "not removed", start, start + len(gap[0] if gap else b""), ""
        elif isinstance(node, (ast.If, ast.IfExp)) and not isinstance(node.test, ast.Constant):
            if isinstance(node, ast.IfExp) or not isinstance(node.body[0], ast.Raise):  # a check that always fails
                yield "condition to True", *self.span(node.test), "True"
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            if name in ("min", "max") or (name in EXTREMES and isinstance(node.func, ast.Attribute)):
                end = self.span(node.func)[1]
                yield f"{name} to {EXTREMES[name]}", end - len(name), end, EXTREMES[name]
        elif isinstance(node, ast.Return) and node.value is not None and function and function.returns:
            start, end = self.span(node.value)
            kind, text = ast.unparse(function.returns), self.data[start:end].decode()
            if kind == "bool":
                yield "return negated", start, end, f"not ({text})"
            elif kind in ("float", "int", "Array", "Floats"):
                yield "return negated", start, end, f"-({text})"
            elif kind.endswith("| None") and text != "None":
                yield "return None", start, end, "None"


def draw(source: Path, count: int, seed: int) -> list[Mutant]:
    """Draw mutants of the packages: those with the smallest hashes of seed, file, operator and text of the line."""
    hashes: list[tuple[bytes, Mutant]] = []
    for path in sorted(path for package in PACKAGES for path in (source / package).rglob("*.py")):
        data, name, seen = path.read_bytes(), path.relative_to(source).as_posix(), Counter[tuple[str, bytes]]()
        lines = data.splitlines()
        for mutant in Finder(name, data).mutants:
            key = mutant.operator, lines[mutant.line - 1].strip()
            text = f"{seed}|{name}|{key}|{seen[key]}"
            seen[key] += 1
            hashes.append((hashlib.sha256(text.encode()).digest(), mutant))
    return sorted(mutant for _, mutant in sorted(hashes)[:count])


class Checkout:
    """The tests of a checkout: which lines they run, how long they take, and how to run some of them."""

    def __init__(self, path: Path, tier: str, tests: list[str], jobs: int) -> None:
        self.path, self.jobs, self.tests = path, jobs, tests
        if (path / "tests" / "support" / "tiers.py").exists():
            self.flags = [["--tier", one] for one in (("quick", "thorough") if tier == "all" else (tier,))]
        else:
            self.flags = [[] if tier == "quick" else ["--all"]]
        key = hashlib.sha256(repr((str(path), self.flags, tests)).encode())
        key.update(PLUGIN.encode())
        for file in sorted([*path.glob("src/**/*.py"), *path.glob("tests/**/*.py")]):
            key.update(file.read_bytes())
        self.home = Path(".cache/mutants").resolve() / key.hexdigest()[:16]
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "mutants_plugin.py").write_text(PLUGIN)
        source = path / "src"
        self.sources = {file.relative_to(source).as_posix(): file.read_text() for file in source.rglob("*.py")}
        self.trusted: set[tuple[str, int]] = set()
        self.stages = [self.record(number) for number in range(len(self.flags))]

    def pytest(self, job: Path, stage: int, tests: dict[str, Any], arguments: list[str], seconds: float | None) -> int:
        """Run pytest on a copy of the source; return its exit code, TIME_OVER after `seconds`."""
        (job / "current").write_text("")
        (job / "tests.json").write_text(json.dumps(tests))
        environment = os.environ | {
            "PYTHONPATH": f"{job / 'src'}{os.pathsep}{self.home}", "PLAIT_CACHE_DIR": str(job / "kernels"),
            "PYTHONDONTWRITEBYTECODE": "1", "COVERAGE_CORE": "ctrace",
            "MUTANTS_HOME": str(job), "MUTANTS_TESTS": str(job / "tests.json"),
        }  # fmt: skip
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutants_plugin"]
        command += ["--basetemp", str(job / "tmp"), *self.flags[stage], *arguments]
        with open(job / "log", "w") as log:
            process = subprocess.Popen(
                command, cwd=self.path, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                return TIME_OVER
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # the group of this run: what its tests left behind, too
                process.wait()

    def copy(self, job: Path, kernels: Path) -> Path:
        """Make a folder with a private copy of the source and of compiled kernels."""
        shutil.rmtree(job, ignore_errors=True)
        shutil.copytree(self.path / "src", job / "src", ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(job / "src", quiet=2)
        if kernels.is_dir():
            shutil.copytree(kernels, job / "kernels")
        return job

    def record(self, stage: int) -> tuple[dict[str, float], CoverageData, dict[str, list[str]]]:
        """Run all tests once; return seconds of those that pass, lines by context, and tests by fixture."""
        job = self.home / f"record-{stage}"
        if not (job / "done").exists():
            print(f"record the tests: pytest {' '.join(self.flags[stage] + self.tests)}", flush=True)
            shared = Path(os.environ.get("PLAIT_CACHE_DIR", self.path / ".cache" / "plait"))
            self.copy(job, self.home / f"record-{stage - 1}" / "kernels" if stage else shared)
            spread = ["-n", str(self.jobs), "--dist", "worksteal"] if self.jobs > 1 else []
            arguments = ["--continue-on-collection-errors", *spread, *self.tests]
            include = [str(job / "src" / package / "*") for package in PACKAGES]
            files = [file.removesuffix("/__init__.py").removesuffix(".py") for file in self.sources]
            modules = [file.replace("/", ".") for file in files if file.startswith(PACKAGES)]
            start = time.perf_counter()
            code = self.pytest(job, stage, {"include": include, "modules": modules}, arguments, None)
            if code not in (0, 1) or not any(path.stat().st_size > 2 for path in job.glob("records-*.json")):
                sys.exit(f"the tests do not run, see {job / 'log'}")
            (job / "done").write_text(f"{time.perf_counter() - start:.0f}")
        records = {k: v for path in job.glob("records-*.json") for k, v in json.loads(path.read_text()).items()}
        lines = CoverageData(str(job / "all"), no_disk=True)
        for path in sorted(job.glob("lines.*")):
            part = CoverageData(str(path))
            part.read()
            lines.update(part)
        seconds = {test: record["seconds"] for test, record in records.items() if not record["failed"]}
        users = defaultdict(list)
        for test in seconds:
            for fixture in records[test]["fixtures"]:
                users[fixture].append(test)
        spent = (job / "done").read_text()
        print(f"{len(seconds):,} tests, {len(records) - len(seconds)} fail without a mutant, recorded in {spent} s")
        return seconds, lines, users

    def covering(self, mutant: Mutant, stage: int) -> list[str]:
        """Tests that run the lines of a mutant, in the order of their cost."""
        seconds, lines, users = self.stages[stage]

        def contexts_of(file: str, first: float = 0, last: float = math.inf) -> set[str]:
            found = lines.contexts_by_lineno(str(self.home / f"record-{stage}" / "src" / file))
            return {context for line, some in found.items() if first <= line <= last for context in some} - {""}

        contexts = contexts_of(mutant.file, *(mutant.lines or ()))
        if not contexts and not mutant.lines:
            package, _, stem = mutant.file.removesuffix(".py").replace("/", ".").rpartition(".")
            use = re.compile(rf"(from|import) {package}\.{stem}\b|from {package} import .*\b{stem}\b")
            importers = [file for file, text in self.sources.items() if use.search(text)]
            contexts = {context for file in importers for context in contexts_of(file)}
        tests = {test for one in contexts for test in (one, *users.get(one, ())) if test in seconds}
        share = Counter(test.partition("::")[0] for test in tests)
        return sorted(tests, key=lambda test: (seconds[test] + FILE_SECONDS / share[test.partition("::")[0]], test))

    def judge(self, mutant: Mutant, covering: list[list[str]], job: Path, limit: float) -> tuple[str, str]:
        """Return the outcome of a mutant and the test that fails."""
        start, copy, original = time.perf_counter(), job / "src" / mutant.file, self.path / "src" / mutant.file
        for stage, tests in enumerate(covering):
            for chunk in self.chunks(tests, stage):
                while chunk:
                    left = limit - (time.perf_counter() - start)
                    copy.write_bytes(mutant.apply(original.read_bytes()))
                    code = self.pytest(job, stage, chunk, ["-x", *files_of(chunk)], max(left, 0.0))
                    shutil.copy2(original, copy)
                    if code == TIME_OVER:
                        return "capped", ""
                    if code == NO_TESTS:
                        raise RuntimeError(f"pytest finds none of the chosen tests, see {job / 'log'}")
                    if code == 0:
                        break
                    test = (job / "current").read_text()  # empty if the mutant cannot be imported
                    suspect = test or next(iter(chunk))
                    if self.passes(suspect, job, stage):
                        return "killed", test or "import"
                    del chunk[suspect]
        return ("survived" if any(covering) else "uncovered"), ""

    def chunks(self, tests: list[str], stage: int) -> Iterator[dict[str, float]]:
        """Cut tests into chunks: the time limit of each test."""
        seconds, tests = self.stages[stage][0], tests[:]
        for budget in (*CHUNK_SECONDS, math.inf):
            chunk: dict[str, float] = {}
            while tests and (not chunk or budget >= 0):
                test = tests.pop(0)
                chunk[test] = max(HANG_SECONDS, HANG_FACTOR * seconds[test])
                budget -= seconds[test]
            yield chunk

    def passes(self, test: str, job: Path, stage: int) -> bool:
        """Whether a test passes alone and without a mutant; tried once."""
        if (test, stage) not in self.trusted:
            if self.pytest(job, stage, {test: MUTANT_SECONDS}, files_of([test]), None):
                print(f"not counted, fails without a mutant: {test}", flush=True)
                return False
            self.trusted.add((test, stage))
        return True


def files_of(tests: Iterable[str]) -> list[str]:
    """Return the files of tests."""
    return sorted({test.partition("::")[0] for test in tests})


def summarise(rows: list[dict[str, Any]], source: Path) -> None:
    """Print the share of killed mutants, and the lines of the others."""
    print(f"\n{'package':24}{'mutants':>9}" + "".join(f"{outcome:>11}" for outcome in OUTCOMES) + f"{'kill rate':>11}")
    for package in (*PACKAGES, ""):
        found = Counter(row["outcome"] for row in rows if row["file"].startswith(package))
        rate = f"{found['killed'] / found.total():.0%}" if found else "-"
        counts = "".join(f"{found[outcome]:>11}" for outcome in OUTCOMES)
        print(f"{package or 'all':24}{found.total():>9}{counts}{rate:>11}")
    for row in rows:
        if row["outcome"] != "killed":
            text = (source / row["file"]).read_text().splitlines()[row["line"] - 1].strip()
            change = f"{row['before']!r} -> {row['after']!r}"
            print(f"\n{row['outcome']}: {row['file']}:{row['line']}:{row['column']}  {change}\n    {text}")


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(prog="python -m lab.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--checkout", type=Path, default=Path(), help="root of the checkout")
    parser.add_argument("--tier", choices=("quick", "thorough", "all"), default="quick", help="tests that run")
    parser.add_argument("--tests", nargs="+", default=["tests"], help="files and folders of tests")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--cap", type=float, default=MUTANT_SECONDS, help="seconds for one mutant")
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no mutant after this time")
    parser.add_argument("--output", type=Path, default=Path("mutants.jsonl"), help="results, one line per mutant")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    path = options.checkout.resolve()
    mutants = draw(path / "src", options.count, options.seed)
    rows = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {tuple(row[name] for name in KEY): row for row in rows}
    checkout = Checkout(path, options.tier, options.tests, options.jobs)
    folders: queue.Queue[Path] = queue.Queue()
    for number in range(options.jobs):
        job = checkout.home / f"job-{os.getpid()}-{number}"
        folders.put(checkout.copy(job, checkout.home / f"record-{len(checkout.stages) - 1}" / "kernels"))

    def run(mutant: Mutant, covering: list[list[str]]) -> None:
        if (start := time.monotonic()) > end:
            return
        job = folders.get()
        try:
            outcome, test = checkout.judge(mutant, covering, job, options.cap)
        finally:
            folders.put(job)
        row = dict(zip(KEY, mutant.key)) | {"outcome": outcome, "test": test}
        row |= {"covering": sum(map(len, covering)), "seconds": round(time.monotonic() - start, 1)}
        done[mutant.key] = row
        with options.output.open("a") as file:
            file.write(json.dumps(row) + "\n")
        place = f"{mutant.file}:{mutant.line}"
        print(f"{outcome:10}{row['seconds']:>7} s  {place}  {mutant.operator}  {test}", flush=True)

    todo = [mutant for mutant in mutants if mutant.key not in done]
    stages = range(len(checkout.stages))
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(run, todo, [[checkout.covering(mutant, stage) for stage in stages] for mutant in todo]))
    while not folders.empty():
        shutil.rmtree(folders.get())
    summarise([done[mutant.key] for mutant in mutants if mutant.key in done], path / "src")


if __name__ == "__main__":
    main()
