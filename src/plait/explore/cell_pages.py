"""Pages of cells: prediction, components, supporting links, and what-if questions with their answers."""

from collections.abc import Mapping
from typing import Any

from plait._typing import Rows
from plait.analysis.explain import explanation_text
from plait.analysis.explain.counterfactual import MAX_SWEEPS, check_value
from plait.analysis.explain.explanation import Explanation, Link
from plait.analysis.explain.explanation_text import drop
from plait.analysis.predict.lookup import row_of
from plait.errors import DataError
from plait.explore.request import Moved, PageRequest, PageView, Refused, real
from plait.explore.site import Site
from plait.explore.whatif import Question, TrialJob
from plait.rendering.document import (
    Block,
    Cards,
    Document,
    Facts,
    IntervalBar,
    Note,
    Ref,
    Section,
    Several,
    Share,
    Table,
)
from plait.rendering.formatting import percent

MAX_REASONS = 10
MIN_DATA_SHARE = 0.5  # of a row; below, it comes mainly from the prior
WORDS = {"mean": "expected value", "sd": "± sd", "probability": "probability of a link", "lower": "90 % lower",
         "upper": "90 % upper", "rate": "rate", "exposure": "exposure"}  # fmt: skip


def cell(site: Site, asked: PageRequest) -> PageView:
    """Explanation of a cell."""
    relation = site.names.relation(asked.path["relation"])
    at = site.names.cell(relation, asked.fields(site.names.keys(relation)))
    e = site.fit.explain(relation, site.names.of_cell(relation, at), top=MAX_REASONS)
    blocks: list[Block] = [
        Note(_sentence(site, relation, e), quiet=False),
        Cards([Section("The cell", [_entities(site, relation, at, e)]), Section("Predicted", [_prediction(e)])]),
        Section(
            "Components",
            [_components(site, e)] if explanation_text.possible(e) else [Note(explanation_text.RATE_0, quiet=False)],
        ),
        Section("Supporting links", [*_reasons(site, e, at), *_no_data(site)]),
        Section("Data", [_rests_on(site, e)]),
    ]
    more = {"whatif": not site.no_data, "relation": relation, "token": site.token,
            "cell": site.names.cell_query(relation, at, "cell."), "relations": site.fit.model.relations,
            "equations": {q.relation: q.indices for q in site.fit.model.equations}, "value": e.value}  # fmt: skip
    return PageView(Document(site.names.cell_text(relation, at), blocks, e.to_dict()), "cell.html", more)


def claimed(site: Site, relation: str, at: Rows, changing: str, link: Rows) -> float | None:
    """First-order effect of a known link on the page of a cell; None where the link is not shown."""
    e = site.fit.explain(relation, site.names.of_cell(relation, at), top=MAX_REASONS)
    named = site.names.of_cell(changing, link)
    own = [reason for reason in e.reasons if reason.relation == changing and dict(reason.cell) == named]
    return own[0].responsibility if own else None


def _entities(site: Site, relation: str, at: Rows, e: Explanation) -> Facts:
    indices = site.fit.model.equation(relation).indices
    own: list[tuple[str, Any]] = [(i, site.names.ref(i, int(row))) for i, row in zip(indices, at)]
    return Facts([("relation", site.relation_ref(relation)), *own, ("status", explanation_text.status(e))])


def _sentence(site: Site, relation: str, e: Explanation) -> str:
    """How probable a link is, and how sure that is."""
    figures = e.prediction
    sure = site.fit.likelihood[relation].binary
    ends = (
        f"{percent(figures['lower'])} to {percent(figures['upper'])}"
        if sure
        else f"{figures['lower']:g} to {figures['upper']:g}"
    )
    what = "that probability" if sure else f"the value, {figures['mean']:.3g} on average,"
    main = site.fit.model.equation(relation).terms[e.shares[0].term].factors if e.shares else ()
    data = min((row.data for row in e.rows if row.factor in main), default=1.0)  # of the term that says most
    weak = " Most of it comes from the prior: there are few data about it." if data < MIN_DATA_SHARE else ""
    return f"A link has probability {percent(figures['probability'])}; with 90 % probability {what} is {ends}.{weak}"


def _prediction(e: Explanation) -> Facts:
    figures = {name: value for name, value in e.prediction.items() if name in WORDS}
    binary = "rate" in figures and figures.get("mean") == figures.get("probability")
    ends = (figures["lower"], figures["upper"]) if binary else (None, None)
    shown = {
        WORDS[name]: IntervalBar(value, *ends) if name == "probability" else value for name, value in figures.items()
    }
    return Facts.of(shown)


def _components(site: Site, e: Explanation) -> Table:
    rows = [
        [
            _component(site, share),
            Share(share.share),
            *(explanation_text.names(e, number, index, 10**6) for index in e.cell),
        ]
        for number, share in enumerate(e.shares[: explanation_text.shown_components(e)])
    ]
    return Table(["component", "share", *e.cell], rows, note=explanation_text.other_components(e), left=2 + len(e.cell))


