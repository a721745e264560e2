"""Digg: who comments on, and who diggs, which stories; and what the stories are about.

The paper's data cannot be had any more, so links are drawn from the model, in the same sizes and numbers. A person who
has the original text files puts them into a folder `digg`; `read` says what they must look like.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lab.paper.experiment import Lab
from plait.errors import DataError, ParameterError
from plait.files.csv_dialect import lines

Factors = dict[str, NDArray[np.float64]]

FOLDER = "digg"
DRAWN = "links drawn from the model in the sizes of Digg, not Digg itself"
ORIGINAL = "Digg, the original files"
SIZES = {"user": 9583, "story": 44005, "comment": 241800, "keyword": 13714, "topic": 51}
INDICES = {
    "comments": ("user", "story", "comment"),
    "topics": ("story", "keyword", "topic"),
    "diggs": ("user", "story"),
}
LINKS = {"comments": 151_779, "topics": 1_157_529, "diggs": 94_551}
MAX_NUMBER = 2**63 - 1  # number that an entity may have in the original files
QUICK = 0.02  # of the entities and links; topics are too few to be fewer

RANK = 10
SHARPNESS = 0.1  # the concentration of memberships: small, so that most entities belong to one component or two
TAIL = 0.8  # the second most popular entity is 2^−0.8 times as popular as the first, and so on


@dataclass(frozen=True, eq=False)
class Digg:
    """Tables of links by relation, their columns as in `INDICES`.

    entities: all of them by axis, also those without a link. truth: the factors that drawn links come from, by axis;
    none for the original files.
    """

    links: Mapping[str, pl.DataFrame]
    entities: Mapping[str, Sequence[int]]
    truth: Factors | None


def load(lab: Lab, run: int) -> Digg:
    """The original files if they are there, else links drawn from the model: others in every run."""
    folder = _folder(lab.data)
    return _drawn(run, lab.quick) if folder is None else _read(folder, lab.quick)


def source(lab: Lab) -> str:
    """Which of the two it is. The original files are read, so that a fault in them is found before the first fit."""
    folder = _folder(lab.data)
    if folder is None:
        return DRAWN
    _read(folder, lab.quick)
    return ORIGINAL


def _folder(data: Path | None) -> Path | None:
    """Where the original files are: the folder `digg` under the data, or the data folder itself."""
    if data is None:
        return None
    if not data.exists():
        raise ParameterError(f"there is no {data}.\nName the folder that has {FOLDER}/, or leave --data out.")
    if (data / FOLDER).is_dir():
        return data / FOLDER
    return data if data.is_dir() and any(map(_named, data.iterdir())) else None


# --- drawn from the model


@lru_cache(maxsize=1)
def _drawn(seed: int, quick: bool) -> Digg:
    rng = np.random.default_rng(seed)
    scale = QUICK if quick else 1.0
    sizes = {axis: max(min(size, 51), round(scale * size)) for axis, size in SIZES.items()}
    truth = {axis: memberships(size, rng) for axis, size in sizes.items()}
    links = {}
    for name, indices in INDICES.items():
        cells = draw([truth[index] for index in indices], round(scale * LINKS[name]), rng)
        links[name] = pl.DataFrame(dict(zip(indices, cells)))
    entities = {axis: range(size) for axis, size in sizes.items()}
    return Digg(links, entities, truth)


def memberships(size: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A factor (size, RANK): popularity with a heavy tail, in random order, times a Gamma draw for each component."""
    popularity = rng.permutation(np.arange(1.0, size + 1) ** -TAIL)
    return popularity[:, None] * rng.gamma(SHARPNESS, 1 / SHARPNESS, (size, RANK))


def draw(factors: Sequence[NDArray[np.float64]], count: int, rng: np.random.Generator) -> list[NDArray[np.int32]]:
    """This number of different cells of Σ_r Π Z[·, r], a column of row numbers for each factor.

    A cell is drawn without ever looking at all of them: first its component, by how much that adds to the sum over all
    cells (the product of the factors' column sums), then each entity from the component's column.
    """
    shape = tuple(len(factor) for factor in factors)
    weights = np.prod([factor.sum(axis=0) for factor in factors], axis=0)
    steps = [np.cumsum(factor, axis=0) for factor in factors]
    found = np.empty(0, np.int64)
    while len(found) < count:  # repeated cells are dropped, and others drawn in their place
        more = count - len(found)
        component = rng.choice(len(weights), more, p=weights / weights.sum())
        cells = np.empty((len(factors), more), np.int64)
        for r in range(len(weights)):
            own = np.flatnonzero(component == r)
            for k, step in enumerate(steps):
                drawn = np.searchsorted(step[:, r], rng.uniform(0, step[-1, r], len(own)), side="right")
                cells[k, own] = np.minimum(drawn, shape[k] - 1)
        found = np.concatenate([found, np.ravel_multi_index(tuple(cells), shape)])
        found = found[np.sort(np.unique(found, return_index=True)[1])]
    return [column.astype(np.int32) for column in np.unravel_index(found, shape)]


