"""Manifests: checksum, schema, and names that stay in the folder."""

import json
import os
from pathlib import Path

import pytest

from plait.errors import StorageError
from plait.manifests import FILE, check, dumps, inside, loads, natural, read_bytes

HEADER = {"version": 2, "name": "Zoë", "numbers": [1, 2.5, 1e-300], "files": {"b": {"file": "b"}, "a": None}}
PATH = Path("folder/manifest.json")


@pytest.mark.parametrize("indent", [None, 1])
def test_what_is_written_is_read_in_its_order(indent):
    found = loads(dumps(HEADER, indent), PATH)
    assert found == HEADER
    assert list(found["files"]) == ["b", "a"]


NO_MANIFESTS = [b"[" * 200_000, b'{"a":' * 200_000, b"[]", b"\xff\xfe", b"", b'{"version": 2}', b'{"a": 1, "a": 1}']


@pytest.mark.parametrize("content", [*NO_MANIFESTS, b'{"a": NaN}', b"\x00", b"9" * 10_000])
def test_other_content_is_refused(content):
    with pytest.raises(StorageError, match="manifest is damaged"):
        loads(content, PATH)


def test_only_old_versions_may_lack_the_checksum():
    assert loads(b'{"version": 1}', PATH, checksum_since=2) == {"version": 1}
    with pytest.raises(StorageError, match="it has no checksum"):
        loads(b'{"version": 2}', PATH, checksum_since=2)
    with pytest.raises(StorageError, match="checksum"):
        loads(json.dumps({"version": 1, "checksum": "0" * 64}).encode(), PATH, checksum_since=2)


@pytest.mark.parametrize("name", ["/etc/passwd", "../a", "..", ".", "", "b/a", "b\\a", "C:a", "a\0", 7, None, ["a"]])
def test_paths_that_leave_the_folder_are_refused(tmp_path, name):
    with pytest.raises(StorageError, match="not the name of a file in this folder"):
        inside(tmp_path, name)


def test_links_and_pipes_are_refused(tmp_path):
    (tmp_path / "file").write_text("here")
    assert inside(tmp_path, "file") == tmp_path / "file"
    assert inside(tmp_path, "missing") == tmp_path / "missing"
    assert read_bytes(tmp_path / "file") == b"here"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(StorageError, match=name):
            inside(tmp_path, name)
        with pytest.raises(StorageError, match=name):
            read_bytes(tmp_path / name)


GOOD = {"kind": "all", "sizes": [1, 2], "files": {"x": {"file": "x", "bytes": 1, "sha256": "0" * 64}}, "more": 1}
SCHEMA = {"kind": ("all", None, float), "sizes": [natural], "files": {str: FILE}, "flag?": bool}


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({}, ""),
        ({"kind": None, "flag": True}, ""),
        ({"kind": 0.5}, ""),
        ({"kind": "some"}, "kind"),
        ({"kind": float("inf")}, "kind"),
        ({"kind": 10**400}, "kind"),
        ({"kind": True}, "kind"),
        ({"sizes": [1, -1]}, r"sizes\[1\]"),
        ({"sizes": [1, True]}, r"sizes\[1\]"),
        ({"sizes": {}}, "sizes"),
        ({"files": []}, "files"),
        ({"files": {"x": {"file": "x", "bytes": 1}}}, "files.x has no 'sha256'"),
        ({"files": {"x": {**GOOD["files"]["x"], "sha256": "0" * 63 + "G"}}}, "files.x.sha256"),
        ({"flag": 1}, "flag"),
    ],
)
def test_schema(change, at):
    found = {**GOOD, **change}
    if not at:
        check(found, SCHEMA, PATH)
        return
    with pytest.raises(StorageError, match=at):
        check(found, SCHEMA, PATH)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    with (tmp_path / "manifest.json").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(StorageError, match=r"manifest\.json.* has more than"):
        read_bytes(tmp_path / "manifest.json")
