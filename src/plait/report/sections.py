"""Sections of a report: warnings and summary, test metrics, predicted links with reasons, components, coupling,
convergence, surprising cells.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Rows
from plait.analysis.components.component_names import names_of, title
from plait.analysis.components.core_pairs import CorePair, core_pairs, has_pairs
from plait.analysis.explain.coupling import Family, families
from plait.analysis.explain.explain import explain
from plait.analysis.explain.explanation_text import drop, link_words, measure, no_reason
from plait.analysis.titled_tables import name_with_title
from plait.analysis.topk.surprising import surprising
from plait.evaluation.evaluator import Metrics, figure_table
from plait.plotting import pictures
from plait.rendering.document import (
    Block,
    Cards,
    Code,
    Details,
    Facts,
    Faint,
    FigureTile,
    IntervalBar,
    Note,
    Section,
    Share,
    Table,
    Tiles,
)
from plait.rendering.formatting import objective_word, percent, plural, significant, write_sizes
from plait.rendering.model_chart import fits, picture
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


def run_warnings(report_data: ReportData) -> list[Warn]:
    """Warnings about a run, most severe first."""
    warnings = (*_unfinished(report_data), *_fit_warnings(report_data), *_leftover(report_data), *report_data.leaks)
    return [Warn(text.replace("\n", " ")) for text in warnings]


def _unfinished(report_data: ReportData) -> Iterator[str]:
    """A fit that was interrupted, or stopped by a `max_iter` of the user; the default limit is only stated."""
    fit = report_data.fit
    if fit.stop.reason == Reason.MAX_ITER and fit.settings.get("max_iter") == Options.max_iter:
        return
    if fit.stop.reason not in ENDED:
        yield f"not converged: {fit.stop.sentence}"


def _fit_warnings(report_data: ReportData) -> list[str]:
    warnings = merged([*_below_popularity(report_data.fit), *_disjoint_entities(report_data.fit)])
    return [str(warning) for warning in warnings]


def _below_popularity(fit: Fitted) -> Iterator[PlaitWarning]:
    popularity = fit.settings.get("popularity")
    if popularity is not None and popularity["objective"] == fit.objective:  # else it was updated since
        yield from check_baseline(fit.model.relations, fit.method, popularity, bool(fit.settings["adapt_prior"]))


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


def _leftover(report_data: ReportData) -> Iterator[str]:
    """Components with hardly any counts in any relation, where the user chose the rank."""
    if "rank_by" in report_data.fit.settings:
        return
    for (index,), own in report_data.largest_shares.group_by("index", maintain_order=True):
        count = int((own["share"] < MIN_RELATION_SHARE).sum())
        if count:
            yield (
                f"unused components: {count:,} of {len(own):,} components of {index} explain less than 0.1 "
                "% of every relation. Use a smaller `rank`, or `prune`."
            )


NOTHING = "There are no warnings about this run."


def summary(report_data: ReportData) -> Sequence[Block]:
    """Data and quality of the fit: a sentence, figures, warnings, pictures; the settings behind a click."""
    warnings = run_warnings(report_data)
    return (
        Note(lead(report_data), quiet=False),
        Tiles(tiles(report_data)),
        *warnings,
        *([] if warnings else [Note(NOTHING)]),
        Cards(_pictures(report_data)),
        Details(
            "Model and settings",
            [
                Code(str(report_data.fit.model)),
                *([picture(report_data.fit.model)] if fits(report_data.fit.model) else []),
                _about(report_data),
                relations_table(report_data.fit),
            ],
        ),
    )


def lead(report_data: ReportData) -> str:
    """One sentence: the data, and how well the fit predicts held-out links."""
    fit = report_data.fit
    parts = []
    for equation in fit.model.equations:
        axes = list(dict.fromkeys(fit.model.axis(index) for index in equation.indices))
        sizes = " × ".join(plural(len(fit.entities[axis]), axis) for axis in axes)
        parts.append(f"{len(fit.known[equation.relation]):,} links of {equation.relation} ({sizes})")
    data = f"Fitted to {_join_words(parts)}."
    metrics = report_data.metrics
    if metrics is None:
        return f"{data} How good the predictions are is not known: no test was given (`test`)."
    for name, word in QUALITY.items():
        if name in metrics:
            other = metrics.baseline.figures.get(name) if metrics.baseline is not None else None
            compared = "" if other is None else f", popularity alone {other:.2f}"
            links = f"{plural(metrics.links, 'held-out link')} of {metrics.relation}{against(name)}"
            return f"{data} On {links}: {word} {metrics[name]:.2f}{compared}."
    return data


def against(name: str) -> str:
    """What a metric compares links with, unless these are the zeros of the test."""
    return " and as many sampled non-links" if name.endswith("_uniform") else ""


def _join_words(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


QUALITY = {
    "average_precision": "average precision", "average_precision_uniform": "average precision", "roc_auc": "ROC AUC",
    "roc_auc_uniform": "ROC AUC", "mrr": "mean reciprocal rank",
}  # fmt: skip
MAX_TILES = 4


def tiles(report_data: ReportData) -> list[FigureTile]:
    """Up to four figures: those of the test, next to popularity; components by share; the course of the fit."""
    fit, metrics = report_data.fit, report_data.metrics
    figure_tiles: list[FigureTile] = []
    if metrics is not None:
        curves = {"average": (metrics.precision_recall, "precision"), "roc": (metrics.roc, "true_positive_rate")}
        seen: set[str] = set()
        for name, word in QUALITY.items():
            if name not in metrics or word in seen or len(figure_tiles) == 2:
                continue
            seen.add(word)
            other = metrics.baseline.figures.get(name) if metrics.baseline is not None else None
            curve, column = curves.get(name.split("_")[0], (None, ""))
            course = () if curve is None else _column(curve, column)
            note = "" if other is None else f"popularity {other:.3f}"
            note += ", sampled non-links" * bool(against(name))
            figure_tiles.append(FigureTile(word, f"{metrics[name]:.3f}", note, course))
    links = sum(len(known) for known in fit.known.values())
    if not figure_tiles:
        figure_tiles.append(FigureTile("known links", f"{links:,}", plural(len(fit.model.relations), "relation")))
    shares = report_data.shares
    if shares:
        used = sum(share >= MIN_SHOWN_SHARE for share in shares)
        figure_tiles.append(
            FigureTile("components", f"{len(shares):,}", f"{used:,} with 1 % or more of a relation", shares)
        )
    course = [record.objective for record in fit.history if not record.warm_up and math.isfinite(record.objective)]
    sweeps = max(fit.history[-1].sweep, 0)
    state = "converged" if fit.converged else "not converged"
    word, note = objective_word(fit.method), f"{state}, {plural(sweeps, 'sweep')}"
    figure_tiles.append(FigureTile(word, significant(fit.objective), note, course[len(course) // 10 :]))
    return figure_tiles[:MAX_TILES]


def _column(table: Any, column: str) -> list[float]:
    import narwhals.stable.v2 as nw

    return [float(value) for value in nw.from_native(table, eager_only=True).get_column(column).to_list()]


def _pictures(report_data: ReportData) -> list[Section]:
    """The best predictions; where relations share components the map of both; the curve of the test."""
    fit, metrics = report_data.fit, report_data.metrics
    relation = fit.model.relations[0] if metrics is None else metrics.relation
    drawings = []
    rows = report_data.predicted(relation)[0].head(OPEN_LINKS)
    if len(rows):
        table = _brief(fit, relation, rows)
        drawings.append(Section(f"Best predictions of {relation}", [table], address="#links"))
    if len(fit.model.relations) > 1 and report_data.shares:
        drawings.append(Section("Components in each relation", [_map(report_data)], address="#components"))
    if metrics is not None and metrics.calibration is not None:
        drawings.append(Section("Calibration", [pictures.calibration(metrics)], address="#quality"))
    elif metrics is not None and metrics.precision_recall is not None:
        drawings.append(Section("Precision and recall", [pictures.precision_recall(metrics)], address="#quality"))
    return drawings


MAP_COMPONENTS = 10


def _map(report_data: ReportData) -> Table:
    """Shares of the largest components in each relation, as bars."""
    ranked = _ranked(report_data.components)
    relations = [name for name in report_data.fit.model.relations if ranked[f"share_{name}"].is_not_null().any()]
    several = ranked["index"].n_unique() > 1
    rows = []
    for row in ranked.head(MAP_COMPONENTS).to_dicts():
        number = f"{row['index']} {row['component']}" if several else str(row["component"])
        shares = [_share_bar(row[f"share_{name}"]) for name in relations]
        rows.append((f"{number}: {row['name']}" if row["name"] else number, *shares))
    more = max(0, len(ranked) - MAP_COMPONENTS)
    note = "bar: share of the component in the links of the relation"
    return Table(("component", *relations), rows, note=note, left=1 + len(relations), more=more)


def _share_bar(share: float | None) -> Any:
    return "" if share is None else IntervalBar(share)


def _brief(fit: Fitted, relation: str, links: "pl.DataFrame") -> Table:
    """Links with their probability as a bar."""
    indices = fit.model.equation(relation).indices
    rows = [
        (" · ".join(called(row, index) for index in indices), chance(fit, relation, row)) for row in links.to_dicts()
    ]
    interval = ", line: 90 % interval" if fit.likelihood[relation].binary else ""
    return Table((" · ".join(indices), "probability"), rows, note=f"bar: probability of a link{interval}", left=2)


def chance(fit: Fitted, relation: str, row: Mapping[str, Any]) -> IntervalBar:
    """Probability of a link; only that of binary links has an interval."""
    ends = (row["lower"], row["upper"]) if fit.likelihood[relation].binary else (None, None)
    return IntervalBar(row["probability"], *ends)


def _about(report_data: ReportData) -> Facts:
    fit = report_data.fit
    return Facts.of(
        {
            "method": f"{fit.method}, rank {rank_words(fit.rank, fit.settings)}",
            "entities": write_sizes({axis: len(fit.entities[axis]) for axis in fit.model.axes}),
            "known links": write_sizes({name: len(known) for name, known in fit.known.items()}),
            **found_words(fit.settings, fit.likelihood),
            **calibrations(fit),
            **members(fit),
            "objective": reached(fit),
            **_popularity(report_data),
            "ended": fit.stop.sentence,
            "seed": str(fit.seed),
            "fitted by": f"plait {report_data.header.get('plait', __version__)}",
            "report by": f"plait {__version__}",
            "fingerprint of the data": fit.fingerprint,
        }
    )


def _popularity(report_data: ReportData) -> dict[str, str]:
    """The baseline objective, if known."""
    popularity = report_data.fit.settings.get("popularity")
    if popularity is None or popularity["objective"] != report_data.fit.objective:
        return {}
    return {"objective without latent indices": f"{significant(popularity['baseline'])} or more (popularity alone)"}


def quality(report_data: ReportData) -> Sequence[Block]:
    """Metrics and curves of the test, next to those of popularity."""
    if report_data.metrics is None:
        return _untested(report_data)
    metrics = report_data.metrics
    title = f"{metrics.title()}{f' ({report_data.test})' if report_data.test else ''}"
    return [
        Note(f"{title}.", quiet=False),
        *_curves(metrics),
        Details(f"All {len(metrics)} metrics", [figure_table(metrics, list(metrics)), *map(Note, metrics.notes)]),
    ]


def _curves(metrics: Metrics) -> list[Block]:
    """Pictures of the test; none for a test without zeros."""
    made = {
        "ROC": pictures.roc if metrics.roc is not None else None,
        "Precision and recall": pictures.precision_recall if metrics.precision_recall is not None else None,
    }
    sections = [Section(title, [draw(metrics)]) for title, draw in made.items() if draw is not None]
    return [Cards(sections)] if sections else []


def _untested(report_data: ReportData) -> list[Block]:
    words = "No test was given. To measure the predictions, hold out cells, fit the rest, and report on the test:"
    return [Note(words, quiet=False), Code(testing(report_data))]


OPEN_LINKS = 10  # of a relation; the others are behind a click
MAX_EXPLAINED, MIN_EXPLAINED = 150, 5  # links with reasons: in all, and of each relation


def predicted_links(report_data: ReportData) -> Sequence[Block]:
    """One card per relation."""
    most = explained(report_data)
    relations = report_data.fit.model.relations
    sections = [
        Section(name, list(_links_of_relation(report_data, name, most)), f"links-{n}")
        for n, name in enumerate(relations)
    ]
    return [Cards(sections, wide=True)]


def explained(report_data: ReportData) -> int:
    """Number of links of each relation with reasons."""
    fit = report_data.fit
    entities = sum(len(fit.entities[axis]) for axis in fit.model.axes)
    total = TUNING.explained_of_many if entities > TUNING.many_entities else MAX_EXPLAINED
    return min(OPEN_LINKS, max(MIN_EXPLAINED, total // len(fit.model.relations)))


def _links_of_relation(report_data: ReportData, relation: str, most: int) -> Iterator[Block]:
    fit = report_data.fit
    links, warning = report_data.predicted(relation)
    if links.is_empty():
        known = "All possible links are known links."
        yield Note(known if warning is None else str(warning).replace("\n", " "))
        return
    indices = fit.model.equation(relation).indices
    cells = [{index: row[index] for index in indices} for row in links.head(most).to_dicts()]
    reasons = [explain(fit, relation, cell) for cell in cells]
    yield _table(fit, relation, links.head(OPEN_LINKS), reasons)
    others = links.slice(OPEN_LINKS)
    if len(others):
        yield Details(f"{len(others)} more predictions of {relation}", [_table(fit, relation, others, [])])


def _table(fit: Fitted, relation: str, links: "pl.DataFrame", reasons: "Sequence[Explanation]") -> Table:
    indices = fit.model.equation(relation).indices
    counted = not fit.likelihood[relation].binary  # the mean of a binary link is its probability
    rows = []
    for n, row in enumerate(links.to_dicts()):
        numbers = [f"{row['mean']:.3g} ({row['lower']:g}–{row['upper']:g})"] if counted else []
        why = [Details(_leading(reasons[n]), reasons[n].describe().blocks) if n < len(reasons) else ""]
        cells = [called(row, index) for index in indices]
        rows.append((*cells, chance(fit, relation, row), *numbers, *(why if reasons else [])))
    heads = ["probability", *(["expected value"] if counted else []), *(["because of"] if reasons else [])]
    return Table((*indices, *heads), rows, note=_note(counted, reasons), left=len(indices) + len(heads))


def _leading(e: "Explanation") -> str:
    """The most supporting link, and the decrease of the mean without it."""
    return f"{link_words(e, e.reasons[0])} {drop(e.reasons[0].loss)}" if e.reasons else no_reason(e)


def _note(counted: bool, reasons: "Sequence[Explanation]") -> str:
    said = ["Sorted by mean; in brackets its 90 % interval." if counted else "The line on a bar is its 90 % interval."]
    if reasons and reasons[0].reasons:
        said.append(f"Because of: the known link that supports the prediction most, with the {measure(reasons[0])}.")
        said.append("Open it for the full explanation.")
    return " ".join(said) if reasons else ""


MAX_SHARE_ROWS = 500  # of the table of coupling
MIN_DATA_SHARE = 0.5  # of a weight; below, it comes mainly from the prior
MIN_SHOWN_SHARE = 0.01  # of a relation: smaller components have no card
CARD_ENTITIES = 5  # of an axis
OPEN_CARDS = 6  # the others are behind a click

NO_COMPONENTS = "The model has no latent index, so there are no components."


def cards(report_data: ReportData) -> Sequence[Block]:
    """A card for each large component or pair of latent indices, largest first, and a list of the others."""
    fit, whole = report_data.fit, report_data.components
    if whole.is_empty():
        return [Note(NO_COMPONENTS)]
    pairs = [pair for name in fit.model.relations for pair in core_pairs(fit, name, TUNING.report_cards, CARD_ENTITIES)]
    alone = {
        key[0] for key in ((family.uses[0][2], family) for family in families(fit.model)) if _is_single(fit, key[1])
    }
    ranked = _ranked(whole)
    large = ranked.filter(_largest_share(ranked) >= MIN_SHOWN_SHARE)
    import polars as pl

    large = (ranked.head(1) if large.is_empty() else large).filter(pl.col("index").is_in(list(alone)))
    shown = large.head(TUNING.report_cards)
    cards_of_pairs = [_pair_card(fit, pair) for pair in pairs]
    cards_of_pairs += [_card(report_data, whole, one) for one in shown.to_dicts()]
    others = ranked.join(shown, on=["index", "component"], how="anti", maintain_order="left")
    words = (
        "Sorted by share. A bar is the share of an entity in the component, with its standard deviation; lift compares "
        "it with the share of the entity in all links. Faded bars come more from the prior than from data."
    )
    table = _coupling_table(report_data)
    first, later = cards_of_pairs[:OPEN_CARDS], cards_of_pairs[OPEN_CARDS:]
    return [
        *pictures.trends(fit),
        Note(words),
        Cards(first),
        *([Details(f"{len(later)} more cards", [Cards(later)])] if later else []),
        *([Details(f"All {len(ranked)} components", [_rest(ranked)])] if len(others) else []),
        Details("Coupling of relations as a table", [table]),
    ]


def _is_single(fit: Fitted, family: Family) -> bool:
    """Whether a term has only these components: those of terms with several latent indices have cards of pairs."""
    terms = {(q.relation, n): q.latent_of(term) for q in fit.model.equations for n, term in enumerate(q.terms)}
    return any(len(terms[key]) == 1 or not has_pairs(fit, fit.model.equation(key[0])) for key in family.terms)


def _ranked(whole: "pl.DataFrame") -> "pl.DataFrame":
    """Components with their shares, by the mean share of the relations that have them."""
    import polars as pl

    shares = [name for name in whole.columns if name.startswith("share_")]
    each = whole.group_by("index", "component", maintain_order=True).agg(pl.col(["name", *shares]).first())
    return each.sort(pl.mean_horizontal(shares), descending=True, maintain_order=True)


def _largest_share(ranked: "pl.DataFrame") -> "pl.Series":
    import polars as pl

    return ranked.select(pl.max_horizontal(pl.col("^share_.*$").fill_null(0.0)).alias("most"))["most"]


def _shares(row: Mapping[str, Any]) -> dict[str, float]:
    """Shares of a component, by relation."""
    own = {name.removeprefix("share_"): share for name, share in row.items() if name.startswith("share_")}
    return {relation: share for relation, share in own.items() if share is not None}


def _card(report_data: ReportData, whole: "pl.DataFrame", row: Mapping[str, Any]) -> Section:
    import polars as pl

    own = whole.filter((pl.col("index") == row["index"]) & (pl.col("component") == row["component"]))
    shares = ", ".join(f"{percent(share)} of {relation}" for relation, share in _shares(row).items())
    several = whole["index"].n_unique() > 1
    heading = title(names_of(report_data.fit), row["index"], row["component"], several=several)
    parts = {key: part.to_dicts() for key, part in own.group_by("factor", "axis", maintain_order=True)}
    axes = [axis for _, axis in parts]
    tables = [_entities(key, part, axes.count(key[1]) > 1) for key, part in parts.items()]
    return Section(heading, [Note(shares), *tables], f"component-{row['index']}-{row['component']}")


Key = tuple[Any, ...]  # a factor and an axis
TableRows = Sequence[Mapping[str, Any]]


def _entities(key: Key, rows: TableRows, with_factor: bool) -> Table:
    factor, axis = key
    full = max(row["weight"] + row["sd"] for row in rows)
    listed = []
    for row in rows:
        ends = max(row["weight"] - row["sd"], 0.0), row["weight"] + row["sd"]
        values = (called(row, "entity"), IntervalBar(row["weight"], *ends, full), lift_words(row["lift"]))
        listed.append(tuple(map(Faint, values)) if row["data"] < MIN_DATA_SHARE else values)
    return Table((f"{axis} ({factor})" if with_factor else axis, "weight", "lift"), listed, left=2)


def lift_words(lift: float | None) -> str:
    """How many times as large: ``× 3.2``."""
    return "" if lift is None else f"× {lift:.2g}" if lift < 100 else f"× {lift:,.0f}"


def _pair_card(fit: Fitted, pair: CorePair) -> Section:
    """A combination of latent indices, with the entities of each index."""
    own = {index: [standing.row for standing in some] for index, some in pair.entities.items()}
    most = 2 if len(own) < 3 else 1  # names of an index
    lead = " · ".join(", ".join(_called(fit, index, row) for row in rows[:most]) for index, rows in own.items())
    setting = ", ".join(f"{index} {value}" for index, value in pair.setting.items())
    tables = []
    for index, some in pair.entities.items():
        full = max(one.weight for one in some)
        rows = [
            (_called(fit, index, one.row), IntervalBar(one.weight, full=full), lift_words(one.lift)) for one in some
        ]
        tables.append(Table((index, "weight", "lift"), rows, left=2))
    term = f", term {pair.term}" if pair.term else ""
    words = f"{percent(pair.share)} of the expected values of {pair.relation}{term}"
    name = f"pair-{pair.relation}-{'-'.join(map(str, pair.setting.values()))}"
    return Section(f"{setting}: {lead}" if lead else setting, [Note(words), *tables], name)


def _called(fit: Fitted, index: str, row: int) -> str:
    own = fit.titles.get(index)
    return name_with_title(fit.entities[index][row], None if own is None else own.column[row])


def _rest(others: "pl.DataFrame") -> Table:
    relations = [name.removeprefix("share_") for name in others.columns if name.startswith("share_")]
    rows = [
        (
            row["index"],
            row["component"],
            row["name"] or "",
            *(_share(row[f"share_{relation}"]) for relation in relations),
        )
        for row in others.to_dicts()
    ]
    return Table(("index", "component", "name", *(f"share of {name}" for name in relations)), rows, left=3)


def _share(value: float | None) -> Any:
    return None if value is None else Share(value)


def _coupling_table(report_data: ReportData) -> Table:
    """Coupling of relations and components."""
    import polars as pl

    whole = report_data.coupling.filter(pl.col("index").is_not_null())
    summed = bool((whole["term"] != "").any()) if whole["term"].dtype == pl.String else False
    columns = ("component", "relation", *(["term"] if summed else []), "counts", "sd", "share", "part", "kind")
    rows = [_coupled(row, columns) for row in whole.head(MAX_SHARE_ROWS).to_dicts()]
    note = (
        "counts: expected counts of the component, ± sd; share: part of the relation's counts; part: part of "
        "the component that comes from the relation; private: at least 95 % from one relation."
    )
    return Table(columns, rows, note=note, left=len(columns) - 5, more=max(0, len(whole) - MAX_SHARE_ROWS))


def _coupled(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    named = dict(row)
    named["component"] = f"{row['component']} of {row['index']}"
    named["share"], named["part"] = _share(row["share"]), _share(row["part"])
    return tuple(named[name] for name in columns)


def course(report_data: ReportData) -> Sequence[Block]:
    """Objective by sweep, the search for a rank if any, and data by axis."""
    fit = report_data.fit
    searched = [pictures.rank(fit)] if fit.settings.get("rank_by", {}).get("tried") else []
    return [
        Note(f"Objective {reached(fit)}: {fit.stop.sentence}", quiet=False),
        Cards(
            [
                Section("Objective by sweep", [pictures.objective(fit), *searched]),
                Section("Data by axis", [_axes(fit)]),
            ]
        ),
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
    return Table(columns, rows, note=note, left=2)


def _links(fit: Fitted, axis: str) -> dict[str, Rows]:
    """Number of known links of every entity of an axis, by relation."""
    links = {}
    for name, known in fit.known.items():
        places = [n for n, index in enumerate(fit.model.equation(name).indices) if fit.model.axis(index) == axis]
        if places and known.links.in_memory:
            size = len(fit.entities[axis])
            links[name] = np.bincount(known.cells[:, places].ravel(), minlength=size)
    return links


MAX_SURPRISES = 5  # of each kind and relation

KINDS = {"link": "Known links that look wrong", "zero": "Zeros that look like links"}
NO_SURPRISES = {
    "link": "There are no known links.",
    "zero": "The run has no zeros: only links are observed, or an earlier version of Plait saved the run.",
}


def surprises(report_data: ReportData) -> Sequence[Block]:
    """One card per relation."""
    words = (
        "Known links with the smallest predicted probability, and observed zeros with the largest: possible errors in "
        "the data, or limits of the model."
    )
    relations = report_data.fit.model.relations
    sections = [
        Section(name, list(_surprises_of_relation(report_data, name)), f"surprises-{n}")
        for n, name in enumerate(relations)
    ]
    return [Note(words, quiet=False), Cards(sections)]


def _surprises_of_relation(report_data: ReportData, relation: str) -> Iterator[Block]:
    import polars as pl

    indices = report_data.fit.model.equation(relation).indices
    counted = not report_data.fit.likelihood[relation].binary
    whole = surprising(report_data.fit, relation, MAX_SURPRISES)
    for kind, words in KINDS.items():
        own = counted and kind == "link"  # other values say nothing
        rows = [
            (*(called(row, i) for i in indices), IntervalBar(row["probability"]), *([row["value"]] if own else []))
            for row in whole.filter(pl.col("kind") == kind).to_dicts()
        ]
        columns = (*indices, "probability", *(["value"] if own else []))
        blocks = [Table(columns, rows, left=len(indices) + 1) if rows else Note(NO_SURPRISES[kind])]
        yield Section(words, blocks) if kind == "link" else Details(words, blocks)