def _component(site: Site, share: Any) -> Any:
    """A component as a link to its page, where it is one value of one latent index; a rule with the links it found."""
    if "member" in share.setting or not share.setting:
        return str(share)
    if len(share.setting) > 1:
        names = " × ".join(site.component_label(*own) for own in share.setting.items())
        return f"{names} of {share.name}" if share.name else names
    ((index, number),) = share.setting.items()
    if index not in site.component_indices:
        return share.label or str(share)
    return Ref(site.component_label(index, number), site.component_address(index, number))


def _reasons(site: Site, e: Explanation, at: Rows) -> list[Block]:
    if not e.reasons:
        return [Note(explanation_text.no_reason(e), quiet=False)]
    rows = [_reason(site, e, at, link) for link in e.reasons]
    columns = ["link", "drop", *(["what if"] if not site.no_data else []), "value", "shares"]
    words = explanation_text.measure(e)
    table = Table(columns, rows, note=explanation_text.other_links(e), left=len(columns))
    return [Note(f"Drop: {words}.", quiet=False), table]


def _reason(site: Site, e: Explanation, at: Rows, link: Link) -> list[Any]:
    row = [site.fit.entities[i].row(name) for i, name in link.cell.items()]
    named = Ref(site.names.cell_text(link.relation, row), site.names.cell_address(link.relation, row))
    first, last = [named, explanation_text.drop(link.loss)], [f"{link.value:g}", explanation_text.same(link)]
    if site.no_data:
        return [*first, *last]
    fields = [("relation", e.relation), *site.names.cell_query(e.relation, at, "cell."), ("changing", link.relation),
              *site.names.cell_query(link.relation, row, "link.")]  # fmt: skip
    hide = site.action("Hide", "/whatif", [*fields, ("change", "hide")])
    zero = site.action("Set to 0", "/whatif", [*fields, ("change", "zero")])
    return [*first, Several([hide, zero]), *last]


def _no_data(site: Site) -> list[Block]:
    """How to enable what-ifs."""
    if not site.no_data:
        return []
    return [Note(f"What-ifs refit the model, which requires the data: {site.no_data} Make the run with "
                 "`plait fit CONFIG`, and use --data DIR if the files have moved.")]  # fmt: skip


def _rests_on(site: Site, e: Explanation) -> Table:
    part = explanation_text.has_prior(e)
    rows = []
    for row in e.rows:
        named = [site.names.ref(i, site.fit.entities[i].row(name)) for i, name in row.entities.items()]
        rows.append([Several(named), row.factor, *([Share(row.data)] if part else []), row.links])
    columns = ["entity", "factor", *(["from data"] if part else []), "known links"]
    return Table(columns, rows, note=explanation_text.basis(e), left=3 if part else 2)


CHANGES = {"hide": "missing", "zero": "an observed zero", "add": "a link"}
PHASES = {
    "starting": "starting",
    "reading": "reading the run and its data",
    "before": "continuing the fit with the original data",
    "after": "continuing the fit with the changed link",
}


def ask(site: Site, asked: PageRequest) -> Any:
    """Queue a question; redirects to its page."""
    if site.no_data:
        raise Refused(409, f"what-ifs refit the model, which requires the data: {site.no_data}",
                      "Make the run with `plait fit CONFIG`; use --data DIR if the files have moved.")  # fmt: skip
    form = asked.form
    job = site.trials.ask(_question(site, form))
    raise Moved(f"/whatif/{job.id}")


def cancel(site: Site, asked: PageRequest) -> Any:
    """Stop a question."""
    job = site.trials.cancel(asked.path["id"])
    raise Moved(f"/whatif/{job.id}")


def trial(site: Site, asked: PageRequest) -> PageView:
    """A question, its progress, and the answer."""
    asked.fields(())
    job = site.trials.job(asked.path["id"])
    blocks: list[Block] = [_question_facts(site, job)]
    if job.state == "done":
        counts = not site.fit.likelihood[job.question.relation].binary
        whole = counts and all(float(job.answer[when][end]).is_integer() for when in ("before", "after")
                               for end in ("lower", "upper") if end in job.answer[when])  # fmt: skip
        blocks += [_compared(job, whole), _losses(job)]
    elif job.state == "failed":
        blocks += [Note(f"The what-if failed: {job.answer['what']}", quiet=False)]
    elif job.state == "late":
        said = f"Stopped after {site.trials.limit:g} seconds. Use --time-limit to allow more."
        blocks += [Note(said, quiet=False)]
    elif job.state == "cancelled":
        blocks += [Note("Cancelled.", quiet=False)]
    else:
        blocks += [Note(_progress(site, job), quiet=False)]
    blocks.append(Note("The run itself does not change."))
    more = {"job": job, "token": site.token, "share": min(1.0, job.sweep / MAX_SWEEPS)}
    document = Document("What if?", blocks, _plain(site, job))
    return PageView(document, "trial_part.html" if asked.part else "trial.html", more, lasting=False)


# --- the question


