"""Manifests changed after they were written, with the checksum that such a manifest has."""

import hashlib
import json


def seal(found):
    """The text of a manifest with its checksum: the SHA-256 of its compact ASCII JSON without one."""
    bare = {key: value for key, value in found.items() if key != "checksum"}
    return json.dumps(bare | {"checksum": hashlib.sha256(json.dumps(bare, separators=(",", ":")).encode()).hexdigest()})


def change(manifest, **entries):
    """Replace entries of a manifest, which is as whole as before."""
    manifest.write_text(seal(json.loads(manifest.read_text()) | entries))
