"""Loading of runs."""

import math
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.codegen.layout import Layout
from plait.data.binding.given import Exposures, relation_of
from plait.data.binding.known import Known
from plait.data.encoding.columns import label_series
from plait.data.encoding.names import Labels
from plait.data.observation.links import Links, LinksInMemory
from plait.data.observation.pairs import Pairs
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.observation.symmetry import canonical, groups_of
from plait.data.observation.weights import Weights
from plait.data.outofcore.block_table import LinksOnDisk
from plait.data.outofcore.packed import Packed
from plait.data.sparse.csf import narrow
from plait.data.sparse.keys import coordinate_type
from plait.data.titles import Titles
from plait.errors import FileLocation, ParameterError, StorageError
from plait.forked import refuse_in_fork
from plait.inference.gamma import Chain, Prior
from plait.inference.state import FactorSnapshot, MomentumState, Record, State, Stop
from plait.likelihood import OWN, Likelihood, as_likelihood
from plait.model import Model
from plait.model.model import Equation
from plait.storage.array_checks import (
    MIN_POSITIVE,
    check_columns,
    check_factor,
    check_flags,
    check_indices,
    check_keys,
    check_known,
    check_numbers,
    check_rows,
    check_shape,
)
from plait.storage.calibration import Calibration
from plait.storage.fitted import Member, Origin
from plait.storage.run_folder import MANIFEST, Content, intact, manifest
from plait.storage.stored_weights import restored, rule_of, sparse_factor, weight_terms

Arrays = Mapping[str, NDArray[Any]]
MAX_READS = 100  # of a run that is being saved meanwhile


def read_run(path: str | PathLike[str]) -> tuple[Origin, list[Member], Stop | None]:
    """Origin of the fit, its members, and why it stopped (None: it has not)."""
    refuse_in_fork("plait.load")
    for _ in range(MAX_READS):
        header = manifest(path)
        try:
            with Content(b"", Path(path) / MANIFEST).naming():
                return _read(Path(path), header)
        except StorageError:
            if manifest(path)["files"] == header["files"]:
                raise
    raise StorageError(
        f"another process saved the run {MAX_READS} times during reading.",
        location=FileLocation(Path(path)),
        hint="Copy the folder while it does not change, and load the copy.",
    )


def _read(place: Path, header: Mapping[str, Any]) -> tuple[Origin, list[Member], Stop | None]:
    model = Model(header["model"])
    _check_names(model, header)
    axes = {axis: _labels(axis, intact(place, header, f"labels-{n}-{axis}")) for n, axis in enumerate(model.axes)}
    labels = {**axes, **{index: axes[model.axis(index)] for index in model.visible}}
    known = {}
    for n, equation in enumerate(model.equations):
        shape = tuple(len(labels[i]) for i in equation.indices)
        file = f"known-{n}-{equation.relation}"
        outline = header.get("relations", {}).get(equation.relation, {})
        if blocks := outline.get("blocks"):
            weight = (outline.get("observed") or {}).get("weight")
            links = _on_disk(Path(blocks), outline.get("blocks_sha256"), place, equation, shape, weight)
            if file in header["files"]:
                links = links.plus(_links(intact(place, header, file), equation, shape).read())
        else:
            links = _links(intact(place, header, file), equation, shape)
        own = Known(shape, links, groups=groups_of(equation))
        known[equation.relation] = _with_rules(own, equation, place, header)
    exposures = _exposures(place, header, {name: (model.equation(name).indices, k.shape) for name, k in known.items()})
    likelihood = {name: _likelihood(words, place) for name, words in header["likelihood"].items()}
    calibration = _calibrations(place, header, {name: own.shape for name, own in known.items()})
    origin = Origin(
        model, header["method"], header["seed"], labels, likelihood, exposures, known, header["settings"],
        header["fingerprint"], _titles(model, labels, place, header), calibration,
    )  # fmt: skip
    members = []
    for name, course in courses(header).items():
        sizes = {index: len(labels[index]) for index in model.visible}
        arrays = _arrays(place, header, name)
        with _naming(place, header, name):
            state = _state(model, likelihood, arrays, course, sizes)
            _check_state(model, likelihood, state, exposures.names)
            names = _component_names(course, state)
        members.append(Member(course["seed"], state, stop_of(course), names))
    return origin, members, stop_of(header)


