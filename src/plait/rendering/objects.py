"""Documents of Plait's objects, for notebooks, from their public attributes only."""

from collections.abc import Sequence
from typing import Any

from plait.rendering.document import Block, Code, Document, Facts, Picture, Table
from plait.rendering.formatting import evidence_words, likelihood_words, objective_word, write, write_shape, write_sizes
from plait.rendering.model_chart import fits, picture


def describe_fit(fit: Any, pictures: Sequence[Picture] = ()) -> Document:
    """A `plait.Fit`: the model, how the fit went, its factors, and pictures of it."""
    seconds = sum(record.seconds for record in fit.history)
    shown = "the first one, which has unweighted links" if fit.settings.get("bootstrap") else "the best one"
    reasons = fit.settings.get("likelihood_by", {})
    about = {
        "method": fit.method,
        **({"members": f"{len(fit.members)}; below is {shown}"} if len(fit.members) > 1 else {}),
        "rank": write_sizes(fit.rank),
        "entities": write_sizes({axis: len(fit.entities[axis]) for axis in fit.model.axes}),
        "known links": write_sizes({name: len(known) for name, known in fit.known.items()}),
        objective_word(fit.method): fit.objective,
        "sweeps": f"{max(fit.history[-1].sweep, 0):,} in {seconds:,.2f} s",
        **({"likelihood": words} if (words := likelihood_words(fit.likelihood, reasons)) else {}),
        **({"evidence": words} if (words := evidence_words(fit.settings)) else {}),
        "stopped": str(fit.stop),
        **{f"calibration of {name}": str(own) for name, own in fit.calibration.items()},
        "seed": str(fit.seed),
    }
    rows = [
        (name, ", ".join(posterior.indices), write_shape(posterior.mean.shape), float(posterior.mean.mean()))
        for name, posterior in fit.factors.items()
    ]
    factors = Table(("factor", "indices", "shape", "mean"), rows, "Factors", left=3)
    return Document("Fit", (Code(str(fit.model)), Facts.of(about), factors, *pictures))


def describe_model(model: Any) -> Document:
    """A `plait.Model`: its equations, a picture of it, and which relations every factor is in."""
    rows = [
        (
            name,
            ", ".join(model.factor(name).indices) or "none",
            ", ".join(r for r, n in zip(model.relations, uses) if n),
        )
        for name, uses in zip(model.factors, model.R.T)
    ]
    about = {
        "axes": "; ".join(_shared(model, axis) for axis in model.axes) or "none",
        "latent indices": ", ".join(model.latent) or "none",
    }
    factors = Table(("factor", "indices", "in relations"), rows, "Factors", left=3)
    return Document("Model", (Code(str(model)), *([picture(model)] if fits(model) else []), Facts.of(about), factors))


def _shared(model: Any, axis: str) -> str:
    """An axis, with the other indices that have the same entities."""
    others = [index for index in model.visible if model.axis(index) == axis and index != axis]
    return f"{axis} (also {', '.join(others)})" if others else axis


def describe_relation(relation: Any) -> Document:
    """A `plait.Relation`: its data and settings."""
    return Document("Relation", (Facts(relation.facts),))


def describe_split(split: Any) -> Document:
    """A `plait.Split`: how much is hidden, and what gives it away."""
    name = f"{split.relation}[{', '.join(split.indices)}]"
    return Document(f"Split of {name}", (Facts(split.facts),))


def describe_posterior(posterior: Any) -> Document:
    """A `plait.Posterior`: its size and range, and its first entries."""
    mean, sd = posterior.mean, posterior.sd
    points = not sd.any()
    about = {
        "shape": write_shape(mean.shape, "one number"),
        "kind": "point estimates" if points else "independent Gammas",
        "mean": _range(mean),
        **({} if points else {"sd": _range(sd)}),
    }
    if posterior.pairs is not None:
        about["rows"] = f"{len(posterior.pairs):,} pairs, and one row per first entity for all other pairs"
    return Document(f"Posterior[{', '.join(posterior.indices)}]", (Facts.of(about), *_corner(posterior, points)))


def _range(array: Any) -> str:
    return f"{write(array.min())} to {write(array.max())}, mean {write(array.mean())}"


def _corner(posterior: Any, points: bool, most: int = 6) -> list[Block]:
    """The first entries of a matrix, by row number; of other shapes nothing, for a page has two dimensions."""
    mean, sd = posterior.mean, posterior.sd
    if mean.ndim != 2:
        return []
    first, second = mean.shape[0], mean.shape[1]
    across = range(min(second, most))

    def entry(row: int, column: int) -> str:
        spread = "" if points else f"\u00a0±\u00a0{write(sd[row, column])}"  # on one line
        return f"{write(mean[row, column])}{spread}"

    rows = [(str(row), *(entry(row, column) for column in across)) for row in range(min(first, most))]
    whole = first <= most and second <= most
    small = "" if whole else f"the first {len(rows):,} of {first:,} rows and {len(across):,} of {second:,} columns"
    return [Table(("row", *map(str, across)), rows, "Mean" if points else "Mean ± sd", small)]


def describe_data(data: Any) -> Document:
    """Data bound to a model: axes, and a summary of each relation."""
    axes = [(axis, len(data.entities[axis]), _some(data.entities[axis])) for axis in data.model.axes]
    relations = [
        (name, write_shape(r.shape), len(r.values), float(r.values.sum()), r.observed_zeros, r.missing_cells,
         str(r.likelihood))
        for name, r in data.relations.items()
    ]  # fmt: skip
    columns = ("relation", "shape", "links", "sum", "observed zeros", "missing cells", "likelihood")
    notes = [
        note for name, r in data.relations.items() for note in (_diagonal(name, r), _unseen(name, r), _weight(name, r))
    ]
    return Document(
        "Data",
        (
            Code(str(data.model)),
            Table(("axis", "entities", "names"), axes, "Axes"),
            Table(columns, relations, "Relations", "; ".join(filter(None, notes)), left=2),
        ),
    )


def _some(labels: Any, most: int = 4) -> str:
    return ", ".join(str(label) for label in labels[:most]) + (", …" if len(labels) > most else "")


def _diagonal(name: str, relation: Any) -> str:
    return f"self-links of {name}: {relation.self_links}" if relation.self_links else ""


def _weight(name: str, relation: Any) -> str:
    return f"weight of {name}: auto" if relation.open_weight else ""


def _unseen(name: str, relation: Any) -> str:
    few = [f"{count:,} {index}" for index, count in relation.n_unseen.items() if count]
    return f"without links in {name}: {', '.join(few)}" if few else ""
