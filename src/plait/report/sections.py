"""Sections of a report: warnings and summary, test metrics, predicted links with reasons, components, coupling,
convergence, surprising cells.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Rows
from plait.analysis.explain.explain import explain
from plait.analysis.explain.explanation_text import drop, link_words, measure, no_reason
from plait.analysis.topk.surprising import surprising
from plait.analysis.topk.top import propose
from plait.evaluation.evaluator import Metrics, figure_table
from plait.plotting import pictures
from plait.plotting.component_charts import bars
from plait.plotting.theme import called as title_or_name
from plait.plotting.theme import cut, finished
from plait.rendering.document import Block, Cards, Code, Details, Facts, Faint, Note, Picture, Section, Share, Table
from plait.rendering.formatting import significant, write_sizes
from plait.report.report_data import ReportData, called
from plait.report.reproduce import testing
from plait.report.run_summary import calibrations, found_words, members, rank_words, reached, relations_table
from plait.storage.fitted import Fitted
from plait.tuning import TUNING
from plait.version import __version__

if TYPE_CHECKING:
    import polars as pl

    from plait.analysis.explain.explanation import Explanation
from plait.checks import check_baseline, check_shared_entities
from plait.errors import PlaitWarning, merged
from plait.fitting.options import Options
from plait.inference.state import Reason
from plait.plotting.component_charts import MIN_RELATION_SHARE
from plait.rendering.document import Warn

ENDED = (Reason.CONVERGED, Reason.NOTHING)


def run_warnings(subject: ReportData) -> list[Warn]:
    """Warnings about a run, most severe first."""
    found = (*_unfinished(subject), *_fit_warnings(subject), *_leftover(subject), *subject.leaks)
    return [Warn(text.replace("\n", " ")) for text in found]


def _unfinished(subject: ReportData) -> Iterator[str]:
    """A fit that was interrupted, or stopped by a `max_iter` of the user; the default limit is only stated."""
    fit = subject.fit
    if fit.stop.reason == Reason.MAX_ITER and fit.settings.get("max_iter") == Options.max_iter:
        return
    if fit.stop.reason not in ENDED:
        yield f"not converged: {fit.stop.sentence}"


def _fit_warnings(subject: ReportData) -> list[str]:
    found = merged([*_below_popularity(subject.fit), *_disjoint_entities(subject.fit)])
    return [str(warning) for warning in found]


def _below_popularity(fit: Fitted) -> Iterator[PlaitWarning]:
    found = fit.settings.get("popularity")
    if found is not None and found["objective"] == fit.objective:  # else it was updated since
        yield from check_baseline(fit.model.relations, fit.method, found, bool(fit.settings["adapt_prior"]))


def _disjoint_entities(fit: Fitted) -> Iterator[PlaitWarning]:
    """Coupled relations without shared names, by known links."""
    if not all(known.links.in_memory for known in fit.known.values()):
        return  # links on disk were checked when they were bound
    mentioned = {}
    for name, known in fit.known.items():
        indices = fit.model.equation(name).indices
        mentioned[name] = {
            index: np.bincount(known.cells[:, place], minlength=size) > 0
            for place, (index, size) in enumerate(zip(indices, known.shape))
        }
    yield from check_shared_entities(fit.model, fit.entities, mentioned)


def _leftover(subject: ReportData) -> Iterator[str]:
    """Components with hardly any counts in any relation, where the user chose the rank."""
    import polars as pl

    if "rank_by" in subject.fit.settings:
        return
    whole = subject.coupling.filter(pl.col("index").is_not_null())
    most = whole.group_by("index", "component", maintain_order=True).agg(pl.col("share").max())
    for (index,), own in most.group_by("index", maintain_order=True):
        count = int((own["share"] < MIN_RELATION_SHARE).sum())
        if count:
            yield (
                f"unused components: {count:,} of {len(own):,} components of {index} explain less than 0.1 "
                "% of every relation. Use a smaller `rank`, or `prune`."
            )


NOTHING = "There are no warnings about this run."


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
            **found_words(fit.settings),
            **calibrations(fit),
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
    """The baseline objective, if known."""
    found = subject.fit.settings.get("popularity")
    if found is None or found["objective"] != subject.fit.objective:
        return {}
    return {"objective without latent indices": f"{significant(found['baseline'])} or more (popularity alone)"}


def quality(subject: ReportData) -> Sequence[Block]:
    """Metrics and curves of the test, next to those of popularity."""
    if subject.metrics is None:
        return _untested(subject)
    metrics = subject.metrics
    title = f"{metrics.title()}{f' ({subject.test})' if subject.test else ''}"
    return [
        Note(f"{title}.", quiet=False),
        *_curves(metrics),
        figure_table(metrics, list(metrics)),
        *map(Note, metrics.notes),
    ]


def _curves(metrics: Metrics) -> list[Block]:
    """Pictures of the test; none for a test without zeros."""
    made = {
        "Calibration": pictures.calibration if metrics.calibration is not None else None,
        "ROC": pictures.roc if metrics.roc is not None else None,
        "Precision and recall": pictures.precision_recall if metrics.precision_recall is not None else None,
    }
    sections = [Section(title, [draw(metrics)]) for title, draw in made.items() if draw is not None]
    return [Cards(sections)] if sections else []


def _untested(subject: ReportData) -> list[Block]:
    words = "No test was given. To measure the predictions, hold out cells, fit the rest, and report on the test:"
    return [Note(words, quiet=False), Code(testing(subject))]


MAX_LINKS = 50  # of a relation
MAX_EXPLAINED, MIN_EXPLAINED = 150, 5  # links with reasons: in all, and of each relation


def predicted_links(subject: ReportData) -> Sequence[Block]:
    """One section per relation."""
    most = explained(subject)
    relations = subject.fit.model.relations
    return [
        Section(name, list(_links_of_relation(subject, name, most)), f"links-{n}") for n, name in enumerate(relations)
    ]


def explained(subject: ReportData) -> int:
    """Number of links of each relation with reasons."""
    fit = subject.fit
    entities = sum(len(fit.entities[axis]) for axis in fit.model.axes)
    total = TUNING.explained_of_many if entities > TUNING.many_entities else MAX_EXPLAINED
    return min(MAX_LINKS, max(MIN_EXPLAINED, total // len(fit.model.relations)))


def _links_of_relation(subject: ReportData, relation: str, most: int) -> Iterator[Block]:
    found, closed = propose(subject.fit, relation, MAX_LINKS)
    if found.is_empty():
        known = "All possible links are known links."
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
    """The most supporting link, and the decrease of the mean without it."""
    return f"{link_words(e, e.reasons[0])}: {drop(e.reasons[0].loss)}" if e.reasons else no_reason(e)


def _note(count: int, reasons: "list[Explanation]", counts: bool) -> str:
    first, of = ("Sorted by mean. ", "the value") if counts else ("", "the probability")
    said = [f"{first}lower, upper: 90 % interval of {of}."]
    if reasons and reasons[0].reasons:
        said.append(f"Supporting link: {measure(reasons[0])}. Click to see the explanation.")
    if len(reasons) < count:
        said.append(f"Explanations are given for the first {len(reasons)} links.")
    return " ".join(said)


MAX_SHARE_ROWS = 500  # of the table of coupling
BAR_PIXELS = 170  # with names next to it the picture fits a phone
MIN_DATA_SHARE = 0.5  # of a weight; below, it comes mainly from the prior

NO_COMPONENTS = "The model has no latent index, so there are no components."


def cards(subject: ReportData) -> Sequence[Block]:
    """A card for each of the largest components, largest first, and a list of the others."""
    whole = subject.components
    if whole.is_empty():
        return [Note(NO_COMPONENTS)]
    ranked = _ranked(whole)
    shown = [_card(whole, one) for one in ranked.head(TUNING.report_cards).to_dicts()]
    others = ranked.slice(TUNING.report_cards)
    words = (
        "Components, sorted by their share. A bar is the share of an entity in the component, with its "
        "standard deviation. Faded bars come more from the prior than from data."
    )
    return [Note(words, quiet=False), Cards(shown), *([_rest(others)] if len(others) else [])]


def _ranked(whole: "pl.DataFrame") -> "pl.DataFrame":
    """Components with their shares, by the mean share of the relations that have them."""
    import polars as pl

    shares = [name for name in whole.columns if name.startswith("share_")]
    each = whole.group_by("index", "component", maintain_order=True).agg(pl.col(shares).first())
    return each.sort(pl.mean_horizontal(shares), descending=True, maintain_order=True)


def _shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Shares of a component, by relation."""
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
    blocks: list[Block] = [shares, *drawn, Details(f"{title} as a table", tables)]
    return Section(title, blocks, f"component-{row['index']}-{row['component']}")


