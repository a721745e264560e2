import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import plait


def message(source, **options):
    with pytest.raises(plait.DataError) as caught:
        plait.read(source, **options)
    return str(caught.value)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_only_array_is_taken_whatever_else_there_is(compressed):
    data = np.arange(24.0).reshape(2, 3, 4)
    scipy.io.savemat("a.mat", {"X": data, "title": "words"}, do_compression=compressed)
    assert np.array_equal(plait.read("a.mat"), data)


def test_a_sparse_matrix_stays_sparse():
    data = scipy.sparse.random_array((20, 30), density=0.1, rng=np.random.default_rng(0))
    scipy.io.savemat("a.mat", {"X": scipy.sparse.csc_matrix(data)})
    found = plait.read("a.mat")
    assert isinstance(found, scipy.sparse.coo_array)
    assert np.array_equal(found.toarray(), data.toarray())


def test_among_several_arrays_one_must_be_named():
    scipy.io.savemat("a.mat", {"UserLoc": np.ones((2, 3)), "LocFea": np.ones((3, 4), np.uint8), "note": "words"})
    assert plait.read("a.mat", name="LocFea").shape == (3, 4)
    listed = "UserLoc (2 × 3), LocFea (3 × 4)"
    assert message("a.mat") == f"a.mat: the file has 2 arrays: {listed}.\nGive `name='UserLoc'`."
    assert message("a.mat", name="UserLok") == (
        f"a.mat: there is no variable 'UserLok'.\nDid you mean 'UserLoc'? The arrays are {listed}."
    )
    assert message("a.mat", name="note") == (
        f"a.mat: variable 'note' is a char array.\nThe arrays of numbers are {listed}."
    )


def test_a_file_without_numbers_and_complex_numbers_are_refused():
    scipy.io.savemat("a.mat", {"note": "words"})
    assert message("a.mat") == "a.mat: the file has no array of numbers.\nSave one."
    scipy.io.savemat("b.mat", {"z": np.array([[1j]])})
    assert message("b.mat") == "b.mat: variable 'z' is of type complex128.\nSave it as real numbers."


def test_version_7_3_is_refused_with_a_cure():
    Path("new.mat").write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + bytes(600))
    assert message("new.mat") == (
        "new.mat: the file is of MATLAB's version 7.3, which is HDF5.\n"
        "Save it with -v7: save('new.mat', '-v7'); or read it with h5py."
    )


def test_a_damaged_file_is_named():
    scipy.io.savemat("whole.mat", {"X": np.ones((40, 40))})
    whole = Path("whole.mat").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no matlab" * 50, whole[:130]):
        Path("a.mat").write_bytes(damaged)
        first, cure = message("a.mat", name="X").split("\n")
        assert first.startswith("a.mat: ")
        assert cure in ("Save it again, with -v7.", "The arrays are none.")
    Path("a.mat").write_bytes(b"")
    assert message("a.mat") == "a.mat: the file is empty.\nSave it again, with -v7."


def test_uclaf_has_1436_links_of_users_places_and_activities(shared):
    data = plait.read(shared / "uclaf" / "aaai10.uclaf.data.mat", name="UserLocAct")
    assert data.shape == (164, 168, 5)
    assert np.count_nonzero(data) == 1436
    bound = plait.Model("visits[user, place, act] = U[user, r] P[place, r] A[act, r]").bind({"visits": data})
    assert len(bound.labels["place"]) == 168


def matrix_file(data, change, compressed=False):
    """A file of one variable X, its bytes changed; compressed afterwards."""
    found = io.BytesIO()
    scipy.io.savemat(found, {"X": data})
    whole = found.getvalue()
    head, element = whole[:128], change(whole[128:])
    packed = zlib.compress(element)
    Path("a.mat").write_bytes(head + (struct.pack("<II", 15, len(packed)) + packed if compressed else element))


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", [0, 8, 0x30, 0x7FFF])
def test_numbers_of_an_unknown_type_are_an_error_and_no_crash(kind, compressed):
    """SciPy ends the process."""
    double, other = struct.pack("<II", 9, 48), struct.pack("<II", kind, 48)
    matrix_file(np.ones((2, 3)), lambda element: element.replace(double, other), compressed)
    assert message("a.mat") == (
        f"a.mat: this is no MATLAB file of version 5, or a damaged one: a variable has numbers of type {kind}.\n"
        "Save it again, with -v7."
    )


def test_pointers_of_a_sparse_matrix_that_lead_outside_are_an_error_and_no_crash():
    data, columns = scipy.sparse.csc_array(np.eye(3)), struct.pack("<4i", 0, 1, 2, 3)
    for wrong in ((0, 1, 2**30, 3), (0, -(2**30), 2, 3), (0, 3, 1, 3)):
        matrix_file(data, lambda element, wrong=wrong: element.replace(columns, struct.pack("<4i", *wrong)))
        assert message("a.mat").startswith("a.mat: this is no MATLAB file of version 5, or a damaged one: ")
    matrix_file(data, lambda element: element.replace(struct.pack("<3i", 0, 1, 2), struct.pack("<3i", 0, 1, 2**25), 1))
    assert message("a.mat").startswith("a.mat: this is no MATLAB file of version 5, or a damaged one: ")
