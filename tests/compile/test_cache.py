"""Kernels on disk: kept between processes, shared by processes, and never a reason to fail.

Every test runs kernels in processes of its own, with a cache folder of its own; `filled` is one that holds a kernel.
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

import llvmlite.binding as llvm
import numpy as np
import pytest

import plait
from plait.compile import kernels
from plait.compile.step import Operand, make_step

# What every process does: kernels by rank (8 and 16 columns are two kernels), run on a small tree. It prints one line.
WORK = """
import json, os, shutil, sys, warnings
from dataclasses import replace
import numpy as np
from pathlib import Path
from plait.compile import kernels
from plait.compile.step import Operand, make_step
from plait.data.cells.trees import grow
from plait.execute import Threads
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
    numbers, stats = work(), kernels.compiled(step(5)).run.stats
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


def test_a_second_process_loads_what_the_first_compiled(run, first):
    folder, found = first
    written = files(folder)
    again = run(folder)
    assert (found["hits"], found["misses"]) == (0, 1)
    assert (again["hits"], again["misses"]) == (1, 0)
    assert files(folder) == written
    assert again["numbers"] == found["numbers"]


def test_plait_cache_dir_holds_one_file_a_kernel_that_begins_with_its_source(first):
    folder, _ = first
    assert {Path(name).suffix for name in files(folder)} == {".kernel"}
    (path,) = entries(folder)
    assert b"# linear over the tree v0 > v1" in path.read_bytes()


def test_a_copied_cache_is_valid_whatever_its_times(run, filled, numbers):
    for path in filled.iterdir():
        os.utime(path, (0, 0))
    written = files(filled)
    assert run(filled) == {"numbers": numbers, "hits": 1, "misses": 0}
    assert files(filled) == written


@pytest.mark.skipif(sys.platform != "linux", reason="the folder's name is that of Linux")
def test_without_plait_cache_dir_kernels_are_kept_in_the_users_cache_folder(home, run, numbers):
    assert run(None)["numbers"] == numbers
    assert entries(home / "cache" / "plait")


def test_equal_shapes_share_one_kernel_and_others_do_not(run, filled):
    run(filled, "work(8); work(9); work(16); say()")
    assert len(entries(filled)) == 2


@pytest.mark.parametrize(
    "change", ['cache.VERSIONS = "others"', 'CPUCodegen.magic_tuple = lambda self: ("other", "processor")']
)
def test_machine_code_of_another_version_or_processor_is_not_used(change, run, filled, numbers):
    found = run(filled, f"from numba.core.codegen import CPUCodegen\n{change}\nsay()")
    assert found == {"numbers": numbers, "hits": 0, "misses": 1}
    assert len(entries(filled)) == 2
    assert run(filled) == {"numbers": numbers, "hits": 1, "misses": 0}


# shared ---------------------------------------------------------------------------------------------------------------


def test_processes_that_compile_the_same_kernel_at_once_all_succeed(home, tmp_path, run, numbers):
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


def test_threads_that_ask_for_the_same_kernel_at_once_get_one_compilation(tmp_path, run, numbers):
    code = """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            several = list(pool.map(lambda _: work(), range(8)))
        say(several=several)
    """
    found = run(tmp_path / "kernels", code)
    assert found["several"] == [numbers] * 8
    assert found["misses"] == 1


