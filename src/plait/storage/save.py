"""Saving of runs: factors and priors in safetensors, labels and known links in Parquet, the rest in the manifest."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.known import Known
from plait.data.encoding.names import Labels
from plait.data.observation.links import LinksInMemory
from plait.data.observation.pairs import Pairs
from plait.data.titles import Titles
from plait.errors import FileLocation, ParameterError, StorageError
from plait.forked import refuse_in_fork
from plait.inference.state import FactorSnapshot, State, Stop
from plait.likelihood import Likelihood
from plait.storage.fitted import Member, Origin
from plait.storage.load import courses
from plait.storage.run_folder import File, holds_run, locked, manifest, publish
from plait.storage.stored_weights import (
    observed_arrays,
    outline,
    rule_arrays,
    sparse_arrays,
    sparse_outline,
    weight_arrays,
    words,
)


def save(
    path: str | PathLike[str],
    origin: Origin,
    members: Sequence[Member],
    stop: Stop | None,
    *,
    replace: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> None:
    """Replace a folder or an archive by this run; `stop`: why it ended, None if it has not.

    `replace`: whether the run of another fit may be replaced. An earlier state of the same fit always is, and its
    `extra` stays unless given.
    """
    import json

    refuse_in_fork("saving a run")
    try:
        json.dumps(extra, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"`extra` cannot be written as JSON: {error}.",
            hint="Use numbers, strings, lists and dicts.",
        ) from None
    with locked(path):
        if not replace and holds_run(path):
            earlier = manifest(path)
            if not _goes_on(earlier, origin, members):
                kind = "file" if Path(path).is_file() else "folder"
                raise StorageError(
                    f"this {kind} already contains a run of another fit.",
                    location=FileLocation(fspath(path)),
                    hint=f"Choose another {kind}, or set `replace=True`.",
                )
            extra = earlier["extra"] if extra is None else extra
        publish(path, _header(origin, members, stop, extra), _files(origin, members))


def _goes_on(earlier: Mapping[str, Any], origin: Origin, members: Sequence[Member]) -> bool:
    """Whether these members continue those of an earlier save. Histories contain seconds, so two fits
    never have the same.
    """
    if earlier.get("fingerprint") != origin.fingerprint:
        return False
    now = {member.seed: _course(member)["history"] for member in members}
    then = [(course["seed"], course["history"]) for course in courses(earlier).values()]
    return all(now.get(seed, [])[: len(past)] == past for seed, past in then)


def _header(
    origin: Origin, members: Sequence[Member], stop: Stop | None, extra: Mapping[str, Any] | None
) -> dict[str, Any]:
    from plait.version import __version__

    return {
        "plait": __version__,
        "model": str(origin.model),
        "method": origin.method,
        "seed": origin.seed,
        "stop": stop and stop.to_words(),
        "likelihood": {name: _words(likelihood) for name, likelihood in origin.likelihood.items()},
        "relations": {name: _remembered(known) for name, known in origin.known.items()},
        "calibration": {name: own.to_dict() for name, own in origin.calibration.items()},
        "settings": origin.settings,
        "fingerprint": origin.fingerprint,
        "exposures": {
            "names": sorted(origin.exposures.names),
            "relations": {name: outline(weights) for name, weights in origin.exposures.terms.items()},
            "summed": {name: sparse_outline(sparse) for name, sparse in origin.exposures.summed.items()},
        },
        "members": [_course(member) for member in members],
        "extra": dict(extra or {}),
    }


def _words(likelihood: Likelihood) -> str | dict[str, Any]:
    """A likelihood as JSON: its name, with its settings if any."""
    return likelihood.to_words() if likelihood.settings() else likelihood.name


def _course(member: Member) -> dict[str, Any]:
    """History of a member, whose state is in a file."""
    state = member.state
    return {
        "seed": member.seed,
        "stop": member.stop and member.stop.to_words(),
        **({"component_names": _named(member.names)} if member.names else {}),
        "history": [[r.sweep, r.objective, _finite(r.change), r.seconds, r.rank] for r in state.history],
        "loop": {
            "rates": list(state.rates),
            "divergences": dict(state.divergences),
            "pause": state.pause,
            "n_accepted": state.momentum.n_accepted,
            "extrapolated": state.momentum.extrapolated,
            "likelihood_params": dict(state.likelihood_params),
            "log_scales": None if state.log_scales is None else dict(state.log_scales),
        },
    }


def _named(names: Mapping[str, Mapping[int, str]]) -> dict[str, dict[str, str]]:
    """Names of components by latent index and number; keys of JSON are text."""
    return {index: {str(number): name for number, name in own.items()} for index, own in names.items()}


def _remembered(known: Known) -> dict[str, Any]:
    """Column names and library of the table, and index sets of structural zeros, which are in a file."""
    return {
        **known.links.outline(),
        "columns": dict(known.columns),
        "value": known.value,
        "kind": known.kind,
        "closed": [list(over) for over in known.structural_zeros.tables],
        "observed": words(known),
    }


def _finite(change: float) -> float | None:
    """JSON has no infinity; the start has no change."""
    return change if math.isfinite(change) else None


def _files(origin: Origin, members: Sequence[Member]) -> list[File]:
    """States change with every save; labels, known links and exposures with the data only."""
    key = origin.fingerprint
    files = [
        File(f"state-{n}", ".safetensors", None, partial(_write_arrays, _state_arrays(member.state)))
        for n, member in enumerate(members)
    ]
    if origin.exposures.terms or origin.exposures.summed:
        arrays = {k: a for name, V in origin.exposures.terms.items() for k, a in weight_arrays(name, V).items()}
        for name, sparse in origin.exposures.summed.items():
            arrays |= sparse_arrays(name, sparse)
        files.append(File("exposures", ".safetensors", key, partial(_write_arrays, arrays)))
    if arrays := _calibration_arrays(origin):
        files.append(File("calibration", ".safetensors", None, partial(_write_arrays, arrays)))
    if arrays := observed_arrays(origin.known):
        files.append(File("observed", ".safetensors", key, partial(_write_arrays, arrays)))
    if arrays := rule_arrays(origin.known):
        files.append(File("rules", ".safetensors", None, partial(_write_arrays, arrays)))
    if any(known.structural_zeros for known in origin.known.values()):
        # Structural zeros are not part of the fingerprint: the same weights may come from other rules.
        files.append(File("closed", ".safetensors", None, partial(_write_arrays, _zero_arrays(origin.known))))
    for n, axis in enumerate(origin.model.axes):
        files.append(File(f"labels-{n}-{axis}", ".parquet", key, partial(_write_labels, origin.entities[axis])))
        if axis in origin.titles:
            titles = origin.titles[axis]
            files.append(File(f"titles-{n}-{axis}", ".parquet", titles.mark, partial(_write_titles, titles)))
    for n, equation in enumerate(origin.model.equations):
        if (links := origin.known[equation.relation].links.here) is not None:
            files.append(File(f"known-{n}-{equation.relation}", ".parquet", key, partial(_write_links, links)))
    return files


def _state_arrays(state: State) -> dict[str, NDArray[Any]]:
    """Arrays by factor and kind with the inside shape, without padding."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, kept in state.factors.items():
        for kind in FactorSnapshot._fields[1:]:
            if (stored := getattr(kept, kind)) is not None:
                arrays[f"{name}/{kind}"] = kept.layout.unpack(stored)
    for name, kept in state.factors.items():
        if kept.layout.pairs is not None:
            arrays[f"{name}/pairs"] = cast(Pairs, kept.layout.pairs).coords
    for name, prior in state.priors.items():
        arrays |= {f"{name}/prior/concentration": prior.concentration, f"{name}/prior/mean": prior.mean}
        if prior.chain:
            arrays[f"{name}/prior/chain"] = np.array([prior.chain.concentration, prior.chain.adapts], np.float64)
    for name, before in state.momentum.before.items():
        layout = state.factors[name].layout
        arrays |= {f"{name}/before/{n}": layout.unpack(stored) for n, stored in enumerate(before)}
    return arrays | {f"{name}/exposed": rows for name, rows in state.exposed.items()}


