"""Which steps of a pack are finished, so that one that was cut off is gone on with.

It is one small file in the draft's spill, replaced as a whole after each step. It names the files that a step left,
with their sizes, and these are on the disk before it is. It is good for one key only, which says of what it is a pack;
where anything is doubtful there is no journal, and all begins again.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from plait.data.blocks.durable import sync_file, sync_folder
from plait.data.reading.relation import Relation
from plait.data.reading.scanned import is_scan
from plait.errors import StoreError
from plait.likelihood import Likelihood
from plait.manifests import dumps, loads, read_bytes
from plait.model.model import Model
from plait.version import __version__

NAME, VERSION = "journal.json", 2
TABLES = {"data", "missing", "hidden", "likelihood"}  # what a relation has beside options that can be written down
COLLECTED = "collected"


def dealt_step(relation: str) -> str:
    """The step that deals the rows of a relation."""
    return f"dealt {relation}"


def written_step(relation: str) -> str:
    """The step that writes its blocks."""
    return f"written {relation}"


class Journal:
    """The finished steps of one draft. key: what is packed; None: that nobody can tell, and nothing is noted."""

    def __init__(self, spill: Path, key: str | None, steps: Mapping[str, Any] | None = None) -> None:
        self.spill, self.key = spill, key
        self._steps = dict(steps or {})

    def __bool__(self) -> bool:
        return bool(self._steps)

    def __contains__(self, step: str) -> bool:
        return step in self._steps

    def __getitem__(self, step: str) -> Any:
        return self._steps[step]["said"]

    @property
    def files(self) -> set[Path]:
        """All that its steps left."""
        place = self.spill.parent
        named = (place / name for step in self._steps.values() for name in step["files"])
        return {self.spill / NAME, *named} if self._steps else set()

    def note(self, step: str, said: Any, files: Iterable[Path], *, instead: str | None = None) -> None:
        """A step is finished: what it found, and the files that it left; instead: the step that is no longer needed."""
        place, paths = self.spill.parent, list(files)
        left = {path.relative_to(place).as_posix(): sync_file(path) for path in paths}
        self.spill.mkdir(exist_ok=True)
        for folder in {path.parent for path in paths} | {place}:
            sync_folder(folder)
        steps = {name: one for name, one in self._steps.items() if name != instead}
        self._save({**steps, step: {"said": said, "files": left}})

    def _save(self, steps: dict[str, Any]) -> None:
        draft = self.spill / f"{NAME}.new"
        draft.write_bytes(dumps({"version": VERSION, "key": self.key, "steps": steps}))
        sync_file(draft)
        os.replace(draft, self.spill / NAME)
        sync_folder(self.spill)
        self._steps = steps

    @staticmethod
    def read(spill: Path, key: str | None) -> "Journal | None":
        """The journal of a draft that somebody left, where it is of the same key and all its files are there."""
        try:
            found = loads(read_bytes(spill / NAME), spill / NAME)
            if key is None or (found["version"], found["key"]) != (VERSION, key):
                return None
            for step in found["steps"].values():
                for path, size in ((spill.parent / name, size) for name, size in step["files"].items()):
                    if path.stat().st_size != size or not path.resolve().is_relative_to(spill.parent.resolve()):
                        return None
            return Journal(spill, key, found["steps"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StoreError):
            return None

    def words(self) -> str:
        """What need not be done again."""
        said = []
        for how, verb in (("written", "blocks of {} were written"), ("dealt", "rows of {} were dealt")):
            names = [step.removeprefix(f"{how} ") for step in self._steps if step.startswith(f"{how} ")]
            said += [f"{verb.format(' and '.join(names))} already"] if names else []
        return ", ".join(said) or "names were collected already"


# --- keys


def key_of(model: Model, relations: Mapping[str, Relation], memory: int, labels: Mapping[str, Any]) -> str | None:
    """What a pack is of: the same key means the same blocks. None where nobody knows whether tables are the same."""
    sources = [_source(one) for one in relations.values()]
    if None in sources:
        return None
    try:
        declared = sorted((axis, repr(list(names))) for axis, names in labels.items())
    except TypeError:  # no names, which binding refuses
        return None
    options = [(name, _options(one)) for name, one in relations.items()]
    said = (__version__, str(model), memory, declared, options, sources)
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _source(relation: Relation) -> str | None:
    """What changes when the rows do."""
    known = is_scan(relation.data) and not relation.missing_tables and not relation.hidden_tables
    return relation.data.identity() if known else None


def _options(relation: Relation) -> list[str]:
    likelihood = relation.likelihood
    plain = [field.name for field in fields(relation) if field.name not in TABLES and not field.name.startswith("_")]
    words = likelihood.to_words() if isinstance(likelihood, Likelihood) else likelihood
    return [repr(words), *(f"{name}={getattr(relation, name)!r}" for name in plain)]
