"""Kernels on disk: kept between processes, shared by processes, and never a reason to fail.

Every test runs kernels in processes of their own, with a cache folder of their own.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

# What every process does: kernels by rank (8 and 16 columns are two kernels), run on a small tree. It prints one line.
WORK = """
import json, os, shutil, sys
import numpy as np
from pathlib import Path
from plait.compile import kernels
from plait.compile.step import Operand, make_step
from plait.data.blocks import grow
from plait.execute import Threads

CELLS = np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]], np.uint32)


def step(rank):
    return make_step("linear", ("i", "j"), (Operand(("i",), ("r",)), Operand(("j",), ("r",))), {"r": rank}, (0, 1))


def work(rank=5, cells=CELLS):
    tree = grow(("i", "j"), {"i": 3, "j": 3}, cells, np.arange(1.0, 6.0), ("i", "j"))
    columns = -(-rank // 8) * 8
    arrays = [np.zeros((3, columns)) for _ in range(2)]
    for n, array in enumerate(arrays):
        array[:, :rank] = np.random.default_rng(n).uniform(size=(3, rank))
    found = Threads(1).sum(step(rank), [tree], arrays).gradients
    return [float(g.sum()) for g in found]


def hits(rank=5):
    stats = getattr(kernels.compiled(step(rank)).run, "stats", None)
    return sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def say(**more):
    print(json.dumps({"numbers": work(), "hits": hits()[0], "misses": hits()[1], **more}))
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
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    environment.pop("PLAIT_CACHE_DIR", None)
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
def run(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    return lambda folder, code="say()": said(start(folder, home, code))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """What the work gives, from an undisturbed process; its folder may be copied."""
    home = tmp_path_factory.mktemp("home")
    found = said(start(home / "plain", home))
    assert (found["hits"], found["misses"]) == (0, 1)
    return found["numbers"]


def files(folder):
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def only(folder, pattern):
    (path,) = folder.rglob(pattern)
    return path


# kept -----------------------------------------------------------------------------------------------------------------


def test_a_second_process_loads_what_the_first_compiled(tmp_path, run, numbers):
    first = run(tmp_path / "kernels")
    written = files(tmp_path / "kernels")
    second = run(tmp_path / "kernels")
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)
    assert files(tmp_path / "kernels") == written
    assert first["numbers"] == second["numbers"] == numbers


def test_kernels_are_kept_in_plait_cache_dir_and_nowhere_else(tmp_path, run, numbers):
    folder = tmp_path / "deep" / "down"
    run(folder)
    assert sorted(Path(name).suffix for name in files(folder)) == [".nbc", ".nbi", ".py", ".pyc"]
    assert files(tmp_path / "home") == {}


def test_without_plait_cache_dir_kernels_are_kept_in_the_users_cache_folder(tmp_path, run, numbers):
    assert run(None)["numbers"] == numbers
    where = tmp_path / "home" / "cache" / "plait" if sys.platform == "linux" else tmp_path / "home"
    assert list(where.rglob("plait_kernel_*.py"))


def test_the_kept_module_is_readable_source(tmp_path, run, numbers):
    run(tmp_path)
    text = only(tmp_path, "plait_kernel_*.py").read_text()
    assert "# linear over the tree v0 > v1" in text
    assert "def run(" in text


def test_equal_shapes_share_one_kernel_and_others_do_not(tmp_path, run, numbers):
    run(tmp_path, "work(5); work(8); work(9); say()")
    assert len(list(tmp_path.glob("plait_kernel_*.py"))) == 2


def test_nothing_temporary_is_left_behind(tmp_path, run, numbers):
    run(tmp_path)
    assert not [name for name in files(tmp_path) if "tmp" in Path(name).name]


# shared ---------------------------------------------------------------------------------------------------------------


def test_processes_that_compile_the_same_kernel_at_once_all_succeed(tmp_path, run, numbers):
    home, folder = tmp_path / "home", tmp_path / "kernels"
    wait = """
        import time
        Path(os.environ["HOME"], str(os.getpid()) + ".ready").touch()
        while not Path(os.environ["HOME"], "go").exists():
            time.sleep(0.001)
        say()
    """
    processes = [start(folder, home, wait) for _ in range(3)]
    while len(list(home.glob("*.ready"))) < len(processes):
        assert all(process.poll() is None for process in processes)
    (home / "go").touch()
    assert [said(process)["numbers"] for process in processes] == [numbers] * len(processes)
    again = run(folder)
    assert again["numbers"] == numbers
    assert run(folder)["hits"] == 1


def test_threads_that_ask_for_the_same_kernel_at_once_get_one_compilation(tmp_path, run, numbers):
    code = """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool:
            several = list(pool.map(lambda _: work(), range(8)))
        say(several=several)
    """
    found = run(tmp_path, code)
    assert found["several"] == [numbers] * 8
    assert found["misses"] == 1


# never a reason to fail -----------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_costs_only_time(tmp_path, run, numbers):
    (tmp_path / "file").write_text("not a folder")
    for folder in (tmp_path / "file" / "below", Path("/proc/nowhere/plait"), Path("/dev/null")):
        assert run(folder)["numbers"] == numbers


def test_an_empty_folder_that_cannot_be_written_costs_only_time(tmp_path, run, numbers):
    folder = tmp_path / "kernels"
    folder.mkdir()
    assert run(folder, READ_ONLY + "say()")["numbers"] == numbers
    assert files(folder) == {}


def test_kernels_in_a_folder_that_cannot_be_written_are_still_used(tmp_path, run, numbers):
    """An administrator's folder: whoever may only read it loads from it, and compiles the rest in memory."""
    folder = tmp_path / "kernels"
    run(folder)
    written = files(folder)
    found = run(folder, READ_ONLY + "work(9); say()")
    assert found["numbers"] == numbers
    assert files(folder) == written


def test_modules_in_a_read_only_folder_without_machine_code_cost_only_time(tmp_path, run, numbers):
    folder = tmp_path / "kernels"
    run(folder)
    for path in folder.rglob("*.nb?"):
        path.unlink()
    assert run(folder, READ_ONLY + "say()")["numbers"] == numbers


def test_a_full_disk_costs_only_time(tmp_path, run, numbers):
    code = """
        import errno
        from numba.core.caching import IndexDataCacheFile
        def full(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")
        IndexDataCacheFile._save_data = full
    """
    assert run(tmp_path / "kernels", textwrap.dedent(code) + "say()")["numbers"] == numbers
    assert run(tmp_path / "kernels")["numbers"] == numbers


def test_a_folder_that_vanishes_between_two_kernels_is_made_again(tmp_path, run, numbers):
    code = """
        work(5)
        shutil.rmtree(os.environ["PLAIT_CACHE_DIR"])
        work(9)
        say()
    """
    assert run(tmp_path / "kernels", code)["numbers"] == numbers
    assert len(list((tmp_path / "kernels").glob("*.py"))) == 1


def test_a_folder_that_vanishes_does_not_stop_a_kernel_from_taking_64_bit_rows(tmp_path, run, numbers):
    code = """
        work()
        shutil.rmtree(os.environ["PLAIT_CACHE_DIR"])
        say(wide=work(cells=CELLS.astype(np.int64)))
    """
    assert run(tmp_path / "kernels", code)["wide"] == numbers


def test_a_folder_that_vanishes_while_a_module_is_written_costs_only_time(tmp_path, run, numbers):
    code = """
        load = kernels._load
        def gone(name, path):
            shutil.rmtree(os.environ["PLAIT_CACHE_DIR"])
            return load(name, path)
        kernels._load = gone
        say()
    """
    process = start(tmp_path / "kernels", tmp_path / "home", code.replace("say()", "print(json.dumps(work()))"))
    assert said(process) == numbers


DAMAGE = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "garbage": lambda data: b"\xff\xfe\x00garbage" * 50,
    "text": lambda data: b"def run(:\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("suffix", [".py", ".pyc", ".nbi", ".nbc"])
def test_a_damaged_file_is_replaced(suffix, damage, tmp_path, run, numbers):
    folder = tmp_path / "kernels"
    run(folder)
    path = only(folder, f"*{suffix}")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert run(folder)["numbers"] == numbers
    assert run(folder) == {"numbers": numbers, "hits": 1, "misses": 0}


def test_machine_code_of_an_older_module_is_not_used(tmp_path, run, numbers):
    """The module's name is the hash of its text, so an upgrade of Plait or numba never meets old machine code."""
    folder = tmp_path / "kernels"
    run(folder)
    code = """
        kernels._toolchain = lambda: "another version"
        say()
    """
    found = run(folder, code)
    assert (found["hits"], found["misses"]) == (0, 1)
    assert len(list(folder.glob("*.py"))) == 2
