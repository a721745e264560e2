"""File formats: tables and arrays from files and databases, and back (`plait.read`, `plait.write`, `plait.scan`).

`source_kinds` lists the formats and their options; each format has a file. Nothing here depends on relations or models.
"""

from plait.files.read import line_of, read
from plait.files.source_kinds import FileFormat, formats, options_for
from plait.files.write import write

__all__ = ["FileFormat", "formats", "line_of", "options_for", "read", "write"]
