"""Manifests of runs: read, and changed with a valid checksum."""

import hashlib
import json
import zipfile


def manifest(run):
    """The manifest of a run, a folder or an archive, without its checksum."""
    place = zipfile.Path(run) if run.is_file() else run
    found = json.loads((place / "manifest.json").read_text())
    del found["checksum"]
    return found


def seal(found):
    """The text of a manifest with its checksum: the SHA-256 of its compact ASCII JSON without one."""
    bare = {key: value for key, value in found.items() if key != "checksum"}
    return json.dumps(bare | {"checksum": hashlib.sha256(json.dumps(bare, separators=(",", ":")).encode()).hexdigest()})


def change(path, **entries):
    """Replace entries of a manifest and its checksum."""
    path.write_text(seal(json.loads(path.read_text()) | entries))
