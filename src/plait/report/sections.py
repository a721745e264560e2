"""What a run is, warnings first.

Is it any good: what a test says, or how to make one.

The most probable links that are not known yet, with reasons.

Components: who is in them, and which relations feed them.

How the fit went, and what it went on.

What the model finds hardest to believe of the data.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Rows
from plait.analysis.explain.explain import explain
from plait.analysis.explain.explanation_text import link_words, measure, no_reason
from plait.analysis.topk.top import propose
from plait.evaluation.evaluator import Metrics, error, shown
from plait.plotting import pictures
from plait.plotting.component_charts import bars
from plait.plotting.theme import called as title_or_name
from plait.plotting.theme import cut, finished
from plait.rendering.document import Block, Cards, Code, Details, Facts, Faint, Note, Picture, Section, Share, Table
from plait.rendering.formatting import percent, significant, write_sizes
from plait.report.report_data import ReportData, called
from plait.report.reproduce import evaluating, hiding
from plait.report.run_summary import members, rank_words, reached, relations_table, weight_words
from plait.storage.fitted import Fitted
from plait.tuning import TUNING
from plait.version import __version__

if TYPE_CHECKING:
    import polars as pl

    from plait.analysis.explain.explanation import Explanation
from plait.checks import check_baseline, check_shared_entities
from plait.errors import PlaitWarning, merged
from plait.inference.state import Reason
from plait.plotting.component_charts import LEFTOVER
from plait.rendering.document import Warn

ENDED = (Reason.CONVERGED, Reason.NOTHING)


def run_warnings(subject: ReportData) -> list[Warn]:
    """Warnings about a run, the gravest first."""
    found = (*_unfinished(subject), *_fit_warnings(subject), *_leftover(subject), *subject.leaks)
    return [Warn(text.replace("\n", " ")) for text in found]


def _unfinished(subject: ReportData) -> Iterator[str]:
    stop = subject.fit.stop
    if stop.reason not in ENDED:
        yield f"not converged: {stop.sentence}"


def _fit_warnings(subject: ReportData) -> list[str]:
    found = merged([*_below_popularity(subject.fit), *_disjoint_entities(subject.fit)])
    return [str(warning) for warning in found]


def _below_popularity(fit: Fitted) -> Iterator[PlaitWarning]:
    found = fit.settings.get("popularity")
    if found is not None and found["objective"] == fit.objective:  # else it has learnt since
        yield from check_baseline(fit.model.relations, fit.method, found, bool(fit.settings["adapt_prior"]))


def _disjoint_entities(fit: Fitted) -> Iterator[PlaitWarning]:
    """Coupling without shared names, as far as known links tell."""
    if not all(known.links.in_memory for known in fit.known.values()):
        return  # links on disk were looked at when they were bound
    mentioned = {}
    for name, known in fit.known.items():
        indices = fit.model.equation(name).indices
        mentioned[name] = {
            index: np.bincount(known.cells[:, place], minlength=size) > 0
            for place, (index, size) in enumerate(zip(indices, known.shape))
        }
    yield from check_shared_entities(fit.model, fit.entities, mentioned)


def _leftover(subject: ReportData) -> Iterator[str]:
    """Components that explain next to nothing of any relation."""
    import polars as pl

    whole = subject.coupling.filter(pl.col("index").is_not_null())
    most = whole.group_by("index", "component", maintain_order=True).agg(pl.col("share").max())
    for (index,), own in most.group_by("index", maintain_order=True):
        count = int((own["share"] < LEFTOVER).sum())
        if count:
            yield (
                f"leftover components: {count:,} of the {len(own):,} values of {index} explain less than 0.1 % of any "
                "relation. A smaller rank, or prune, would do as well."
            )


NOTHING = (
    "Nothing to warn of: it has converged, is not known to explain less than popularity, and uses all its components."
)


def summary(subject: ReportData) -> Sequence[Block]:
    """Warnings, the model, how the fit ended, its relations."""
    fit = subject.fit
    found = run_warnings(subject)
    return (
        *found,
        *([] if found else [Note(NOTHING)]),
        Code(str(fit.model)),
        _about(subject),
        relations_table(fit),
    )


def _about(subject: ReportData) -> Facts:
    fit = subject.fit
    return Facts.of(
        {
            "method": f"{fit.method}, rank {rank_words(fit.rank, fit.settings)}",
            "entities": write_sizes({axis: len(fit.entities[axis]) for axis in fit.model.axes}),
            "known links": write_sizes({name: len(known) for name, known in fit.known.items()}),
            **weight_words(fit.settings),
            **members(fit),
            "objective": reached(fit),
            **_popularity(subject),
            "stopped": fit.stop.sentence,
            "seed": str(fit.seed),
            "fitted by": f"plait {subject.header.get('plait', __version__)}",
            "report by": f"plait {__version__}",
            "fingerprint of the data": fit.fingerprint,
        }
    )


def _popularity(subject: ReportData) -> dict[str, str]:
    """What the bound is to be compared with, where it is known."""
    found = subject.fit.settings.get("popularity")
    if found is None or found["objective"] != subject.fit.objective:
        return {}
    return {"bound without latent indices": f"{significant(found['baseline'])} or more: what popularity alone explains"}


def quality(subject: ReportData) -> Sequence[Block]:
    """Figures and curves of the test beside those of popularity."""
    if subject.metrics is None:
        return _untested(subject)
    metrics = subject.metrics
    title = f"{metrics.title()}{f' ({subject.test})' if subject.test else ''}"
    return [Note(f"{title}.", quiet=False), *_curves(metrics), _figures(metrics), *map(Note, metrics.notes)]


def _curves(metrics: Metrics) -> list[Block]:
    """The pictures that the test has: one without zeros has none."""
    made = {
        "Calibration": pictures.calibration if metrics.calibration is not None else None,
        "ROC": pictures.roc if metrics.roc is not None else None,
        "Precision and recall": pictures.precision_recall if metrics.precision_recall is not None else None,
    }
    sections = [Section(title, [draw(metrics)]) for title, draw in made.items() if draw is not None]
    return [Cards(sections)] if sections else []


def _figures(metrics: Metrics) -> Table:
    beside = metrics.baseline
    columns = ("figure", "", "± se", *(("popularity",) if beside is not None else ()))
    rows = []
    for name, figure in metrics.items():
        row = (name, shown(figure), error(metrics.errors.get(name)))
        other = "" if beside is None or name not in beside else shown(beside[name])
        rows.append((*row, *((other,) if beside is not None else ())))
    return Table(("figure", "this run", *columns[2:]), rows)


def _untested(subject: ReportData) -> list[Block]:
    words = (
        "No test was given, so nothing here says how well it predicts what it has not seen. Hide some cells, fit "
        "without them, and look for them:"
    )
    return [Note(words, quiet=False), Code(hiding(subject)), Note("Then, with the test:"), Code(evaluating(subject))]


LINKS = 50  # a relation
EXPLAINED, FEWEST = 150, 5  # links with reasons, of all relations together; of each at least


def predicted_links(subject: ReportData) -> Sequence[Block]:
    """A section for each relation."""
    most = explained(subject)
    relations = subject.fit.model.relations
    return [
        Section(name, list(_links_of_relation(subject, name, most)), f"links-{n}") for n, name in enumerate(relations)
    ]


def explained(subject: ReportData) -> int:
    """Of how many links of each relation reasons are given."""
    fit = subject.fit
    entities = sum(len(fit.entities[axis]) for axis in fit.model.axes)
    total = TUNING.explained_of_many if entities > TUNING.many_entities else EXPLAINED
    return min(LINKS, max(FEWEST, total // len(fit.model.relations)))


def _links_of_relation(subject: ReportData, relation: str, most: int) -> Iterator[Block]:
    found, closed = propose(subject.fit, relation, LINKS)
    if found.is_empty():
        known = "Every cell that may have a link is a known link already."
        yield Note(known if closed is None else str(closed).replace("\n", " "))
        return
    indices = subject.fit.model.equation(relation).indices
    cells = [{index: row[index] for index in indices} for row in found.head(most).to_dicts()]
    reasons = [explain(subject.fit, relation, cell) for cell in cells]
    yield _table(indices, found, reasons)


def _table(indices: Sequence[str], found: "pl.DataFrame", reasons: "list[Explanation]") -> Table:
    # Under Bernoulli the mean is the probability.
    numbers = ["probability", "lower", "upper", *(["mean"] if "rate" not in found.columns else [])]
    rows = [(*(called(row, index) for index in indices), *(row[name] for name in numbers)) for row in found.to_dicts()]
    behind = [Details(_leading(e), e.describe().blocks) for e in reasons]
    note = _note(len(rows), reasons, "mean" in numbers)
    return Table((*indices, *numbers), rows, note=note, left=len(indices), behind=behind)


def _leading(e: "Explanation") -> str:
    """The known link that says most for it, and how much of the mean goes without it."""
    return f"because of {link_words(e, e.reasons[0])}: {percent(e.reasons[0].loss)}" if e.reasons else no_reason(e)


def _note(count: int, reasons: "list[Explanation]", counts: bool) -> str:
    first, of = ("The largest means come first. ", "the value") if counts else ("", "the probability")
    said = [f"{first}lower and upper: a 90 % interval of {of}."]
    if reasons and reasons[0].reasons:
        said.append(f"The percentage of a reason is {measure(reasons[0])}; a click opens all reasons.")
    if len(reasons) < count:
        said.append(f"Reasons are given for the first {len(reasons)}: each takes a look at many links.")
    return " ".join(said)


SHARES = 500  # rows of the table of sharing
WIDTH = 170  # pixels of a bar: with names beside it the picture fits a phone
HALF = 0.5  # of a weight that comes from data: below it the prior speaks

NO_COMPONENTS = "The model has no latent index: there are no components."


def cards(subject: ReportData) -> Sequence[Block]:
    """A card for each of the largest components, the largest first, and a list of the others."""
    whole = subject.components
    if whole.is_empty():
        return [Note(NO_COMPONENTS)]
    ranked = _ranked(whole)
    shown = [_card(whole, one) for one in ranked.head(TUNING.report_cards).to_dicts()]
    others = ranked.slice(TUNING.report_cards)
    words = (
        "Components by how much they explain. A bar is an entity's share of the component, with its standard "
        "deviation; what is faded comes more from the prior than from data."
    )
    return [Note(words, quiet=False), Cards(shown), *([_rest(others)] if len(others) else [])]


def _ranked(whole: "pl.DataFrame") -> "pl.DataFrame":
    """Components with their shares, by the mean share of the relations that have them."""
    import polars as pl

    shares = [name for name in whole.columns if name.startswith("share_")]
    each = whole.group_by("index", "component", maintain_order=True).agg(pl.col(shares).first())
    return each.sort(pl.mean_horizontal(shares), descending=True, maintain_order=True)


def _shares(row: Mapping[str, Any]) -> dict[str, float]:
    """By relation the share that a component has of it, where it has any."""
    own = {name.removeprefix("share_"): share for name, share in row.items() if name.startswith("share_")}
    return {relation: share for relation, share in own.items() if share is not None}


def _card(whole: "pl.DataFrame", row: Mapping[str, Any]) -> Section:
    import polars as pl

    own = whole.filter((pl.col("index") == row["index"]) & (pl.col("component") == row["component"]))
    shares = Facts([(f"share of {relation}", Share(share)) for relation, share in _shares(row).items()])
    several = whole["index"].n_unique() > 1
    title = f"Component {row['component']}" + (f" of {row['index']}" if several else "")
    parts = {key: part.to_dicts() for key, part in own.group_by("factor", "axis", maintain_order=True)}
    drawn = [_picture(title, key, part) for key, part in parts.items()]
    tables = [_entities(key, part) for key, part in parts.items()]
    blocks: list[Block] = [shares, *drawn, Details(f"Numbers of {title.lower()}", tables)]
    return Section(title, blocks, f"component-{row['index']}-{row['component']}")


Key = tuple[Any, ...]  # a factor and an axis
TableRows = Sequence[Mapping[str, Any]]


def _picture(title: str, key: Key, rows: TableRows) -> Picture:
    """A list of bars: a picture by itself has its size on a narrow page, too."""
    factor, axis = key
    listed = [{**row, "name": cut(title_or_name(row, "entity")), "full": called(row, "entity")} for row in rows]
    words = f"{title}: the heaviest entities of {axis} ({factor}), as in the numbers below."
    return Picture(lambda: finished(bars(listed, f"{axis} ({factor})", width=WIDTH)), words)


def _entities(key: Key, rows: TableRows) -> Table:
    factor, axis = key
    listed = []
    for row in rows:
        values = (called(row, "entity"), row["weight"], row["sd"], row["lift"], Share(row["data"]))
        listed.append(tuple(map(Faint, values)) if row["data"] < HALF else values)
    return Table((axis, "weight", "sd", "lift", "from data"), listed, f"{axis} ({factor})")


def _rest(others: "pl.DataFrame") -> Table:
    relations = [name.removeprefix("share_") for name in others.columns if name.startswith("share_")]
    rows = [
        (row["index"], row["component"], *(_share(row[f"share_{relation}"]) for relation in relations))
        for row in others.to_dicts()
    ]
    return Table(
        ("index", "component", *(f"share of {name}" for name in relations)), rows, "All other components", left=2
    )


def _share(value: float | None) -> Any:
    return None if value is None else Share(value)


def sharing(subject: ReportData) -> Sequence[Block]:
    """Which relations feed which component: a picture and a table."""
    import polars as pl

    whole = subject.coupling.filter(pl.col("index").is_not_null())
    if whole.is_empty():
        return [Note(NO_COMPONENTS)]
    words = "How much of a relation each component explains, and whether it lives in one relation or in several."
    if len(subject.fit.model.relations) == 1:
        words = "There is one relation: nothing is shared with another."
    summed = bool((whole["term"] != "").any()) if whole["term"].dtype == pl.String else False
    columns = ("component", "relation", *(["term"] if summed else []), "counts", "sd", "share", "part", "kind")
    rows = [_coupled(row, columns) for row in whole.head(SHARES).to_dicts()]
    note = (
        "counts: known links that the component explains, ± sd; share: of the relation's counts; part: how much of the "
        "component's evidence comes from the relation; private: 95 % or more from one relation."
    )
    table = Table(columns, rows, note=note, left=len(columns) - 5, more=max(0, len(whole) - SHARES))
    return [Note(words, quiet=False), pictures.coupling(subject.fit), Details("Numbers of the sharing", [table])]


def _coupled(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    named = dict(row)
    named["component"] = f"{row['component']} of {row['index']}"
    named["share"], named["part"] = _share(row["share"]), _share(row["part"])
    return tuple(named[name] for name in columns)


def course(subject: ReportData) -> Sequence[Block]:
    """The bound by sweep, the search for a rank where there was one, and data by axis."""
    fit = subject.fit
    searched = [pictures.rank(fit)] if fit.settings.get("rank_by", {}).get("tried") else []
    return [
        Note(f"Bound {reached(fit)}: {fit.stop.sentence}", quiet=False),
        pictures.objective(fit),
        *searched,
        _axes(fit),
    ]


def _axes(fit: Fitted) -> Table:
    rows = []
    for axis in fit.model.axes:
        for relation, counts in _links(fit, axis).items():
            linked = counts[counts > 0]
            typical = (float(np.median(linked)), int(linked.max())) if len(linked) else (None, None)
            rows.append((axis, relation, len(counts), len(linked), len(counts) - len(linked), *typical))
    note = "median and most: known links of an entity that has any."
    if not all(known.links.in_memory for known in fit.known.values()):
        note += " Relations on disk are not counted."
    columns = ("axis", "relation", "entities", "with links", "without", "median", "most")
    return Table(columns, rows, "Data by axis", note, left=2)


def _links(fit: Fitted, axis: str) -> dict[str, Rows]:
    """By relation how many known links every entity of an axis has there."""
    found = {}
    for name, known in fit.known.items():
        places = [n for n, index in enumerate(fit.model.equation(name).indices) if fit.model.axis(index) == axis]
        if places and known.links.in_memory:
            size = len(fit.entities[axis])
            found[name] = np.bincount(known.cells[:, places].ravel(), minlength=size)
    return found


SURPRISES = 10  # of each kind and relation

KINDS = {"link": "Known links that it finds least likely", "zero": "Observed zeros where it expects a link"}
NO_SURPRISES = {
    "link": "There are no known links.",
    "zero": "No zeros are kept: only links were observed, or the run is of a version that did not keep them.",
}


def surprises(subject: ReportData) -> Sequence[Block]:
    """A section for each relation."""
    words = (
        "Known links and zeros that the model would not have guessed: mistakes in the data, or what it has not "
        "understood. surprise: −log of the probability of what was observed, in nats."
    )
    relations = subject.fit.model.relations
    sections = [
        Section(name, list(_surprises_of_relation(subject, name)), f"surprises-{n}") for n, name in enumerate(relations)
    ]
    return [Note(words, quiet=False), *sections]


def _surprises_of_relation(subject: ReportData, relation: str) -> Iterator[Block]:
    import polars as pl

    indices = subject.fit.model.equation(relation).indices
    whole = subject.fit.surprising(relation, SURPRISES)
    for kind, title in KINDS.items():
        rows = [
            (
                *(called(row, index) for index in indices),
                row["value"],
                row["surprise"],
                row["probability"],
            )
            for row in whole.filter(pl.col("kind") == kind).to_dicts()
        ]
        columns = (*indices, "value", "surprise", "probability of a link")
        yield Table(columns, rows, title, left=len(indices)) if rows else Note(NO_SURPRISES[kind])
