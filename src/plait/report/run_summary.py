"""Run summary as a document and as data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plait.inference.gamma import GammaChain
from plait.rendering.document import Code, Document, Facts, Table
from plait.rendering.formatting import evidence_words, likelihood_words, significant, write_bytes, write_shape
from plait.result import Fit


def description(fit: "Fit", header: dict[str, Any]) -> dict[str, Any]:
    """A run as data, without its arrays."""
    return {
        "model": str(fit.model),
        "method": fit.method,
        "rank": fit.rank,
        "seed": fit.seed,
        "axes": {axis: len(fit.entities[axis]) for axis in fit.model.axes},
        **({"titles": {axis: len(fit.titles[axis]) for axis in _titled_axes(fit)}} if fit.titles else {}),
        "relations": {
            name: {"likelihood": str(fit.likelihood[name]), "shape": known.shape, "links": len(known)}
            for name, known in fit.known.items()
        },
        **({"calibration": {name: own.to_dict() for name, own in fit.calibration.items()}} if fit.calibration else {}),
        "objective": fit.objective,
        "sweeps": max(fit.history[-1].sweep, 0),
        "seconds": _seconds(fit),
        "finished": header["stop"] is not None,
        "stop": fit.stop.to_words(),
        "members": [_member(member) for member in fit.members],
        "settings": fit.settings,
        "fingerprint": fit.fingerprint,
        "plait": header["plait"],
        "history": [record._asdict() for record in fit.history],
    }


def rank_words(rank: Mapping[str, int], settings: Mapping[str, Any]) -> str:
    """Size of every latent index, and how it was found."""
    search = settings.get("rank_by")
    way = f" (by {search['way']})" if search else ""
    return (", ".join(f"{index} = {size}" for index, size in rank.items()) or "none") + way


def found_words(settings: Mapping[str, Any], likelihoods: Mapping[str, Any]) -> dict[str, str]:
    """Lines on likelihoods and weights that were chosen and on evidence terms, where there are any."""
    lines = {}
    if words := likelihood_words(likelihoods, settings.get("likelihood_by", {})):
        lines["likelihood"] = words
    if "weights" in settings:
        weight_words = ", ".join(f"{name} {weight:g}" for name, weight in settings["weights"].items())
        lines["weights"] = f"{weight_words} (by {settings['weights_by']['way']})"
    if words := evidence_words(settings):
        lines["evidence"] = words
    return lines


def describe_run(fit: "Fit", header: dict[str, Any], run: Path) -> Document:
    """A run as a document: the model, how the fit ended, its relations and factors."""
    about = Facts.of(
        {
            "method": f"{fit.method}, rank {rank_words(fit.rank, fit.settings)}, seed {fit.seed}",
            "axes": ", ".join(f"{axis} {len(fit.entities[axis]):,}" for axis in fit.model.axes),
            **_titles(fit),
            **found_words(fit.settings, fit.likelihood),
            **members(fit),
            **calibrations(fit),
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


def _titled_axes(fit: "Fit") -> list[str]:
    return [axis for axis in fit.model.axes if axis in fit.titles]


def _titles(fit: "Fit") -> dict[str, str]:
    """A line on the titles of entities; empty without any."""
    counts = [f"{axis} {len(fit.titles[axis]):,} of {len(fit.entities[axis]):,}" for axis in _titled_axes(fit)]
    return {"titles": ", ".join(counts)} if counts else {}


def relations_table(fit: "Fit") -> Table:
    """One row per relation."""
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
    """The objective, and what it took: the seconds of the sweeps and of the search for ranks and weights."""
    last, searched = fit.history[-1], fit.settings.get("search_seconds")
    place = "in the warm-up" if last.warm_up else f"after {last.sweep} sweep{'' if last.sweep == 1 else 's'}"
    words = "" if not searched or searched < 0.05 else f", {searched:.1f} s of them to choose settings"
    return f"{significant(fit.objective)} {place}, {_seconds(fit):.1f} s{words}"


def _seconds(fit: "Fit") -> float:
    """The time of the sweeps, and of the search for ranks and weights before them."""
    return sum(record.seconds for record in fit.history) + float(fit.settings.get("search_seconds", 0.0))


def members(fit: "Fit") -> dict[str, str]:
    """A line on the members of an ensemble; empty for a single fit."""
    if len(fit.members) == 1:
        return {}
    bounds = ", ".join(significant(member.objective) for member in fit.members)
    shown = "first" if fit.settings.get("bootstrap") else "best"
    return {"members": f"{len(fit.members)}, with objectives {bounds}; below is the {shown} one"}


def calibrations(fit: "Fit") -> dict[str, str]:
    """A line on each relation whose probabilities are calibrated."""
    return {f"calibration of {name}": str(own) for name, own in fit.calibration.items()}


def _member(fit: "Fit") -> dict[str, Any]:
    return {
        "seed": fit.seed,
        "objective": fit.objective,
        "sweeps": max(fit.history[-1].sweep, 0),
        "stop": fit.stop.to_words(),
    }


def _prior(fit: "Fit", name: str) -> list[str]:
    """Concentration and mean of a factor's prior: one number each, or the range; empty for a given factor."""
    if name not in fit.prior:
        return ["—", "—"]
    prior, words = fit.prior[name], []
    if isinstance(prior, GammaChain):
        assert prior.start is not None
        first = [float(np.asarray(array).mean()) for array in (prior.start.concentration, prior.start.mean)]
        return [f"chain of {prior.concentration:.3g}, first {first[0]:.3g}", f"first {first[1]:.3g}"]
    for array in (np.asarray(prior.concentration), np.asarray(prior.mean)):
        least, most = float(array.min()), float(array.max())
        words.append(f"{least:.3g}" if least == most else f"{least:.3g} to {most:.3g}")
    return words


def ending(fit: "Fit", header: dict[str, Any]) -> str:
    """Why a run ended, or that it has not."""
    if header["stop"] is None:
        return "not finished: this is the last checkpoint. Continue with `plait resume`."
    return fit.stop.sentence


def _size(header: dict[str, Any]) -> int:
    return sum(entry["bytes"] for entry in header["files"].values())
