"""The first page: the report's summary, and ways into the run."""

from urllib.parse import quote

from plait.chart import pictures
from plait.explore.asked import Asked, View
from plait.explore.site import Site
from plait.report.run import description
from plait.report.sections.summary import summary
from plait.report.subject import Subject
from plait.show.document import Code, Document, Facts, Note, Ref, Section, Table, Warn
from plait.show.words import write_shape


def home(site: Site, asked: Asked) -> View:
    """Warnings, relations and axes, and what the fit is."""
    asked.fields(())
    told = summary(Subject(site.fit, str(site.run), site.header))
    first = [block for block in told if isinstance(block, (Warn, Note))]
    fit = [block for block in told if isinstance(block, (Code, Facts))]
    blocks = [*first, relations(site), axes(site), Section("The fit", [*fit, pictures.bound(site.fit)])]
    return View(Document(f"Run {site.run.name}", blocks, description(site.fit, dict(site.header))))


def relations(site: Site) -> Table:
    """A line for each relation."""
    fit = site.fit
    rows = [
        [site.relation_ref(name), fit.likelihood[name].describe(fit.learnt[name]), write_shape(known.shape), len(known)]
        for name, known in fit.known.items()
    ]
    return Table(["relation", "likelihood", "size", "known links"], rows, "Relations", left=3)


def axes(site: Site) -> Table:
    """A line for each axis."""
    fit = site.fit
    rows = [
        [Ref(axis, f"/axis/{quote(axis, safe='')}"), ", ".join(_relations_of(site, axis)), len(fit.labels[axis])]
        for axis in fit.model.axes
    ]
    return Table(["axis", "in relations", "entities"], rows, "Axes", left=2)


def _relations_of(site: Site, axis: str) -> list[str]:
    model = site.fit.model
    return [e.relation for e in model.equations if any(model.axis(index) == axis for index in e.indices)]
