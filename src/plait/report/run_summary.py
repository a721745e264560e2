"""A run as a document, and as data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plait.rendering.document import Code, Document, Facts, Table
from plait.rendering.formatting import significant, write_bytes, write_shape
from plait.result import Fit


def description(fit: "Fit", header: dict[str, Any]) -> dict[str, Any]:
    """A run as data: everything but its arrays."""
    return {
        "model": str(fit.model),
        "method": fit.method,
        "rank": fit.rank,
        "seed": fit.seed,
        "axes": {axis: len(fit.entities[axis]) for axis in fit.model.axes},
        **({"titles": {axis: len(fit.titles[axis]) for axis in _titled(fit)}} if fit.titles else {}),
        "relations": {
            name: {"likelihood": str(fit.likelihood[name]), "shape": known.shape, "links": len(known)}
            for name, known in fit.known.items()
        },
        "objective": fit.objective,
        "sweeps": max(fit.history[-1].sweep, 0),
        "seconds": sum(record.seconds for record in fit.history),
        "finished": header["stop"] is not None,
        "stop": fit.stop.to_words(),
        "members": [_member(member) for member in fit.members],
        "settings": fit.settings,
        "fingerprint": fit.fingerprint,
        "plait": header["plait"],
        "history": [record._asdict() for record in fit.history],
    }


def rank_words(rank: Mapping[str, int], settings: Mapping[str, Any]) -> str:
    """The size of every latent index, and how it was found where it was not given."""
    found = settings.get("rank_by")
    way = f" (by {found['way']})" if found else ""
    return (", ".join(f"{index} = {size}" for index, size in rank.items()) or "none") + way


def weight_words(settings: Mapping[str, Any]) -> dict[str, str]:
    """A line on the weights that were found and how; none where all were given."""
    if "weights" not in settings:
        return {}
    found = ", ".join(f"{name} {weight:g}" for name, weight in settings["weights"].items())
    return {"weights": f"{found} (by {settings['weights_by']['way']})"}


def describe_run(fit: "Fit", header: dict[str, Any], run: Path) -> Document:
    """A run for people: the model, how the fit ended, its relations and factors."""
    about = Facts.of(
        {
            "method": f"{fit.method}, rank {rank_words(fit.rank, fit.settings)}, seed {fit.seed}",
            "axes": ", ".join(f"{axis} {len(fit.entities[axis]):,}" for axis in fit.model.axes),
            **_titles(fit),
            **weight_words(fit.settings),
            **members(fit),
            "objective": reached(fit),
            "ended": ending(fit, header),
            "saved": f"{run}, {write_bytes(_size(header))}, by plait {header['plait']}",
        }
    )
    headings = ["prior concentration", "prior mean"] if fit.prior else []  # EM has none
    factors = [
        [name, ", ".join(factor.indices), *(_prior(fit, name) if fit.prior else [])]
        for name, factor in fit.factors.items()
    ]
    blocks = (
        Code(str(fit.model)),
        about,
        relations_table(fit),
        Table(["factor", "indices", *headings], factors, left=2),
    )
    return Document("", blocks, description(fit, header))


def _titled(fit: "Fit") -> list[str]:
    return [axis for axis in fit.model.axes if axis in fit.titles]


def _titles(fit: "Fit") -> dict[str, str]:
    """A line on the titles of entities; none where there are none."""
    found = [f"{axis} {len(fit.titles[axis]):,} of {len(fit.entities[axis]):,}" for axis in _titled(fit)]
    return {"titles": ", ".join(found)} if found else {}


def relations_table(fit: "Fit") -> Table:
    """A line for each relation."""
    rows = [
        [
            name,
            fit.likelihood[name].describe(fit.likelihood_params[name]),
            write_shape(known.shape),
            len(known),
            known.total(),
        ]
        for name, known in fit.known.items()
    ]
    return Table(["relation", "likelihood", "size", "links", "sum of values"], rows, left=3)


def reached(fit: "Fit") -> str:
    """The bound, and what it took: the seconds are those of the sweeps."""
    last, seconds = fit.history[-1], sum(record.seconds for record in fit.history)
    place = "in the warm-up" if last.warm_up else f"after {last.sweep} sweep{'' if last.sweep == 1 else 's'}"
    return f"{significant(fit.objective)} {place}, {seconds:.1f} s"


def members(fit: "Fit") -> dict[str, str]:
    """A line on the members of an ensemble; none for a single fit."""
    if len(fit.members) == 1:
        return {}
    bounds = ", ".join(significant(member.objective) for member in fit.members)
    return {"members": f"{len(fit.members)}, with bounds {bounds}; what follows is the best one"}


def _member(fit: "Fit") -> dict[str, Any]:
    return {
        "seed": fit.seed,
        "objective": fit.objective,
        "sweeps": max(fit.history[-1].sweep, 0),
        "stop": fit.stop.to_words(),
    }


def _prior(fit: "Fit", name: str) -> list[str]:
    """Concentration and mean of a factor's prior: one number each, or the range; a given factor has none."""
    if name not in fit.prior:
        return ["—", "—"]
    prior = fit.prior[name]
    words = []
    for array in (np.asarray(prior.concentration), np.asarray(prior.mean)):
        least, most = float(array.min()), float(array.max())
        words.append(f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}")
    return words


def ending(fit: "Fit", header: dict[str, Any]) -> str:
    """Why a run ended, or that it has not."""
    if header["stop"] is None:
        return "not yet: this is its last checkpoint. Go on with `plait resume`."
    return fit.stop.sentence


def _size(header: dict[str, Any]) -> int:
    return sum(entry["bytes"] for entry in header["files"].values())
