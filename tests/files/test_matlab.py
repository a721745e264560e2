import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import plait
from tests.support.data_errors import assert_mentions, error_text


def message(source, **options):
    return error_text(plait.read, source, **options)


@pytest.mark.parametrize("compressed", [False, True])
def test_the_only_array_is_read(compressed):
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
    assert_mentions(message("a.mat"), "a.mat", listed, "`name='UserLoc'`")
    assert_mentions(message("a.mat", name="UserLok"), "'UserLok'", "Did you mean 'UserLoc'?", listed)
    assert_mentions(message("a.mat", name="note"), "'note' is a char array", listed)


def test_files_without_real_numbers_and_of_version_7_3_are_refused():
    scipy.io.savemat("a.mat", {"note": "words"})
    assert_mentions(message("a.mat"), "a.mat: ", "no array of numbers")
    scipy.io.savemat("b.mat", {"z": np.array([[1j]])})
    assert_mentions(message("b.mat"), "b.mat: ", "'z'", "complex128")
    Path("new.mat").write_bytes(b"MATLAB 7.3 MAT-file, Platform: GLNXA64" + bytes(600))
    assert_mentions(message("new.mat"), "new.mat: ", "7.3", "save('new.mat', '-v7')")


def test_a_damaged_file_is_named():
    scipy.io.savemat("whole.mat", {"X": np.ones((40, 40))})
    whole = Path("whole.mat").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"no matlab" * 50, whole[:130], b""):
        Path("a.mat").write_bytes(damaged)
        assert message("a.mat", name="X").startswith("a.mat: ")


def test_uclaf_has_1436_links_of_users_places_and_activities(shared):
    data = plait.read(shared / "uclaf" / "aaai10.uclaf.data.mat", name="UserLocAct")
    assert data.shape == (164, 168, 5)
    assert np.count_nonzero(data) == 1436
    bound = plait.Model("visits[user, place, act] = U[user, r] P[place, r] A[act, r]").bind({"visits": data})
    assert len(bound.entities["place"]) == 168


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
    double, other = struct.pack("<II", 9, 48), struct.pack("<II", kind, 48)
    matrix_file(np.ones((2, 3)), lambda element: element.replace(double, other), compressed)
    assert_mentions(message("a.mat"), "a.mat: ", "damaged", f"numbers of type {kind}.")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [((0, 1, 2, 3), (0, 1, 2**30, 3)), ((0, 1, 2, 3), (0, -(2**30), 2, 3)), ((0, 1, 2, 3), (0, 3, 1, 3)),
     ((0, 1, 2), (0, 1, 2**25))],
)  # fmt: skip
def test_sparse_pointers_out_of_bounds_are_an_error_and_no_crash(right, wrong):
    numbers = [struct.pack(f"<{len(some)}i", *some) for some in (right, wrong)]
    matrix_file(scipy.sparse.csc_array(np.eye(3)), lambda element: element.replace(*numbers, 1))
    assert_mentions(message("a.mat"), "a.mat: ", "damaged")
