from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sparse

import plait

DENSE = np.arange(24.0).reshape(2, 3, 4)
CUBE = sparse.COO(np.array([[0, 1, 4], [2, 0, 1], [0, 0, 1]]), np.array([1.0, 2.0, 3.0]), shape=(5, 3, 2))


def message(source, **options):
    with pytest.raises(plait.DataError) as caught:
        plait.read(source, **options)
    return str(caught.value)


def test_the_only_array_of_an_archive_is_taken():
    np.savez("a.npz", X=DENSE)
    assert np.array_equal(plait.read("a.npz"), DENSE)
    np.save("a.npy", DENSE)
    assert np.array_equal(plait.read("a.npy"), DENSE)


def test_among_several_arrays_one_must_be_named():
    np.savez_compressed("a.npz", visits=DENSE, friends=np.eye(2, dtype=bool))
    assert plait.read("a.npz", name="friends").dtype == bool
    assert message("a.npz") == "a.npz: the archive has 2 arrays: visits, friends.\nGive `name='visits'`."
    assert message("a.npz", name="visit") == (
        "a.npz: there is no array 'visit'.\nDid you mean 'visits'? The arrays are visits, friends."
    )


@pytest.mark.parametrize("layout", ["coo", "csr", "csc", "bsr", "dia"])
def test_a_sparse_array_of_scipy_is_read_from_every_layout(layout):
    data = scipy.sparse.random_array((6, 8), density=0.3, rng=np.random.default_rng(0))
    scipy.sparse.save_npz("a.npz", data.asformat(layout))
    assert np.array_equal(plait.read("a.npz").toarray(), data.toarray())


def test_a_sparse_array_of_any_order_is_read():
    sparse.save_npz("a.npz", CUBE)
    found = plait.read("a.npz")
    assert found.shape == (5, 3, 2)
    assert np.array_equal(found.toarray(), CUBE.todense())
    Path("bare.npz").unlink(missing_ok=True)
    np.savez("bare.npz", coords=CUBE.coords, data=CUBE.data, shape=CUBE.shape)
    assert np.array_equal(plait.read("bare.npz").toarray(), CUBE.todense())


def test_a_sparse_array_that_is_missing_elsewhere_stays_so():
    gaps = sparse.COO(CUBE.coords, CUBE.data, shape=CUBE.shape, fill_value=np.nan)
    sparse.save_npz("a.npz", gaps)
    found = plait.read("a.npz")
    assert np.isnan(found.fill_value)
    assert np.array_equal(found.todense(), gaps.todense(), equal_nan=True)


def test_arrays_survive_writing_and_reading():
    plait.write(DENSE, "dense.npz")
    plait.write(DENSE, "dense.npy")
    plait.write(CUBE, "cube.npz")
    matrix = scipy.sparse.csr_array(np.eye(3))
    plait.write(matrix, "matrix.npz")
    assert np.array_equal(plait.read("dense.npz"), DENSE)
    assert np.array_equal(plait.read("dense.npy"), DENSE)
    assert np.array_equal(plait.read("cube.npz").toarray(), CUBE.todense())
    assert np.array_equal(plait.read("matrix.npz").toarray(), np.eye(3))
    # Other programs read them too.
    assert np.array_equal(sparse.load_npz("cube.npz").todense(), CUBE.todense())


def test_a_fill_value_survives_writing_and_reading():
    gaps = sparse.COO(CUBE.coords, CUBE.data, shape=CUBE.shape, fill_value=np.nan)
    plait.write(gaps, "a.npz")
    assert np.array_equal(plait.read("a.npz").todense(), gaps.todense(), equal_nan=True)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def test_pickled_objects_are_refused_and_never_run():
    pickled = "the file has Python objects, which are not read: they may run code.\nSave arrays of numbers."
    np.savez("a.npz", x=np.array([Trap()], dtype=object))
    np.save("a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    assert message("a.npz") == f"a.npz: {pickled}"
    assert message("a.npy") == f"a.npy: {pickled}"
    assert not Path("ran").exists()


def test_what_is_no_array_of_numbers_is_refused():
    np.savez("words.npz", x=np.array(["a", "b"]))
    assert message("words.npz") == "words.npz: array 'x' is of type <U1.\nSave it as real numbers."
    sparse.save_npz("compressed.npz", sparse.GCXS.from_numpy(np.eye(3)))
    assert message("compressed.npz") == (
        "compressed.npz: the file has a compressed array of sparse.\nSave it as coordinates: array.asformat('coo')."
    )
    np.savez("outside.npz", coords=[[0, 3]], data=[1.0, 2.0], shape=[3])
    assert message("outside.npz") == "outside.npz: coordinates lie outside the shape (3,).\nSave the array again."
    np.savez("uneven.npz", coords=[[0, 1, 2]], data=[1.0, 2.0], shape=[3])
    assert message("uneven.npz") == (
        "uneven.npz: coords are of shape (1, 3), but there are 2 entries of 1 dimensions.\n"
        "Save the array again, with sparse.save_npz."
    )


def test_a_damaged_file_is_named():
    np.savez("whole.npz", x=DENSE)
    whole = Path("whole.npz").read_bytes()
    no_file = "this is no NumPy file.\nSave it again, with numpy.save or numpy.savez."
    for data, expected in {
        b"garbage": f"a.npz: {no_file}",
        b"": "a.npz: the file is empty.\nSave it again, with numpy.save or numpy.savez.",
        whole[:200]: "a.npz: this is no NumPy file, or a damaged one: File is not a zip file.\nSave it again.",
    }.items():
        Path("a.npz").write_bytes(data)
        assert message("a.npz") == expected
    Path("a.npy").write_bytes(whole)
    assert message("a.npy") == "a.npy: this is an archive.\nGive it the ending .npz."
    np.save("b.npy", DENSE)
    Path("b.npz").write_bytes(Path("b.npy").read_bytes())
    assert message("b.npz") == "b.npz: this is one array.\nGive it the ending .npy."


def test_a_header_that_is_none_and_a_damaged_compression_are_named():
    np.save("a.npy", np.ones(3))
    whole = Path("a.npy").read_bytes()
    Path("a.npy").write_bytes(whole.replace(b"{'descr'", b"(((('desc"))
    assert message("a.npy").startswith("a.npy: this is no NumPy file, or a damaged one: ")
    scipy.sparse.save_npz("s.npz", scipy.sparse.csr_array(np.eye(300)))
    whole = bytearray(Path("s.npz").read_bytes())
    start = whole.index(b"indices.npy") + 45
    whole[start : start + 20] = bytes(20)
    Path("s.npz").write_bytes(whole)
    assert message("s.npz").startswith("s.npz: this is no NumPy file, or a damaged one: ")