def _naming(place: Path, header: Mapping[str, Any], name: str) -> AbstractContextManager[None]:
    """Context in which errors name a file of the run, or the manifest."""
    entry = header["files"].get(name, {"file": MANIFEST})
    return Content(b"", place / entry["file"]).naming()


def _check_names(model: Model, header: Mapping[str, Any]) -> None:
    """Refuse a manifest with other relations or factors than the model's."""
    for word in ("likelihood", "relations"):
        if set(header.get(word, model.relations)) != set(model.relations):
            raise ValueError(f"{word} is of {sorted(header[word])!r:.200}, but the model has {list(model.relations)}")
    check_keys("exposures", header["exposures"]["names"], model.factors)
    check_keys("calibration", header.get("calibration", {}), model.relations)
    check_keys("settings.adapt_prior", header["settings"]["adapt_prior"], model.factors)
    check_keys("settings.rank", header["settings"]["rank"], model.latent)
    if not courses(header):
        raise ValueError("it has no members")


def stop_of(course: Mapping[str, Any]) -> Stop | None:
    """Why a run, or a member, ended; None if it has not."""
    return None if course["stop"] is None else Stop.from_words(course["stop"])


def _likelihood(words: Any, place: Path) -> Likelihood:
    try:
        return as_likelihood(words)
    except ParameterError as error:
        raise StorageError(error.message, location=FileLocation(place), hint=error.hint) from None


