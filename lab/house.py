"""Size of the code base: files, lines of code, modules with one importer, files that one fit runs through, tests.

python -m lab.house                    # this checkout
python -m lab.house /path/to/checkout  # another one
"""

import ast
import io
import os
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

import plait

PUBLIC = {f"plait.{name}" for name in (*plait.__all__, "networkx", "sklearn")}

# Prints the number of files and packages of Plait in which a default fit calls a function.
PROFILE = """
import sys, polars as pl, plait
seen = set()
table = pl.DataFrame({"user": list("abcabcab"), "film": list("xyzyzxwv")})
plait.fit
sys.setprofile(lambda frame, event, argument: seen.add(frame.f_code.co_filename))
plait.fit("likes[user, film] = U[user, r] F[film, r]", {"likes": table}, seed=0, progress=False)
sys.setprofile(None)
home = plait.__file__.removesuffix("__init__.py")
files = {name.removeprefix(home) for name in seen if name.startswith(home)}
print(len(files), len({name.partition("/")[0] for name in files if "/" in name}))
"""


def code_lines(text: str) -> int:
    """Lines with code: no blank lines, comments or docstrings."""
    lines: set[int] = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                lines -= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def importers(modules: dict[str, str]) -> Counter[str]:
    """How many modules import each module."""
    found: Counter[str] = Counter()
    for name, text in modules.items():
        used = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                used |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            elif isinstance(node, ast.Import):
                used |= {alias.name for alias in node.names}
        found.update(used & modules.keys() - {name})
    return found


def imports_internals(text: str) -> bool:
    """Whether code imports more of Plait than its public modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "plait":
            found |= {f"plait.{alias.name}" for alias in node.names if alias.name.islower()}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return any(name.startswith("plait.") and name not in PUBLIC for name in found)


def main(checkout: Path) -> None:
    """Print the table."""
    source = checkout / "src" / "plait"
    texts = {path: path.read_text() for path in sorted(source.rglob("*.py"))}
    modules = {
        ".".join(("plait", *path.relative_to(source).with_suffix("").parts)): text for path, text in texts.items()
    }
    counts = importers(modules)
    single = [name for name in modules if not name.endswith("__init__") and counts[name] == 1]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONWARNINGS": "ignore"}
    run = subprocess.run([sys.executable, "-c", PROFILE], env=environment, capture_output=True, text=True, check=True)
    files, packages = run.stdout.split()
    tests = [path.read_text() for path in sorted((checkout / "tests").rglob("*.py"))]
    print(f"files                        {len(texts):,}")
    print(f"lines                        {sum(text.count(chr(10)) for text in texts.values()):,}")
    print(f"lines of code                {sum(map(code_lines, texts.values())):,}")
    print(f"packages                     {sum(path.name == '__init__.py' for path in texts):,}")
    print(f"modules with one importer    {len(single):,}")
    print(f"files run by one plait.fit   {files} in {packages} packages")
    print(f"lines of tests               {sum(text.count(chr(10)) for text in tests):,} in {len(tests)} files")
    print(f"  that import internals      {sum(map(imports_internals, tests)):,}")
    print(f"  calls of setattr           {sum(text.count('.setattr(') for text in tests):,}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