def test_a_call_never_compiles_whatever_arrays_it_is_given(tmp_path, run, numbers):
    """Numba compiles at a call outside the lock of kernels."""
    code = """
        def frozen(array):
            array = array.copy()
            array.flags.writeable = False
            return array

        def all_frozen(tree):
            return replace(tree, entries=frozen(tree.entries), rows=tuple(map(frozen, tree.rows)),
                           starts=tuple(map(frozen, tree.starts)))

        arrays = [np.ones((3, 8)), frozen(np.ones((3, 8)))]
        tree = grow(("i", "j"), {"i": 3, "j": 3}, CELLS, np.arange(1.0, 6.0), ("i", "j"))
        one = grow(("i", "j"), {"i": 3, "j": 3}, CELLS[:1], np.broadcast_to(1.0, 1), ("i", "j"))  # one plain link
        for some in (tree, all_frozen(tree), one):
            Threads(1).sum(step(5), some, arrays)
        folder = Path(os.environ["PLAIT_CACHE_DIR"])
        files = len(list(folder.glob("run-*.kernel")))
        try:
            Threads(1).sum(step(5), tree, [np.asfortranarray(array) for array in arrays])
        except TypeError as error:
            refused = "No matching definition" in str(error)
        wide = work(width=np.uint64)  # row numbers of 64 bits: a kernel of its own
        more = len(list(folder.glob("run-*.kernel")))
        print(json.dumps([files, one.entries.flags.writeable, refused, wide, more]))
    """
    assert run(tmp_path / "kernels", code) == [1, False, True, numbers, 2]


# never a reason to fail -----------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_costs_only_time(tmp_path, run, numbers):
    (tmp_path / "file").write_text("not a folder")
    code = """
        several = []
        for folder in ("/proc/nowhere/plait", "/dev/null", os.environ["PLAIT_CACHE_DIR"]):
            os.environ["PLAIT_CACHE_DIR"] = folder
            kernels.forget()
            several.append(work())
        print(json.dumps(several))
    """
    assert run(tmp_path / "file" / "below", code) == [numbers] * 3


def test_an_empty_folder_that_cannot_be_written_costs_only_time(tmp_path, run, numbers):
    (tmp_path / "kernels").mkdir()
    assert run(tmp_path / "kernels", READ_ONLY + "print(json.dumps(work()))") == numbers
    assert files(tmp_path / "kernels") == {}


def test_kernels_in_a_folder_that_cannot_be_written_are_used(run, filled, numbers):
    """An administrator's folder: what is not in it is compiled in memory."""
    written = files(filled)
    assert run(filled, READ_ONLY + "work(9); say()")["numbers"] == numbers
    assert run(filled, READ_ONLY + "say()") == {"numbers": numbers, "hits": 1, "misses": 0}
    assert files(filled) == written


def test_with_no_folder_that_can_be_written_at_all_kernels_are_compiled_in_memory(run, filled, numbers):
    everywhere = READ_ONLY.replace('os.environ["PLAIT_CACHE_DIR"]', '"/"')
    assert run(filled, everywhere + "print(json.dumps(work()))") == numbers


def test_a_full_disk_costs_only_time(tmp_path, run, numbers):
    code = """
        import errno

        def full(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        cache.os.replace = full
        print(json.dumps(work()))
    """
    assert run(tmp_path / "kernels", code) == numbers
    assert files(tmp_path / "kernels") == {}
    assert run(tmp_path / "kernels")["numbers"] == numbers


def test_a_folder_that_vanishes_at_any_time_costs_only_time(run, filled, numbers):
    code = """
        def vanish():
            shutil.rmtree(os.environ["PLAIT_CACHE_DIR"])

        work()
        vanish()  # between two kernels
        work(9)
        vanish()  # before the same step is compiled for other types
        wide = work(width=np.uint64)
        write = cache.replacing

        def gone(path, **options):  # before a file is written
            vanish()
            return write(path, **options)

        kernels.forget()
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
    kernels.forget()
    numbers = work()
    kernels.forget()
    return [numbers, found()]


work()
(path,) = Path(os.environ["PLAIT_CACHE_DIR"]).glob("run-*.kernel")
print(json.dumps({name: after(path, damage) for name, damage in DAMAGE.items()}))
"""


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
def test_the_folder_and_its_files_are_the_users_alone(first):
    folder, _ = first
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in folder.iterdir()} == {0}


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_can_write_is_refused_with_one_warning(mode, run, filled, numbers):
    filled.chmod(mode)
    written = files(filled)
    found = run(filled, REFUSED)
    ((kind, text, file),) = found.pop("warned")
    assert found == {"numbers": numbers, "hits": 0, "misses": 1}
    assert (kind, file) == ("CacheFolderWarning", "<string>")
    assert "other users can write to it" in text
    assert f"chmod go-w {filled}" in text
    assert files(filled) == written


