"""Manifests: checksum, schema, and names that stay in the folder."""

import contextlib
import json
import os
from pathlib import Path

import pytest

from plait import StoreError
from plait.manifests import FILE, check, dumps, inside, loads, natural, read_bytes

HEADER = {"version": 2, "name": "Zoë", "numbers": [1, 2.5, 1e-300], "files": {"b": {"file": "b"}, "a": None}}
PATH = Path("folder/manifest.json")


@pytest.mark.parametrize("indent", [None, 1])
def test_what_is_written_is_read_in_its_order(indent: int | None) -> None:
    found = loads(dumps(HEADER, indent), PATH)
    assert found == HEADER
    assert list(found["files"]) == ["b", "a"]


def test_every_flipped_bit_is_found_or_changes_nothing() -> None:
    content = dumps(HEADER)
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(StoreError):
            assert loads(bytes(flipped), PATH) == HEADER


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b"[]",
        b"\xff\xfe",
        b"",
        b'{"version": 2}',
        b'{"a": 1, "a": 1}',
        b'{"a": NaN}',
    ],
)
def test_what_is_no_manifest_is_refused(content: bytes) -> None:
    with pytest.raises(StoreError, match="manifest is damaged"):
        loads(content, PATH)


def test_only_old_versions_may_lack_the_checksum() -> None:
    assert loads(b'{"version": 1}', PATH, checksum_since=2) == {"version": 1}
    with pytest.raises(StoreError, match="it has no checksum"):
        loads(b'{"version": 2}', PATH, checksum_since=2)
    with pytest.raises(StoreError, match="checksum"):
        loads(json.dumps({"version": 1, "checksum": "0" * 64}).encode(), PATH, checksum_since=2)


@pytest.mark.parametrize("name", ["/etc/passwd", "../a", "..", ".", "", "b/a", "b\\a", "C:a", "a\0", 7, None, ["a"]])
def test_paths_that_leave_the_folder_are_refused(tmp_path: Path, name: object) -> None:
    with pytest.raises(StoreError, match="not the name of a file in this folder"):
        inside(tmp_path, name)


def test_links_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    assert inside(tmp_path, "file") == tmp_path / "file"
    assert inside(tmp_path, "missing") == tmp_path / "missing"
    assert read_bytes(tmp_path / "file") == b"here"
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(StoreError, match=name):
            inside(tmp_path, name)
        with pytest.raises(StoreError, match=name):
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
        ({"files": {"x": {**GOOD["files"]["x"], "sha256": "0" * 63 + "G"}}}, "files.x.sha256"),  # type: ignore[index]
        ({"flag": 1}, "flag"),
    ],
)
def test_schema(change: dict[str, object], at: str) -> None:
    found = {**GOOD, **change}
    if not at:
        check(found, SCHEMA, PATH)
        return
    with pytest.raises(StoreError, match=at):
        check(found, SCHEMA, PATH)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "manifest.json").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(StoreError, match=r"manifest\.json.* has more than"):
        read_bytes(tmp_path / "manifest.json")