Key = tuple[Any, ...]  # a factor and an axis
TableRows = Sequence[Mapping[str, Any]]


def _picture(title: str, key: Key, rows: TableRows) -> Picture:
    """A list of bars; a picture of its own keeps its size on a narrow page."""
    factor, axis = key
    listed = [{**row, "name": cut(title_or_name(row, "entity")), "full": called(row, "entity")} for row in rows]
    words = f"{title}: leading entities of {axis} ({factor})."
    return Picture(lambda: finished(bars(listed, f"{axis} ({factor})", width=BAR_PIXELS)), words)


def _entities(key: Key, rows: TableRows) -> Table:
    factor, axis = key
    listed = []
    for row in rows:
        values = (called(row, "entity"), row["weight"], row["sd"], row["lift"], Share(row["data"]))
        listed.append(tuple(map(Faint, values)) if row["data"] < MIN_DATA_SHARE else values)
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
    """Coupling of relations and components: a picture and a table."""
    import polars as pl

    whole = subject.coupling.filter(pl.col("index").is_not_null())
    if whole.is_empty():
        return [Note(NO_COMPONENTS)]
    words = "The share of each component in each relation."
    if len(subject.fit.model.relations) == 1:
        words = "The model has only one relation."
    summed = bool((whole["term"] != "").any()) if whole["term"].dtype == pl.String else False
    columns = ("component", "relation", *(["term"] if summed else []), "counts", "sd", "share", "part", "kind")
    rows = [_coupled(row, columns) for row in whole.head(MAX_SHARE_ROWS).to_dicts()]
    note = (
        "counts: expected counts of the component, ± sd; share: part of the relation's counts; part: part of "
        "the component that comes from the relation; private: at least 95 % from one relation."
    )
    table = Table(columns, rows, note=note, left=len(columns) - 5, more=max(0, len(whole) - MAX_SHARE_ROWS))
    return [Note(words, quiet=False), pictures.coupling(subject.fit), Details("Shares as a table", [table])]


