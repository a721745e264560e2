"""Changed manifests with a valid checksum."""

import hashlib
import json


def seal(found):
    """The text of a manifest with its checksum: the SHA-256 of its compact ASCII JSON without one."""
    bare = {key: value for key, value in found.items() if key != "checksum"}
    return json.dumps(bare | {"checksum": hashlib.sha256(json.dumps(bare, separators=(",", ":")).encode()).hexdigest()})


def change(manifest, **entries):
    """Replace entries of a manifest and its checksum."""
    manifest.write_text(seal(json.loads(manifest.read_text()) | entries))
