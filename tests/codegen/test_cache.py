"""The cache of kernels on disk: shared by processes; a fault of it costs only time.

Every test runs kernels in processes of its own with its own cache folder; `filled` is one that holds a kernel.
"""

import gc
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import plait
from plait.codegen import compiler
from plait.codegen.step import Operand, make_step

# The script of every process: kernels by rank (8 and 16 columns are two kernels), run on a small tree.
WORK = """
import json, os, shutil, sys, warnings
from dataclasses import replace
import numpy as np
from pathlib import Path
from plait.codegen import compiler
from plait.codegen.step import Operand, make_step
from plait.data.sparse.csf import grow
from plait.executors import Threads
from plait.jit import cache

CELLS = np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]], np.uint32)


def step(rank):
    return make_step("linear", ("i", "j"), (Operand(("i",), ("r",)), Operand(("j",), ("r",))), {"r": rank}, (0, 1))


def work(rank=5, width=np.uint8):
    tree = grow(("i", "j"), {"i": 3, "j": 3}, CELLS, np.arange(1.0, 6.0), ("i", "j"))
    tree = replace(tree, rows=tuple(rows.astype(width) for rows in tree.rows))
    columns = -(-rank // 8) * 8
    arrays = [np.zeros((3, columns)) for _ in range(2)]
    for n, array in enumerate(arrays):
        array[:, :rank] = np.random.default_rng(n).uniform(size=(3, rank))
    found = Threads(1).sum(step(rank), tree, arrays).gradients
    return [float(g.sum()) for g in found]


def found():
    numbers, stats = work(), compiler.compiled(step(5)).run.stats
    return {"numbers": numbers, "hits": sum(stats.cache_hits.values()), "misses": sum(stats.cache_misses.values())}


def say(**more):
    print(json.dumps({**found(), **more}))
"""

# A folder that exists and can be read but not written, for root as well.
READ_ONLY = """
def refuse(event, arguments, folder=os.environ["PLAIT_CACHE_DIR"]):
    def inside(path):
        return isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path).startswith(folder)
    writes = event in ("os.mkdir", "os.rename", "os.remove") or (
        event == "open" and (isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
                             or isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)))
    if writes and any(inside(a) for a in arguments[:2]):
        raise PermissionError(13, "Permission denied", str(arguments[0]))

sys.addaudithook(refuse)
"""


