from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sparse

import plait
from tests.support.data_errors import assert_mentions, error_text

DENSE = np.arange(24.0).reshape(2, 3, 4)
CUBE = sparse.COO(np.array([[0, 1, 4], [2, 0, 1], [0, 0, 1]]), np.array([1.0, 2.0, 3.0]), shape=(5, 3, 2))


def message(source, **options):
    return error_text(plait.read, source, **options)


def test_the_only_array_of_an_archive_is_taken():
    np.savez("a.npz", X=DENSE)
    assert np.array_equal(plait.read("a.npz"), DENSE)
    np.save("a.npy", DENSE)
    assert np.array_equal(plait.read("a.npy"), DENSE)


def test_among_several_arrays_one_must_be_named():
    np.savez_compressed("a.npz", visits=DENSE, friends=np.eye(2, dtype=bool))
    assert plait.read("a.npz", name="friends").dtype == bool
    assert_mentions(message("a.npz"), "a.npz", "visits, friends", "`name='visits'`")
    assert_mentions(message("a.npz", name="visit"), "'visit'", "Did you mean 'visits'?", "visits, friends")


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "dia"])
def test_a_sparse_array_of_scipy_is_read_from_every_layout(layout):
    data = scipy.sparse.random_array((6, 8), density=0.3, rng=np.random.default_rng(0))
    scipy.sparse.save_npz("a.npz", data.asformat(layout))
    assert np.array_equal(plait.read("a.npz").toarray(), data.toarray())


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_a_sparse_array_of_any_order_survives_writing_and_reading(fill):
    cube = sparse.COO(CUBE.coords, CUBE.data, shape=CUBE.shape, fill_value=fill)
    sparse.save_npz("a.npz", cube)
    plait.write(cube, "b.npz")
    for name in ("a.npz", "b.npz"):
        found = plait.read(name)
        dense = found.todense() if np.isnan(fill) else found.toarray()
        assert np.array_equal(dense, cube.todense(), equal_nan=True)
    assert np.array_equal(sparse.load_npz("b.npz").todense(), cube.todense(), equal_nan=True)


def test_coordinates_and_data_are_a_sparse_array():
    np.savez("bare.npz", coords=CUBE.coords, data=CUBE.data, shape=CUBE.shape)
    assert np.array_equal(plait.read("bare.npz").toarray(), CUBE.todense())


def test_arrays_survive_writing_and_reading():
    for name in ("dense.npz", "dense.npy"):
        plait.write(DENSE, name)
        assert np.array_equal(plait.read(name), DENSE)
    plait.write(scipy.sparse.csr_array(np.eye(3)), "matrix.npz")
    assert np.array_equal(plait.read("matrix.npz").toarray(), np.eye(3))


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_pickled_objects_are_refused_and_never_run():
    np.savez("a.npz", x=np.array([Trap()], dtype=object))
    np.save("a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    for name in ("a.npz", "a.npy"):
        assert_mentions(message(name), f"{name}: ", "Python objects")
    assert not Path("ran").exists()


def test_other_archives_are_refused():
    np.savez("words.npz", x=np.array(["a", "b"]))
    assert_mentions(message("words.npz"), "words.npz: ", "'x'", "<U1")
    sparse.save_npz("compressed.npz", sparse.GCXS.from_numpy(np.eye(3)))
    assert_mentions(message("compressed.npz"), "compressed.npz: ", "array.asformat('coo')")
    np.savez("outside.npz", coords=[[0, 3]], data=[1.0, 2.0], shape=[3])
    assert_mentions(message("outside.npz"), "outside.npz: ", "outside the shape (3,)")
    np.savez("uneven.npz", coords=[[0, 1, 2]], data=[1.0, 2.0], shape=[3])
    assert_mentions(message("uneven.npz"), "uneven.npz: ", "(1, 3)", "expected (1, 2)")


def bytes_of(save, array):
    save("whole", array)
    (path,) = Path().glob("whole*")
    return path.read_bytes()


def spoilt(whole):
    start = whole.index(b"indices.npy") + 45
    return whole[:start] + bytes(20) + whole[start + 20 :]


@pytest.mark.parametrize(
    ("name", "make", "word"),
    [
        ("a.npz", lambda: b"garbage", "not a NumPy file"),
        ("a.npz", lambda: b"", "empty"),
        ("a.npz", lambda: bytes_of(np.savez, DENSE)[:200], "damaged"),
        ("a.npy", lambda: bytes_of(np.savez, DENSE), ".npz"),
        ("a.npz", lambda: bytes_of(np.save, DENSE), ".npy"),
        ("a.npy", lambda: bytes_of(np.save, DENSE).replace(b"{'descr'", b"(((('desc"), "damaged"),
        ("a.npz", lambda: spoilt(bytes_of(scipy.sparse.save_npz, scipy.sparse.csr_array(np.eye(300)))), "damaged"),
    ],
    ids=["garbage", "empty", "cut", "an archive as .npy", "an array as .npz", "header", "compression"],
)
def test_a_damaged_file_is_named(name, make, word):
    Path(name).write_bytes(make())
    assert_mentions(message(name), f"{name}: ", word)