@posix
def test_a_folder_of_another_user_is_refused(run, filled, numbers):
    if os.geteuid() == 0:
        os.chown(filled, 12345, -1)
        found = run(filled, REFUSED)
    else:
        found = run(filled, f"os.geteuid = lambda: {os.geteuid() + 1}\n{REFUSED}")
    ((_, text, _),) = found.pop("warned")
    assert found == {"numbers": numbers, "hits": 0, "misses": 1}
    assert "it belongs to another user" in text


def test_row_kernels_move_with_the_package_and_do_not_outlive_the_functions_that_they_call(tmp_path):
    """After an upgrade that changes jit, rows.py may still be the same."""
    own = Path(plait.__file__).parent
    package = Path(shutil.copytree(own, tmp_path / "plait", ignore=lambda *_: ["__pycache__"]))
    code = """
        import numpy as np
        from plait.compile.layout import Layout
        from plait.infer import gamma
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


def test_a_kernel_that_nobody_holds_is_freed_and_one_in_use_is_not(tmp_path, run, numbers):
    code = """
        import gc, weakref

        numbers = work()
        held, alive = kernels.compiled(step(5)), weakref.ref(kernels.compiled(step(5)).run)
        kernels.forget()
        gc.collect()
        in_use = alive() is held.run
        again = work()  # a second one of the same name
        del held
        gc.collect()
        gone = alive() is None
        more = work()
        kernels.forget()
        gc.collect()
        print(json.dumps([numbers, again, more, in_use, gone]))
    """
    for _ in range(2):  # freshly compiled, and from the folder
        assert run(tmp_path / "kernels", code) == [numbers, numbers, numbers, True, True]


def test_machine_code_is_kept_and_not_what_it_was_made_from(tmp_path, run, numbers):
    """The engine of LLVM keeps what it is given until the process ends, a kernel what its library has."""
    code = """
        from numba.core.registry import cpu_target

        numbers, run = work(), kernels.compiled(step(5)).run
        engine = cpu_target.target_context.codegen()._engine
        kept = {function.name for module in engine._ee._modules for function in module.functions}
        own = {each.fndesc.llvm_func_name for each in run.overloads.values()}
        held = [each.library._shared_module or each.type_annotation for each in run.overloads.values()]
        print(json.dumps([numbers, [engine.is_symbol_defined(name) for name in own], sorted(kept & own), any(held)]))
    """
    for _ in range(2):  # freshly compiled, and from the folder
        assert run(tmp_path / "kernels", code) == [numbers, [True], [], False]


def test_kernels_in_memory_are_bounded(monkeypatch):
    """However many models a process meets; the kernel that was asked for last is among those kept."""
    alive = weakref.WeakSet()

    def build(step, types):
        def run(): ...

        alive.add(run)
        return kernels.Kernel(run, 1, np.dtype(np.float64))

    monkeypatch.setattr(kernels, "_build", build)
    kernels.forget()
    try:
        for rank in range(1, 8 * kernels.LOADED):
            step = make_step("linear", ("i",), (Operand(("i",), ("r", "s")),), {"r": rank, "s": 1}, (0,))
            latest = kernels.compiled(step)
        assert latest is kernels.compiled(step)
        del latest
        gc.collect()
        assert len(alive) <= 2 * kernels.LOADED
    finally:
        kernels.forget()


def test_compiling_frees_the_pass_managers_of_llvm():
    """Each holds some 30 kB outside Python, and a kernel needs some fifty."""
    managers = getattr(llvm, "newpassmanagers", None)
    for manager in managers.NewPassManager.__subclasses__() if managers else ():
        assert manager._dispose is not llvm.ffi.ObjectRef._dispose