def _question(site: Site, form: Mapping[str, str]) -> Question:
    relation = site.names.relation(form.get("relation", ""))
    changing = site.names.relation(form.get("changing", ""))
    known = {"relation", "changing", "change", "value", *site.names.keys(relation, "cell."),
             *(key for name in site.fit.model.relations for key in site.names.keys(name, "link."))}  # fmt: skip
    if strange := [name for name in form if name not in known]:
        raise Refused(400, f"the form has no field {strange[0][:80]!r}.", "Use the form of the page.")
    cell, link = site.names.cell(relation, form, "cell."), site.names.cell(changing, form, "link.")
    try:
        cell = row_of(site.fit, relation, site.names.of_cell(relation, cell))
        link = row_of(site.fit, changing, site.names.of_cell(changing, link))
        value = _value(site, changing, form)
    except DataError as error:
        raise Refused(400, error.message, error.hint or "") from None
    if value in (0.0, None) and not site.fit.known[changing].contain(link[None, :])[0]:
        raise Refused(400, f"{site.names.cell_text(changing, link)} is not a known link.", "Choose a known link.")
    if changing == relation and tuple(cell) == tuple(link) and form.get("change") != "add":
        raise Refused(400, "a link cannot support itself.", "Choose another link.")
    claim = None if value else claimed(site, relation, cell, changing, link)
    return Question(relation, _numbers(cell), changing, _numbers(link), value, claim)


def _numbers(cell: Any) -> tuple[int, ...]:
    return tuple(int(row) for row in cell)


def _value(site: Site, relation: str, form: Mapping[str, str]) -> float | None:
    change = form.get("change", "")
    if change not in CHANGES:
        raise Refused(
            400, f"`change` must be one of {', '.join(CHANGES)}, got {change[:80]!r}.", "Choose one of these."
        )
    if change != "add":
        return None if change == "hide" else 0.0
    value = real(form.get("value") or "1", "the value")
    check_value(site.fit.likelihood[relation], value or 0.0, relation)
    return value


# --- the answer


def _words(question: Question) -> str:
    if question.value is None:
        return "missing"
    return "an observed zero" if question.value == 0 else f"a link of value {question.value:g}"


def _question_facts(site: Site, job: TrialJob) -> Facts:
    q, names = job.question, site.names
    return Facts(
        [
            ("predicted", Ref(names.cell_text(q.relation, q.cell), names.cell_address(q.relation, q.cell))),
            ("if", Ref(names.cell_text(q.changing, q.link), names.cell_address(q.changing, q.link))),
            ("were", _words(q)),
        ]
    )


def _number(name: str, value: float, counts: bool) -> Any:
    """A number of a prediction; the ends of an interval of counts are integers."""
    return round(value) if counts and name in ("lower", "upper") else f"{value:,.4f}"


def _signed(change: float) -> str:
    """A change with its sign; no change has none."""
    return "0" if abs(change) < 5e-5 else f"{change:+,.4g}".replace("-", "−")


def _compared(job: TrialJob, counts: bool) -> Table:
    before, after = job.answer["before"], job.answer["after"]
    rows = [
        [WORDS[name], _number(name, before[name], counts), _number(name, after[name], counts),
         _signed(after[name] - before[name])]
        for name in before if name in WORDS
    ]  # fmt: skip
    note = "both continue the fit with fixed priors until the expected value converges"
    return Table(["predicted", "before", "after", "difference"], rows, "Before and after", note)


def _losses(job: TrialJob) -> Facts:
    """The result, next to the first-order estimate."""
    rate = "rate" if "rate" in job.answer["before"] else "expected value"
    loss, claim = float(job.answer["loss"]), job.question.claim
    lines: list[tuple[str, Any]] = [(f"change of the {rate}, by a refit", drop(loss))]
    if claim is not None and job.question.value == 0.0:  # the estimate is of a link that is an observed zero
        lines.append((f"change of the {rate}, first-order estimate", f"about {drop(claim)}"))
    lines.append(("took", f"{job.seconds:.1f} s"))
    return Facts(lines)


def _progress(site: Site, job: TrialJob) -> str:
    if job.state == "waiting":
        ahead = site.trials.ahead(job)
        return f"Waiting: {ahead} what-if{'' if ahead == 1 else 's'} before this one."
    at = f", sweep {job.sweep} (at most {MAX_SWEEPS:,})" if job.sweep else ""
    return f"Running: {PHASES.get(job.phase, job.phase)}{at}."


def _plain(site: Site, job: TrialJob) -> dict[str, Any]:
    q, names = job.question, site.names
    state = {
        "id": job.id, "state": job.state, "phase": job.phase, "sweep": job.sweep, "saved": False,
        "relation": q.relation, "cell": names.of_cell(q.relation, q.cell), "changing": q.changing,
        "link": names.of_cell(q.changing, q.link), "value": q.value, "claim": q.claim,
    }  # fmt: skip
    if job.state == "done":
        state |= {name: job.answer[name] for name in ("before", "after", "loss")} | {"seconds": job.seconds}
    if job.state == "failed":
        state |= {"what": job.answer["what"]}
    return state