def courses(header: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Members of a run by the name of their file; earlier versions had one, in the header."""
    if "members" not in header:
        return {"state": header}
    return {f"state-{n}": course for n, course in enumerate(header["members"])}


def sweeps_done(header: Mapping[str, Any]) -> int:
    """Number of sweeps of all members."""
    courses_found, wanted = courses(header), header["settings"].get("restarts", 1)
    return (
        min(int(course["history"][-1][0]) for course in courses_found.values()) if len(courses_found) >= wanted else 0
    )


def _arrays(place: Path, header: Mapping[str, Any], name: str) -> dict[str, NDArray[Any]]:
    from safetensors.numpy import load, load_file

    file = intact(place, header, name)
    with file.naming():
        if isinstance(file.data, Path):
            return load_file(file.data)
        # Arrays of an archive are read-only views.
        return {name: array.copy() for name, array in load(file.data).items()}


def _labels(axis: str, file: Content) -> Labels:
    import polars as pl

    with file.naming():
        table = pl.read_parquet(file.data)
        check_columns(table, [axis])
        names = table[axis].alias("")
        if len(names) and label_series(names, axis).dtype != names.dtype:
            raise ValueError(f"names cannot be of type {names.dtype}")
        if names.n_unique() < len(names):
            raise ValueError("it contains a name twice")
        return Labels(axis, names)


def _titles(model: Model, labels: Mapping[str, Labels], place: Path, header: Mapping[str, Any]) -> dict[str, Titles]:
    """Titles by axis and index."""
    import polars as pl

    titles = {}
    for n, axis in enumerate(model.axes):
        if (name := f"titles-{n}-{axis}") in header["files"]:
            file = intact(place, header, name)
            with file.naming():
                column = pl.read_parquet(file.data)["title"]
                if column.dtype != pl.String or len(column) != len(labels[axis]):
                    raise ValueError(f"it has {len(column)} titles of type {column.dtype}, not {len(labels[axis])}")
            titles[axis] = Titles(labels[axis], column)
    return titles | {index: titles[model.axis(index)] for index in model.visible if model.axis(index) in titles}


def _links(file: Content, equation: Equation, shape: tuple[int, ...]) -> Links:
    with file.naming():
        return _read_links(file.data, equation, shape)


def _read_links(file: Path | bytes, equation: Equation, shape: tuple[int, ...]) -> Links:
    import polars as pl

    count = pl.scan_parquet(file).select(pl.len()).collect().item()
    if count > math.prod(shape):  # a small file may decompress to many rows
        raise ValueError(f"it has {count:,} links, but there are {math.prod(shape):,} cells")
    table, groups = pl.read_parquet(file), groups_of(equation)
    check_known(table, equation.indices, shape)
    cells = np.empty((len(table), len(shape)), coordinate_type(shape))
    for k, index in enumerate(equation.indices):
        cells[:, k] = table[index].to_numpy()
    check_rows("it", cells, shape)
    if groups and not np.array_equal(canonical(cells, groups), cells):
        raise ValueError("it has pairs in the wrong order")
    values, weights = narrow(table["value"].to_numpy()), table["weight"].to_numpy()
    if len(weights) and (weights == weights[0]).all():
        weights = np.broadcast_to(weights[0], len(weights))
    return LinksInMemory.of(equation.indices, shape, cells, values, weights)


def _on_disk(
    blocks: Path, wanted: str | None, place: Path, equation: Equation, shape: tuple[int, ...], weight: float | None
) -> Links:
    """Known links in the blocks of the fit, at their old path or next to the run.

    `wanted`: their fingerprint; `weight`: of the relation, which may differ from that of packing. Earlier versions have
    neither.
    """
    there = [path for path in (blocks, place.parent / blocks.name) if path.is_dir()]
    if not there:
        raise StorageError(
            f"the blocks of this run are missing: {blocks}.",
            location=FileLocation(place),
            hint=f"Restore the folder {blocks.name}, or put it next to the run.",
        )
    opened = [Packed.open(path).relations.get(equation.relation) for path in there]
    opened_data = next((one for one in opened if one and wanted in (None, one.fingerprint)), None)
    if opened_data is None:
        other = opened[0].fingerprint if opened[0] else f"that of no {equation.relation}"
        raise StorageError(
            f"the blocks in {there[0]} are not the blocks of this run: their fingerprint is {other}, "
            f"expected {wanted}.",
            location=FileLocation(place),
            hint=f"Restore the original folder {blocks.name}, or put it next to the run; or fit again.",
        )
    return LinksOnDisk.of(opened_data.sized(shape), groups_of(equation), None if weight is None else float(weight))


def _with_rules(known: Known, equation: Equation, place: Path, header: Mapping[str, Any]) -> Known:
    """Known links with structural zeros and column names; earlier versions have none."""
    outline = header.get("relations", {}).get(equation.relation)
    if outline is None:
        return known
    overs = [tuple(over) for over in outline["closed"]]
    arrays = _arrays(place, header, "closed") if overs else {}
    sizes = dict(zip(equation.indices, known.shape))
    with _naming(place, header, "closed"):
        tables = {over: arrays[f"{equation.relation}/{n}"] for n, over in enumerate(overs)}
        for over, coords in tables.items():
            check_indices("a table", over, equation.indices)
            check_rows("a table", coords, [sizes[index] for index in over])
    structural_zeros = StructuralZeros(equation.indices, known.shape, tables)
    kind = outline.get("kind", "polars")  # missing in earlier versions
    known = replace(
        known, structural_zeros=structural_zeros, columns=outline["columns"], value=outline["value"], kind=kind
    )
    if (said := outline.get("observed")) is None:  # missing in earlier versions
        return known
    observed, rules = (
        _arrays(place, header, name) if name in header["files"] else {} for name in ("observed", "rules")
    )
    with _naming(place, header, "rules"):
        rule = rule_of(equation.relation, sizes, said, rules)
    with _naming(place, header, "observed"):
        return restored(known, equation.relation, equation.indices, rule, said, observed)


def _calibrations(
    place: Path, header: Mapping[str, Any], sizes: Mapping[str, tuple[int, ...]]
) -> dict[str, Calibration]:
    """Calibrations by relation; earlier versions have none, or none with features."""
    arrays = _arrays(place, header, "calibration") if "calibration" in header["files"] else {}
    calibrations = {}
    with _naming(place, header, "calibration"):
        for name, own in header.get("calibration", {}).items():
            tables = {}
            for n, feature in enumerate(own.get("features", ())):
                if not set(feature["places"]) <= set(range(len(sizes[name]))):
                    raise ValueError(f"feature {n} of {name} is over places {feature['places']!r:.200}")
                if f"{name}/{n}/cells" in arrays:
                    cells, values = arrays[f"{name}/{n}/cells"], arrays[f"{name}/{n}/values"]
                    check_rows("a feature", cells, [sizes[name][place] for place in feature["places"]])
                    check_numbers("a feature", values, (len(cells),), 0.0)
                    tables[n] = cells, values
            calibrations[name] = Calibration.of_dict(own, tables)
    return calibrations


def _exposures(
    place: Path, header: Mapping[str, Any], relations: Mapping[str, tuple[tuple[str, ...], tuple[int, ...]]]
) -> Exposures:
    outline = header["exposures"]
    summed = outline.get("summed", {})  # earlier versions have none
    if not outline["relations"] and not summed:
        return Exposures(frozenset(outline["names"]), {})
    arrays = _arrays(place, header, "exposures")
    with _naming(place, header, "exposures"):
        exposures = {
            key: Weights(*relations[relation_of(key)], weight_terms(key, terms, arrays, *relations[relation_of(key)]))
            for key, terms in outline["relations"].items()
        }
        sparse = {key: sparse_factor(key, words, arrays, *relations[relation_of(key)]) for key, words in summed.items()}
    return Exposures(frozenset(outline["names"]), exposures, sparse)


def _state(
    model: Model,
    likelihoods: Mapping[str, Likelihood],
    arrays: Arrays,
    course: Mapping[str, Any],
    extents: Mapping[str, int],
) -> State:
    factors, priors, exposed, unscaled = {}, {}, {}, model.unscaled(likelihoods)
    for name in model.factors:
        parts = {kind: arrays[f"{name}/{kind}"] for kind in FactorSnapshot._fields[1:] if f"{name}/{kind}" in arrays}
        if parts:
            factor, sizes = model.factor(name), next(iter(parts.values())).shape
            check_factor(name, parts, sizes)
            layout = Layout(name, factor.indices, factor.visible, factor.latent, sizes, name not in unscaled)
            if f"{name}/pairs" in arrays:
                own = tuple(extents[index] for index in factor.visible)
                check_rows(f"{name}/pairs", arrays[f"{name}/pairs"], own)
                pairs = Pairs(factor.indices, factor.visible, own, arrays[f"{name}/pairs"])
                layout = Layout.of_pairs(name, pairs, factor.latent, sizes[1:], layout.scaled)
            rank = course["history"][-1][4]
            wanted = [extents[index] for index in factor.visible] if layout.pairs is None else [layout.sizes[0]]
            check_shape(name, next(iter(parts.values())), [*wanted, *(rank[index] for index in factor.latent)])
            # Padding of log L is −inf, of everything else 0.
            packed = {kind: _packed(layout, kind, inside) for kind, inside in parts.items()}
            factors[name] = FactorSnapshot(layout, **packed)
        if f"{name}/prior/mean" in arrays:
            chain = _read_chain(model, name, arrays[f"{name}/prior/chain"]) if f"{name}/prior/chain" in arrays else None
            priors[name] = Prior(arrays[f"{name}/prior/concentration"], arrays[f"{name}/prior/mean"], chain)
        if f"{name}/exposed" in arrays:
            exposed[name] = arrays[f"{name}/exposed"]
    loop = course["loop"]
    history = [Record(s, b, math.inf if c is None else c, t, dict(r)) for s, b, c, t, r in course["history"]]
    momentum = _momentum(factors, arrays, loop)
    # Earlier versions have likelihoods without parameters.
    learnt = {
        name: {key: float(n) for key, n in own.items()} for name, own in loop.get("likelihood_params", {}).items()
    }
    return State(
        factors, priors, loop["rates"], loop["divergences"], exposed, history, loop["pause"], momentum, learnt,
        loop.get("log_scales"),
    )  # fmt: skip


def _component_names(course: Mapping[str, Any], state: State) -> dict[str, dict[int, str]]:
    """Given names of components by latent index and number; most runs have none."""
    given, rank = course.get("component_names", {}), state.history[-1].rank
    check_keys("component_names", given, list(rank))
    names = {index: {int(number): name for number, name in own.items()} for index, own in given.items()}
    for index, own in names.items():
        if not all(0 <= number < rank[index] for number in own):
            raise ValueError(f"component_names has numbers of {index} beyond its {rank[index]} components")
    return names


def _check_state(model: Model, likelihoods: Mapping[str, Likelihood], state: State, exposures: Collection[str]) -> None:
    """Refuse a state that does not match the model."""
    missing = [name for name in model.factors if name not in state.factors and name not in exposures]
    if missing:
        raise ValueError(f"the factor {missing[0]} is missing")
    for name, prior in state.priors.items():
        inside = state.factors[name].layout.sizes
        for array in (prior.concentration, prior.mean):
            shape = tuple(1 if own == 1 else size for own, size in zip(array.shape, inside))
            check_numbers(f"the prior of {name}", array, shape if array.ndim == len(inside) else inside, MIN_POSITIVE)
    for name, flags in state.exposed.items():
        check_flags(f"{name}/exposed", flags, (state.factors[name].layout.rows,))
    check_keys("divergences", state.divergences, list(state.factors))
    check_keys("log_scales", state.log_scales or {}, list(state.factors))
    check_keys("likelihood_params", state.likelihood_params, model.relations)
    for name, likelihood in likelihoods.items():
        learnt = state.likelihood_params.get(name, {})
        impossible = likelihood.name in OWN and any(number < 0 for number in learnt.values())
        if impossible or not all(0 < moment < math.inf for moment in likelihood.bursts(learnt)):
            raise ValueError(f"{name} has unexpected likelihood parameters: {learnt}")


def _read_chain(model: Model, name: str, stored: NDArray[np.float64]) -> Chain:
    """Chain of a prior; its axis is the ordered one of the factor."""
    places = model._ordered_places(name)
    check_numbers(f"{name}/prior/chain", stored, (2,))
    if len(places) != 1 or not stored[0] > 1 or stored[1] not in (0, 1):
        raise ValueError(f"{name} has an unexpected chain: {stored.tolist()}")
    return Chain(places[0], float(stored[0]), bool(stored[1]))


def _momentum(factors: Mapping[str, FactorSnapshot], arrays: Arrays, loop: Mapping[str, Any]) -> MomentumState:
    """Momentum of an accelerated loop; earlier versions have none."""
    if "n_accepted" not in loop:
        return MomentumState()
    before = {}
    for name, kept in factors.items():
        momentum = [arrays[key] for n in range(2) if (key := f"{name}/before/{n}") in arrays]
        if momentum:
            for inside in momentum:
                check_numbers(f"{name}/before", inside, kept.layout.sizes)
            before[name] = [kept.layout.pack(inside) for inside in momentum]
    return MomentumState(loop["n_accepted"], loop["extrapolated"], before)


def _packed(layout: Layout, kind: str, inside: NDArray[np.float64]) -> NDArray[np.float64]:
    if kind != "log_geomean":
        return layout.pack(inside)
    stored = np.full((layout.rows, layout.columns), -np.inf, inside.dtype)
    layout.unpack(stored)[...] = inside
    return stored