def _calibration_arrays(origin: Origin) -> dict[str, NDArray[Any]]:
    """Row numbers and values of features of calibrations, by relation and number of the feature."""
    return {
        f"{name}/{n}/{kind}": array
        for name, own in origin.calibration.items()
        for n, feature in enumerate(own.features)
        for kind, array in (("cells", feature.cells), ("values", feature.values))
        if array is not None
    }


def _zero_arrays(known: Mapping[str, Known]) -> dict[str, NDArray[Any]]:
    """Coordinates by relation and number of the table."""
    return {f"{name}/{n}": t for name, own in known.items() for n, t in enumerate(own.structural_zeros.tables.values())}


def _write_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)


def _write_labels(labels: Labels, path: Path) -> None:
    labels.names.alias(labels.axis).to_frame().write_parquet(path)


def _write_titles(titles: Titles, path: Path) -> None:
    """One title per row of the axis, null without one."""
    titles.column.alias("title").to_frame().write_parquet(path)


def _write_links(links: LinksInMemory, path: Path) -> None:
    """Row numbers by index, value and weight, in lexicographic order."""
    import polars as pl

    columns = {index: links.fibres.column(index) for index in links.indices}
    pl.DataFrame({**columns, "value": links.values, "weight": links.weights}).write_parquet(path)
