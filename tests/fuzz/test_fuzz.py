"""Whatever is handed over, there is a result or an error of Plait's own: no other exception, and no hang.

`pytest tests/fuzz --fuzz 10000` tries as many inputs of each kind. A failure shows the input; the seed is its number.
"""

import faulthandler
import io
import random
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.io
import scipy.sparse

import plait
from plait.config import read_config
from plait.files import line_of
from tests.support.cli_world import CONFIG, FRIENDS, VISITS
from tests.support.command_line import plait_command
from tests.support.damage import damaged_bytes, damaged_text
from tests.support.models import MODELS

TABLE = pl.DataFrame({"user": ["ann", "bob", "ann"], "place": [1, 2, 3], "value": [1.5, 2.0, 1.0]})
MATRIX = np.array([[0.0, 2.0, 1.0], [3.0, 0.0, 0.5]])
TNS = b"# a tensor\n1 1 2.0\n2 3 1\n\n2 1 0.5\n"


def written(write) -> bytes:
    file = io.BytesIO()
    write(file)
    return file.getvalue()


FILES = {
    "visits.csv": VISITS.encode(),
    "quoted.csv": b'user,place,value\r\n"a ""b"" c","x, y",1\r\n"d\ne",z,2\r\n',
    "short.csv": b"user,place,value\na,x,1\nb,y,2",
    "visits.tsv": VISITS.replace(",", "\t").encode(),
    "visits.csv.gz": written(lambda file: TABLE.write_csv(file, compression="gzip")),
    "visits.tns": TNS,
    "visits.parquet": written(TABLE.write_parquet),
    "visits.arrow": written(TABLE.write_ipc),
    "stream.arrow": written(TABLE.write_ipc_stream),
    "dense.npy": written(lambda file: np.save(file, MATRIX)),
    "dense.npz": written(lambda file: np.savez(file, X=MATRIX)),
    "packed.npz": written(lambda file: np.savez_compressed(file, X=MATRIX, Y=MATRIX[0])),
    "sparse.npz": written(lambda file: scipy.sparse.save_npz(file, scipy.sparse.csr_array(MATRIX))),
    "dense.mat": written(lambda file: scipy.io.savemat(file, {"X": MATRIX})),
    "packed.mat": written(lambda file: scipy.io.savemat(file, {"X": MATRIX}, do_compression=True)),
    "sparse.mat": written(lambda file: scipy.io.savemat(file, {"X": scipy.sparse.csc_array(MATRIX)})),
}
pytestmark = pytest.mark.both
MODEL = plait.Model("X[i, j] = A[i, r] B[j, r]")


@pytest.fixture
def count(request):
    given = request.config.getoption("--fuzz")
    return given or (100 if request.config.getoption("--tier") == "quick" else 1000)


@pytest.fixture(autouse=True)
def _no_hang(tmp_path, monkeypatch, count):
    """A folder of its own; and what hangs, be it in native code, ends the process with the place where it did."""
    monkeypatch.chdir(tmp_path)
    faulthandler.dump_traceback_later(300 + count, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def check(call, given):
    """The law; returns the result, or None after an error of Plait's own."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # polars' panics are no Exception
        if not isinstance(error, plait.PlaitError) or not str(error).strip():
            pytest.fail(f"{type(error).__module__}.{type(error).__name__}: {error}\nfor {given!r}")
    return None


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_read_or_refused(name, count):
    for seed in range(count):
        data = damaged_bytes(FILES[name], random.Random(seed))
        Path(name).write_bytes(data)
        found = check(lambda: plait.read(name), (seed, data))
        if found is not None:
            check(lambda found=found: MODEL.bind({"X": found}), (seed, data))
            check(lambda: line_of(name, 1), (seed, data))


OPTIONS = {
    "columns": [["user", "place", "value"], ["a", "b"], []],
    "delimiter": [";", " "],
    "header": [True, False],
    "value": ["value", "plays", ["value"]],
    "text": [["place"], ["value"], ["nobody"]],
    "quoted": [False],
}


@pytest.mark.parametrize("name", ["quoted.csv", "visits.tsv", "visits.txt"])
def test_a_damaged_file_with_options_is_read_or_refused(name, count):
    for seed in range(count):
        draw = random.Random(seed)
        data = damaged_bytes(FILES.get(name, TNS), draw)
        options = {key: draw.choice(OPTIONS[key]) for key in draw.sample(sorted(OPTIONS), draw.randint(1, 3))}
        Path(name).write_bytes(data)
        if check(lambda options=options: plait.read(name, **options), (seed, data, options)) is not None:
            check(lambda options=options: line_of(name, 1, **options), (seed, data, options))


def test_a_damaged_model_is_parsed_or_refused(count):
    texts = sorted(MODELS.values())
    for seed in range(10 * count):
        draw = random.Random(seed)
        text = damaged_text(draw.choice(texts), draw)
        model = check(lambda text=text: plait.Model(text), (seed, text))
        assert model is None or plait.Model(str(model)) == model, (seed, text)


def everything(path):
    config = read_config(path)
    config.settings, config.fixed()
    config.model.bind(config.data(), entities=config.entities())


@pytest.fixture
def _files():
    Path("visits.csv").write_text(VISITS)
    Path("friends.csv").write_text(FRIENDS)


@pytest.mark.usefixtures("_files")
def test_a_damaged_config_is_read_or_refused(count):
    for seed in range(5 * count):
        text = damaged_text(CONFIG, random.Random(seed))
        Path("model.toml").write_text(text, encoding="utf-8")
        check(lambda: everything("model.toml"), (seed, text))


@pytest.mark.usefixtures("_files")
@pytest.mark.parametrize("what", ["model.toml", "visits.csv"])
def test_the_command_line_ends_with_0_or_2_and_without_a_traceback(what, count):
    good = {"model.toml": CONFIG, "visits.csv": VISITS}
    for name, text in good.items():
        Path(name).write_text(text, encoding="utf-8")
    for seed in range(max(1, count // 4)):
        data = damaged_bytes(good[what].encode(), random.Random(seed))
        Path(what).write_bytes(data)
        for command in (["check", "model.toml"], ["convert", "visits.csv", "out.parquet"]):
            result = plait_command(*command)
            assert result.exit_code in (0, 2), (seed, command, data, result.output, result.exception)
            assert "Traceback" not in result.output, (seed, command, data)


@pytest.fixture(scope="module")
def small():
    return plait.fit(MODEL, {"X": MATRIX}, rank=1, seed=0, max_iter=1)


@pytest.mark.parametrize("path", ["x" * 300, "x" * 300 + "/y", "a\x00b", "x/" * 3000 + "y"])
def test_a_path_that_the_system_cannot_take_is_refused(path, small):
    calls = {
        "read": lambda: plait.read(f"{path}.csv"),
        "write": lambda: plait.write(TABLE, f"{path}.csv"),
        "save": lambda: small.save(path),
        "load": lambda: plait.load(path),
        "checkpoint": lambda: plait.fit(MODEL, {"X": MATRIX}, rank=1, max_iter=1, checkpoint=path),
        "init": lambda: plait.fit(MODEL, {"X": MATRIX}, rank=1, max_iter=1, init=path),
        "config": lambda: read_config(path),
    }
    for name, call in calls.items():
        with pytest.raises(plait.PlaitError, match=r"no such (file|folder)|cannot be written|not a valid path"):
            call()
        assert not list(Path().iterdir()), name