# --- the original files


@lru_cache(maxsize=1)
def _read(folder: Path, quick: bool) -> Digg:
    links = read(folder)
    if quick:
        few = links["diggs"].select(pl.col("story").unique().sort()).head(round(QUICK * SIZES["story"]))
        links = {name: table.join(few, on="story", how="semi") for name, table in links.items()}
    rows = pl.concat([table.unpivot(variable_name="axis") for table in links.values()])
    entities = {axis: rows.filter(axis=axis)["value"].unique().sort().to_list() for axis in SIZES}
    return Digg(links, entities, None)


def read(folder: Path) -> dict[str, pl.DataFrame]:
    """The three relations from text files, each named after its columns in their order.

    `user_comment_story_v1.m` has the columns user, comment and story; so may `comment_user_story.txt` in its own order,
    `story_keyword_topic.csv` and `user_story.m` or `user_digg_story.m`. Each line is a link: whole numbers between
    blanks, tabs or commas, counted from 0 or 1. A link that stands there twice is one. % and # begin a comment.
    """
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = _named(path)
        if name in found:
            raise DataError(f"{folder}: both {found[name].name} and {path.name} are {name}.\nRemove one of the two.")
        if name is not None:
            found[name] = path
    for name, indices in INDICES.items():
        if name not in found:
            there = ", ".join(sorted(path.name for path in folder.iterdir()))
            raise DataError(
                f"{folder}: there is no file of {name}, only {there or 'nothing'}.\n"
                f"Name it after its columns: {'_'.join(indices)}.txt, in their order there."
            )
    return {name: read_tuples(found[name], _axes(found[name])).select(INDICES[name]) for name in INDICES}


def read_tuples(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """A table of whole numbers from text, every row once."""
    try:
        numbers = _numbers(path, columns)
    except OSError as error:  # a folder of that name, a link to nothing, a file of another user
        raise DataError(f"{path}: it cannot be read ({error.strerror}).\nPut a text file there.") from None
    if not numbers:
        raise DataError(f"{path}: there is no link in it.\nEach line has {len(columns)} whole numbers.")
    rows = np.array(numbers, np.int64).reshape(-1, len(columns))
    return pl.DataFrame(rows, list(columns)).unique(maintain_order=True)


def _numbers(path: Path, columns: Sequence[str]) -> list[int]:
    """All numbers of a text, line after line."""
    numbers: list[int] = []
    for at, line in enumerate(lines(str(path)), 1):
        fields = re.split(r"[%#]", line, maxsplit=1)[0].replace(",", " ").replace(";", " ").split()
        if fields and len(fields) != len(columns):
            raise DataError(
                f"{path}, line {at}: {len(fields)} numbers, but its name says {len(columns)}: {', '.join(columns)}.\n"
                f"Name the file after its columns, or correct the line."
            )
        numbers.extend(_whole(path, at, field) for field in fields)
    return numbers


def _whole(path: Path, at: int, field: str) -> int:
    """A whole number, 0 or more; MATLAB may have written it as 1.0000000e+00."""
    if field.isascii() and field.isdecimal() and len(field) < len(str(MAX_NUMBER)):
        return int(field)  # by far the most
    try:
        number = Decimal(field)  # exact, as float is not
    except InvalidOperation:
        number = Decimal("nan")
    shown = repr(field if len(field) <= 40 else f"{field[:40]}…")
    if not number.is_finite() or number < 0 or number != number.to_integral_value():
        raise DataError(f"{path}, line {at}: {shown} is not a whole number, 0 or more.\nCorrect the line.")
    if number > MAX_NUMBER:
        raise DataError(f"{path}, line {at}: {shown} is larger than 2^63 − 1.\nGive that entity a smaller number.")
    return int(number)


def _named(path: Path) -> str | None:
    """The relation that a file holds, by its name; None if it is none of them."""
    if path.suffix.lower() not in (".m", ".txt", ".csv", ".tsv", ".dat"):
        return None
    axes = sorted(_axes(path))
    return next((name for name, indices in INDICES.items() if sorted(indices) == axes), None)


def _axes(path: Path) -> list[str]:
    """The columns that the name of a file says; version numbers and the word digg say nothing."""
    words = re.split(r"[^a-z0-9]+", path.stem.lower())
    return [word for word in words if word and not re.fullmatch(r"v?\d+|diggs?", word)]
