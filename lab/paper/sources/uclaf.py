"""UCLAF (V. W. Zheng et al., AAAI 2010): which user did which activity at which place; or a stand-in of its shape.

How the three relations are scaled, and why:

- acts: 0/1 as in the paper, for the 146 users who have any link.
- visits: 0/1. The counts run up to 451, and a few users hold most of them; as counts they would say how often a few
  people visited a few places, and drown the links of all others.
- features: the first of the 14 columns, "up to 167", is the place's own row number, not a feature, so it is left out;
  eight more are zero throughout. The other five have maxima from 0.08 to 1.1 and are divided by them, so that each
  has the same say.
"""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait
from lab.paper.experiment import Lab
from plait.errors import DataError, ParameterError

FILE = "aaai10.uclaf.data.mat"
FOLDER = "uclaf"
ARRAYS = {"UserLocAct": "users × places × activities", "UserLoc": "users × places", "LocFea": "places × features"}
STAND_IN = "a stand-in drawn from a model, not UCLAF"


@dataclass(frozen=True, eq=False)
class Uclaf:
    """Three relations. links: user, place, activity. visits: user, place, value. features: place, feature, value.

    Every entity is named by a number; entities: all of them by axis, also places where nothing happened. source: which
    data these are.
    """

    links: pl.DataFrame
    visits: pl.DataFrame
    features: pl.DataFrame
    entities: dict[str, list[int]]
    source: str

    def relations(self) -> dict[str, plait.Relation]:
        """The three as plait.fit takes them: every cell that is not listed is an observed zero."""
        return {
            "acts": plait.Relation(self.links, unseen="zero", likelihood="poisson"),
            "visits": plait.Relation(self.visits, unseen="zero", columns={"visited": "place"}, likelihood="poisson"),
            "features": plait.Relation(self.features, unseen="zero", likelihood="poisson"),
        }


@lru_cache(maxsize=4)
def load(lab: Lab) -> Uclaf:
    """The data under lab.data (the file, its folder, or a folder with uclaf/ in it), or else the stand-in."""
    path = _path(lab.data)
    if path is not None:
        return _understood(*_read(path))
    return _stand_in(40, 30, 4) if lab.quick else _stand_in(146, 168, 5)


def source(lab: Lab) -> str:
    """A few words that name the data."""
    return load(lab).source


def _path(data: Path | None) -> Path | None:
    if data is None:
        return None
    if not data.exists():
        raise ParameterError(
            f"there is no {data}.\nName the data with --data PATH: {FILE}, or a folder with {FOLDER}/{FILE}."
        )
    if data.is_file():
        return _matlab(data)
    folder = data / FOLDER
    for path in (data / FILE, folder / FILE):
        if path.is_file():
            return path
    if folder.is_dir() or data.name == FOLDER:
        raise _without_file(folder if folder.is_dir() else data)
    return None


def _matlab(file: Path) -> Path:
    if file.suffix.lower() != ".mat":
        raise DataError(
            f"--data: {file} is no MATLAB file (.mat), and a single file can only be UCLAF's.\n"
            f"Name {FILE}, or the folder that has {FOLDER}/{FILE}."
        )
    return file


def _without_file(folder: Path) -> DataError:
    there = sorted(path.name for path in folder.iterdir())
    listed = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
    return DataError(
        f"--data: {folder} has no {FILE}; it has {listed or 'nothing in it'}.\n"
        f"Put the file there, or name it itself: --data PATH/{FILE}."
    )


def _read(path: Path) -> list[NDArray[Any]]:
    """The three arrays, which must fit one another."""
    arrays = [np.asarray(plait.read(path, name=name)) for name in ARRAYS]
    acts, visits, features = (array.shape for array in arrays)
    fit = (
        (len(acts), len(visits), len(features)) == (3, 2, 2)
        and acts[:2] == visits
        and acts[1] == features[0]
        and min(acts) > 0
        and features[1] > 1  # the first column is no feature
    )
    if not fit:
        shapes = zip(ARRAYS, (acts, visits, features), strict=True)
        got = ", ".join(f"{name} {' × '.join(map(str, shape))}" for name, shape in shapes)
        wanted = ", ".join(f"{name} {words}" for name, words in ARRAYS.items())
        raise DataError(
            f"{path}: the arrays do not fit one another. It has {got}; wanted are {wanted}, the same users and "
            f"places in each.\nTake the file as its authors published it: {FILE}."
        )
    return arrays


def _understood(acts: NDArray[Any], visits: NDArray[Any], features: NDArray[Any]) -> Uclaf:
    """The arrays of the file, scaled as said above."""
    active = acts.any(axis=(1, 2))
    known = features[:, 1:]
    known = known[:, known.max(axis=0) > 0]
    return _tables(acts[active] > 0, visits[active] > 0, known / known.max(axis=0), "UCLAF")


def _tables(acts: NDArray[np.bool_], visits: NDArray[np.bool_], features: NDArray[np.float64], source: str) -> Uclaf:
    user, place, activity = np.nonzero(acts)
    goer, seen = np.nonzero(visits)
    described, feature = np.nonzero(features)
    return Uclaf(
        links=pl.DataFrame({"user": user, "place": place, "activity": activity}),
        visits=pl.DataFrame({"user": goer, "place": seen, "value": np.ones(len(goer))}),
        features=pl.DataFrame({"place": described, "feature": feature, "value": features[described, feature]}),
        entities={
            name: list(range(size)) for name, size in zip(("user", "place", "activity"), acts.shape, strict=True)
        },
        source=source,
    )


def _stand_in(users: int, places: int, activities: int, groups: int = 4) -> Uclaf:
    """Users and places in groups: a user visits places of the own groups, acts at some of them, and a place shows its
    group in its features. About as many visits and links a user as in UCLAF; every user has a link, at a visited place.
    """
    rng = np.random.default_rng(2013)
    member = rng.dirichlet([0.3] * groups, users) * rng.gamma(1.0, 1.0, (users, 1))
    kind = rng.dirichlet([0.2] * groups, places) * rng.gamma(0.3, 1.0, (places, 1))
    habit = rng.dirichlet([0.3] * activities, groups)
    rate = member @ kind.T
    visits = rng.poisson(16 * rate / rate.sum() * users) > 0
    chance = np.where(visits[:, :, None], np.einsum("ir,jr,rk->ijk", member, kind, habit), 0.0)
    acts = rng.poisson(16 * chance / chance.sum() * users) > 0
    for user in np.flatnonzero(~acts.any(axis=(1, 2))):  # the paper's users are those with a link
        place, activity = rng.integers(places), rng.integers(activities)
        visits[user, place] = acts[user, place, activity] = True
    features = rng.poisson(2 * kind / kind.mean() @ rng.gamma(1.0, 1.0, (groups, 5))).astype(float)
    return _tables(acts, visits, features / features.max(axis=0), STAND_IN)
