"""Tables and arrays from files and databases, and back: ``plait.read`` and ``plait.write``.

``read.py`` and ``write.py`` are the doors; ``source_kinds.py`` lists what can be read and written, with which
options; one file for each kind does the work. Nothing here knows relations or models.
"""

from plait.files.read import line_of, read
from plait.files.source_kinds import FileFormat, formats, options_for
from plait.files.write import write

__all__ = ["FileFormat", "formats", "line_of", "options_for", "read", "write"]
