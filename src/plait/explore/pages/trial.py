"""What-ifs: asking for one, and its answer, before and after."""

from collections.abc import Mapping
from typing import Any

from plait.answer.explain.changing import check_value
from plait.answer.explain.refit import MOST
from plait.answer.predict.lookup import row_of
from plait.errors import DataError
from plait.explore.asked import Asked, Moved, Refused, View, real
from plait.explore.pages.cell import WORDS, claimed
from plait.explore.site import Site
from plait.explore.whatif import Job, Question
from plait.show.document import Block, Document, Facts, Note, Ref, Table
from plait.show.words import percent

CHANGES = {"hide": "missing", "zero": "an observed zero", "add": "a link"}
PHASES = {"starting": "starting", "reading": "reading the run and its data", "before": "fitting on with the data as "
          "they are", "after": "fitting on with the change"}  # fmt: skip


def ask(site: Site, asked: Asked) -> Any:
    """Put a question into the queue; its page has the answer."""
    if site.no_data:
        raise Refused(409, f"what-ifs fit again, which needs the data: {site.no_data}",
                      "Make the run with `plait fit CONFIG`; say --data DIR where its files have moved.")  # fmt: skip
    form = asked.form
    job = site.trials.ask(_question(site, form))
    raise Moved(f"/whatif/{job.id}")


def cancel(site: Site, asked: Asked) -> Any:
    """Stop a question."""
    job = site.trials.cancel(asked.path["id"])
    raise Moved(f"/whatif/{job.id}")


def trial(site: Site, asked: Asked) -> View:
    """A question, how far its answer is, and the answer."""
    asked.fields(())
    job = site.trials.job(asked.path["id"])
    blocks: list[Block] = [_asked(site, job)]
    if job.state == "done":
        blocks += [_compared(job), _losses(job)]
    elif job.state == "failed":
        blocks += [Note(f"It could not be done: {job.answer['what']}", quiet=False)]
    elif job.state == "late":
        said = f"It took longer than {site.trials.limit:g} seconds, and was stopped. --time-limit allows for more."
        blocks += [Note(said, quiet=False)]
    elif job.state == "cancelled":
        blocks += [Note("It was cancelled.", quiet=False)]
    else:
        blocks += [Note(_progress(site, job), quiet=False)]
    blocks.append(Note("Not saved: the run is as it was."))
    more = {"job": job, "token": site.token, "share": min(1.0, job.sweep / MOST)}
    document = Document("What if? (not saved)", blocks, _plain(site, job))
    return View(document, "trial_part.html" if asked.part else "trial.html", more, lasting=False)


# --- the question


def _question(site: Site, form: Mapping[str, str]) -> Question:
    relation = site.names.relation(form.get("relation", ""))
    changing = site.names.relation(form.get("changing", ""))
    known = {"relation", "changing", "change", "value", *site.names.keys(relation, "cell."),
             *(key for name in site.fit.model.relations for key in site.names.keys(name, "link."))}  # fmt: skip
    if strange := [name for name in form if name not in known]:
        raise Refused(400, f"the form knows no {strange[0][:80]!r}.", "Use the one of the page.")
    cell, link = site.names.cell(relation, form, "cell."), site.names.cell(changing, form, "link.")
    try:
        cell = row_of(site.fit, relation, site.names.of_cell(relation, cell))
        link = row_of(site.fit, changing, site.names.of_cell(changing, link))
        value = _value(site, changing, form)
    except DataError as error:
        raise Refused(400, error.message, error.hint or "") from None
    if value in (0.0, None) and not site.fit.known[changing].contain(link[None, :])[0]:
        raise Refused(400, f"{site.names.cell_text(changing, link)} is no known link.", "Choose one that is.")
    if changing == relation and tuple(cell) == tuple(link) and form.get("change") != "add":
        raise Refused(400, "the link itself cannot be its reason.", "Choose another link.")
    claim = None if value else claimed(site, relation, cell, changing, link)
    return Question(relation, _numbers(cell), changing, _numbers(link), value, claim)


def _numbers(cell: Any) -> tuple[int, ...]:
    return tuple(int(row) for row in cell)


def _value(site: Site, relation: str, form: Mapping[str, str]) -> float | None:
    change = form.get("change", "")
    if change not in CHANGES:
        raise Refused(400, f"a change is one of {', '.join(CHANGES)}, got {change[:80]!r}.", "Take one of these.")
    if change != "add":
        return None if change == "hide" else 0.0
    value = real(form.get("value") or "1", "the value")
    check_value(site.fit.likelihood[relation], value or 0.0, relation)
    return value


# --- the answer


def _words(question: Question) -> str:
    if question.value is None:
        return "missing: not observed at all"
    return "an observed zero" if question.value == 0 else f"a link of value {question.value:g}"


def _asked(site: Site, job: Job) -> Facts:
    q, names = job.question, site.names
    return Facts(
        [
            ("predicted", Ref(names.cell_text(q.relation, q.cell), names.cell_address(q.relation, q.cell))),
            ("if", Ref(names.cell_text(q.changing, q.link), names.cell_address(q.changing, q.link))),
            ("were", _words(q)),
        ]
    )


def _compared(job: Job) -> Table:
    before, after = job.answer["before"], job.answer["after"]
    rows = [[WORDS[name], before[name], after[name], after[name] - before[name]] for name in before if name in WORDS]
    note = "both fitted on from the run, priors held, until the expected value stands still"
    return Table(["predicted", "before", "after", "difference"], rows, "Before and after", note)


def _losses(job: Job) -> Facts:
    """What came of it, beside what was claimed."""
    rate = "rate" if "rate" in job.answer["before"] else "expected value"
    loss, claim = float(job.answer["loss"]), job.question.claim
    moved = f"smaller by {percent(loss)}" if loss >= 0 else f"larger by {percent(-loss)}"
    lines: list[tuple[str, Any]] = [(f"the {rate}, fitted again", moved)]
    if claim is not None:
        told = "to first order, were it an observed zero"
        lines.append((told, f"smaller by about {percent(claim)}"))
    lines.append(("took", f"{job.seconds:.1f} s"))
    return Facts(lines)


def _progress(site: Site, job: Job) -> str:
    if job.state == "waiting":
        ahead = site.trials.ahead(job)
        return f"Waiting: {ahead} what-if{'' if ahead == 1 else 's'} before this one."
    at = f", sweep {job.sweep} (at most {MOST:,})" if job.sweep else ""
    return f"Running: {PHASES.get(job.phase, job.phase)}{at}."


def _plain(site: Site, job: Job) -> dict[str, Any]:
    q, names = job.question, site.names
    found = {
        "id": job.id, "state": job.state, "phase": job.phase, "sweep": job.sweep, "saved": False,
        "relation": q.relation, "cell": names.of_cell(q.relation, q.cell), "changing": q.changing,
        "link": names.of_cell(q.changing, q.link), "value": q.value, "claim": q.claim,
    }  # fmt: skip
    if job.state == "done":
        found |= {name: job.answer[name] for name in ("before", "after", "loss")} | {"seconds": job.seconds}
    if job.state == "failed":
        found |= {"what": job.answer["what"]}
    return found