def _coupled(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    named = dict(row)
    named["component"] = f"{row['component']} of {row['index']}"
    named["share"], named["part"] = _share(row["share"]), _share(row["part"])
    return tuple(named[name] for name in columns)


def course(subject: ReportData) -> Sequence[Block]:
    """Objective by sweep, the search for a rank if any, and data by axis."""
    fit = subject.fit
    searched = [pictures.rank(fit)] if fit.settings.get("rank_by", {}).get("tried") else []
    return [
        Note(f"Objective {reached(fit)}: {fit.stop.sentence}", quiet=False),
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
    note = "median and most: known links per entity, without entities that have none."
    if not all(known.links.in_memory for known in fit.known.values()):
        note += " Relations on disk are not counted."
    columns = ("axis", "relation", "entities", "with links", "without", "median", "most")
    return Table(columns, rows, "Data by axis", note, left=2)


def _links(fit: Fitted, axis: str) -> dict[str, Rows]:
    """Number of known links of every entity of an axis, by relation."""
    found = {}
    for name, known in fit.known.items():
        places = [n for n, index in enumerate(fit.model.equation(name).indices) if fit.model.axis(index) == axis]
        if places and known.links.in_memory:
            size = len(fit.entities[axis])
            found[name] = np.bincount(known.cells[:, places].ravel(), minlength=size)
    return found


MAX_SURPRISES = 10  # of each kind and relation

KINDS = {
    "link": "Known links with the smallest predicted probability",
    "zero": "Observed zeros with the largest predicted probability",
}
NO_SURPRISES = {
    "link": "There are no known links.",
    "zero": "The run has no zeros: only links are observed, or an earlier version of Plait saved the run.",
}


def surprises(subject: ReportData) -> Sequence[Block]:
    """One section per relation."""
    words = (
        "Observed links and zeros with a low predicted probability: possible errors in the data, or limits "
        "of the model. surprise: −log of the probability of the observation, in nats."
    )
    relations = subject.fit.model.relations
    sections = [
        Section(name, list(_surprises_of_relation(subject, name)), f"surprises-{n}") for n, name in enumerate(relations)
    ]
    return [Note(words, quiet=False), *sections]


def _surprises_of_relation(subject: ReportData, relation: str) -> Iterator[Block]:
    import polars as pl

    indices = subject.fit.model.equation(relation).indices
    whole = surprising(subject.fit, relation, MAX_SURPRISES)
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