def start(folder, home, code="say()"):
    """A process that does the work with this cache folder."""
    left_out = ("NUMBA_CACHE_DIR", "PLAIT_CACHE_DIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    if folder is not None:
        environment["PLAIT_CACHE_DIR"] = str(folder)
    command = [sys.executable, "-W", "error", "-c", WORK + textwrap.dedent(code)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def said(process):
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    assert error == ""
    return json.loads(out)


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def run(home):
    return lambda folder, code="say()": said(start(folder, home, code))


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The cache folder of an undisturbed process, and what it said."""
    home = tmp_path_factory.mktemp("home")
    folder = tmp_path_factory.mktemp("cache") / "deep" / "down"
    found = said(start(folder, home))
    assert files(home) == {}
    return folder, found


def entries(folder):
    """The files of generated kernels, which are all called `run`."""
    return list(folder.glob("run-*.kernel"))


@pytest.fixture
def numbers(first):
    return first[1]["numbers"]


@pytest.fixture
def filled(first, tmp_path):
    return Path(shutil.copytree(first[0], tmp_path / "filled"))


def files(folder):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


# kept -----------------------------------------------------------------------------------------------------------------


@pytest.mark.budget(5)
def test_a_second_process_loads_the_kernels_of_the_first(run, first):
    folder, found = first
    written = files(folder)
    again = run(folder)
    assert (found["hits"], found["misses"]) == (0, 1)
    assert again == {"numbers": found["numbers"], "hits": 1, "misses": 0}
    assert files(folder) == written
    assert {Path(name).suffix for name in written} == {".kernel"}
    (path,) = entries(folder)
    assert b"# linear over the tree v0 > v1" in path.read_bytes()


def test_a_copied_cache_is_valid_whatever_its_times(run, filled, numbers):
    for path in filled.iterdir():
        os.utime(path, (0, 0))
    written = files(filled)
    assert run(filled) == {"numbers": numbers, "hits": 1, "misses": 0}
    assert files(filled) == written


@pytest.mark.skipif(sys.platform != "linux", reason="the folder's name is that of Linux")
def test_the_default_is_the_users_cache_folder(home, run, numbers):
    assert run(None)["numbers"] == numbers
    assert entries(home / "cache" / "plait")


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change", ['cache.VERSIONS = "others"', 'CPUCodegen.magic_tuple = lambda self: ("other", "processor")']
)
def test_machine_code_of_another_version_or_processor_is_not_used(change, run, filled, numbers):
    found = run(filled, f"from numba.core.codegen import CPUCodegen\n{change}\nsay()")
    assert found == {"numbers": numbers, "hits": 0, "misses": 1}
    assert len(entries(filled)) == 2
    assert run(filled) == {"numbers": numbers, "hits": 1, "misses": 0}


# shared ---------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_processes_may_compile_the_same_kernel_at_once(home, tmp_path, run, numbers):
    wait = """
        import time
        Path(os.environ["HOME"], str(os.getpid()) + ".ready").touch()
        while not Path(os.environ["HOME"], "go").exists():
            time.sleep(0.001)
        say()
    """
    processes = [start(tmp_path / "kernels", home, wait) for _ in range(2)]
    while len(list(home.glob("*.ready"))) < len(processes):
        assert all(process.poll() is None for process in processes)
        time.sleep(0.01)
    (home / "go").touch()
    assert [said(process)["numbers"] for process in processes] == [numbers] * len(processes)
    assert run(tmp_path / "kernels") == {"numbers": numbers, "hits": 1, "misses": 0}


@pytest.mark.thorough
def test_threads_compile_the_same_kernel_once(tmp_path, run, numbers):
    code = """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            several = list(pool.map(lambda _: work(), range(8)))
        say(several=several)
    """
    found = run(tmp_path / "kernels", code)
    assert found["several"] == [numbers] * 8
    assert found["misses"] == 1


@pytest.mark.thorough
def test_a_call_never_compiles(tmp_path, run, numbers):
    """Numba would compile outside the lock of kernels."""
    code = """
        def frozen(array):
            array = array.copy()
            array.flags.writeable = False
            return array

        arrays, folder = [np.ones((3, 8)), frozen(np.ones((3, 8)))], Path(os.environ["PLAIT_CACHE_DIR"])
        tree = grow(("i", "j"), {"i": 3, "j": 3}, CELLS, np.arange(1.0, 6.0), ("i", "j"))
        read_only = replace(tree, entries=frozen(tree.entries), rows=tuple(map(frozen, tree.rows)),
                            starts=tuple(map(frozen, tree.starts)))
        one = grow(("i", "j"), {"i": 3, "j": 3}, CELLS[:1], np.broadcast_to(1.0, 1), ("i", "j"))  # one plain link
        for some in (tree, read_only, one):
            Threads(1).sum(step(5), some, arrays)
        files = len(list(folder.glob("run-*.kernel")))
        try:
            Threads(1).sum(step(5), tree, [np.asfortranarray(array) for array in arrays])
        except TypeError as error:
            refused = "No matching definition" in str(error)
        wide = work(width=np.uint64)  # row numbers of 64 bits: a kernel of its own
        print(json.dumps([files, refused, wide, len(list(folder.glob("run-*.kernel")))]))
    """
    assert run(tmp_path / "kernels", code) == [1, True, numbers, 2]


# never a reason to fail -----------------------------------------------------------------------------------------------


NOWHERE = """
several = []
for folder in ("/proc/nowhere/plait", "/dev/null", os.environ["PLAIT_CACHE_DIR"] + "/file/below"):
    os.environ["PLAIT_CACHE_DIR"] = folder
    compiler.forget()
    several.append(work())
assert several == several[:1] * 3
"""
FULL = """
import errno

def full(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")

cache.os.replace = full
"""
FAULTS = {
    "read-only": READ_ONLY,
    "nothing can be written": READ_ONLY.replace('os.environ["PLAIT_CACHE_DIR"]', '"/"'),
    "no folder": NOWHERE,
    "full disk": FULL,
}


@pytest.mark.quick(fault=["read-only", "nothing can be written"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_cannot_be_written_costs_only_time(fault, tmp_path, run, numbers):
    folder = tmp_path / "kernels"
    folder.mkdir()
    (tmp_path / "kernels" / "file").write_text("not a folder")
    before = files(folder)
    assert run(folder, FAULTS[fault] + "\nprint(json.dumps(work()))") == numbers
    assert files(folder) == before
    if fault == "full disk":
        assert run(folder)["numbers"] == numbers


@pytest.mark.thorough
def test_kernels_of_a_read_only_folder_are_used(run, filled, numbers):
    written = files(filled)
    assert run(filled, READ_ONLY + "work(9); say()")["numbers"] == numbers
    assert run(filled, READ_ONLY + "say()") == {"numbers": numbers, "hits": 1, "misses": 0}
    assert files(filled) == written


@pytest.mark.thorough
def test_a_folder_that_vanishes_costs_only_time(run, filled, numbers):
    code = """
        def vanish():
            shutil.rmtree(os.environ["PLAIT_CACHE_DIR"])

        work()
        vanish()  # between two kernels
        work(9)
        vanish()  # before the same step is compiled for types
        wide = work(width=np.uint64)
        write = cache.replacing

        def gone(path, **options):  # before a file is written
            vanish()
            return write(path, **options)

        compiler.forget()
        vanish()
        cache.replacing = gone
        print(json.dumps([wide, work()]))
    """
    assert run(filled, code) == [numbers, numbers]


DAMAGE = r"""
import hashlib


def flipped(bit):
    def flip(data):
        place, data = 65 * bit if bit < 4 else (bit - 4) * len(data) // 6, bytearray(data)
        data[place] ^= 1 << bit % 8
        return bytes(data)
    return flip


def checked(pickled):
    def replace(data):
        text = data[65 : data.index(b"\0") + 1] + pickled
        return hashlib.sha256(text).hexdigest().encode() + b"\n" + text
    return replace


DAMAGE = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\xff\xfe\x00garbage" * 50,
    "no module": checked(b"c<dynamic>\nrun\n."),  # a pickle of what numba found no module of
    "another type": checked(b"I3\n."),
    "no pickle": checked(b""),
    **{f"bit {n}": flipped(n) for n in range(10)},
}


def after(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    compiler.forget()
    numbers = work()
    compiler.forget()
    return [numbers, found()]


work()
(path,) = Path(os.environ["PLAIT_CACHE_DIR"]).glob("run-*.kernel")
print(json.dumps({name: after(path, damage) for name, damage in DAMAGE.items()}))
"""


@pytest.mark.budget(5)
def test_a_damaged_file_costs_only_time_and_is_replaced(run, filled, numbers):
    good = [numbers, {"numbers": numbers, "hits": 1, "misses": 0}]
    found = run(filled, DAMAGE)
    assert len(found) == 16
    assert found == dict.fromkeys(found, good)


# code that is executed ------------------------------------------------------------------------------------------------

REFUSED = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    work()
    say(warned=[[w.category.__name__, str(w.message), w.filename] for w in caught])
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and owners are those of POSIX")


@posix
def test_only_the_user_can_read_the_folder(first):
    folder, _ = first
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


OTHERS = {
    "group": ("filled.chmod(0o770)", "other users can write to it"),
    "others": ("filled.chmod(0o702)", "other users can write to it"),
    "owner": (
        "os.geteuid() or os.chown(filled, 12345, -1)\nos.geteuid = lambda: 54321",  # root may give it away
        "it belongs to another user",
    ),
}


@pytest.mark.thorough
@posix
@pytest.mark.parametrize("who", OTHERS)
def test_a_folder_that_others_can_write_is_refused_with_one_warning(who, run, filled, numbers):
    change, message = OTHERS[who]
    written = files(filled)
    found = run(filled, f'filled = Path(os.environ["PLAIT_CACHE_DIR"])\n{change}\n{REFUSED}')
    ((kind, text, file),) = found.pop("warned")
    assert found == {"numbers": numbers, "hits": 0, "misses": 1}
    assert (kind, file) == ("CacheFolderWarning", "<string>")
    assert message in text
    assert who == "owner" or f"chmod go-w {filled}" in text
    assert files(filled) == written


@pytest.mark.thorough
def test_a_changed_function_invalidates_the_kernels_that_call_it(tmp_path):
    own = Path(plait.__file__).parent
    package = Path(shutil.copytree(own, tmp_path / "plait", ignore=lambda *_: ["__pycache__"]))
    code = """
        import numpy as np
        from plait.codegen.layout import Layout
        from plait.inference import gamma
        one = np.ones((1, 1))
        print(gamma.posterior(Layout("c", (), (), (), ()), one, one).log_geomean[0, 0])
    """

    def log_geomean(place):
        environment = os.environ | {"PYTHONPATH": str(place), "PLAIT_CACHE_DIR": str(tmp_path / "kernels")}
        command = [sys.executable, "-c", textwrap.dedent(code)]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    before, written = log_geomean(own.parent), files(tmp_path / "kernels")
    assert log_geomean(tmp_path) == before == pytest.approx(-0.5772156649015329)
    assert files(tmp_path / "kernels") == written != {}
    with (package / "jit" / "elementary.py").open("a") as file:  # as if another version computed it otherwise
        file.write("\n\nfrom plait.jit.policy import inlined\nfrom plait.jit.vectors import splat\n")
        file.write("\n\n@inlined\ndef digamma_lgamma8(x):\n    return splat(42.0), splat(0.0)\n")
    assert log_geomean(tmp_path) == 42.0


# in memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_an_unused_kernel_is_freed(tmp_path, run, numbers):
    code = """
        import gc, weakref

        numbers = work()
        held, alive = compiler.compiled(step(5)), weakref.ref(compiler.compiled(step(5)).run)
        compiler.forget()
        gc.collect()
        in_use = alive() is held.run
        again = work()  # a second one of the same name
        del held
        gc.collect()
        gone = alive() is None
        more = work()
        compiler.forget()
        gc.collect()
        print(json.dumps([numbers, again, more, in_use, gone]))
    """
    for _ in range(2):  # freshly compiled, and from the folder
        assert run(tmp_path / "kernels", code) == [numbers, numbers, numbers, True, True]


def test_kernels_in_memory_are_bounded(monkeypatch):
    alive = weakref.WeakSet()

    def build(step, types):
        def run(): ...

        alive.add(run)
        return compiler.Kernel(run, 1, np.dtype(np.float64))

    monkeypatch.setattr(compiler, "_build", build)
    compiler.forget()
    try:
        for rank in range(1, 8 * compiler.LOADED):
            step = make_step("linear", ("i",), (Operand(("i",), ("r", "s")),), {"r": rank, "s": 1}, (0,))
            latest = compiler.compiled(step)
        assert latest is compiler.compiled(step)
        del latest
        gc.collect()
        assert len(alive) <= 2 * compiler.LOADED
    finally:
        compiler.forget()
