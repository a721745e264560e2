"""The first page: what the run is, and ways into it."""

from urllib.parse import quote

from plait.chart import pictures
from plait.explore.asked import Asked, View
from plait.explore.site import Site
from plait.report.run import description, ending, members, rank_words, reached, weight_words
from plait.show.document import Code, Document, Facts, Note, Ref, Section, Table
from plait.show.words import write_shape


def home(site: Site, asked: Asked) -> View:
    """The run: its model, how the fit went, its relations and axes."""
    asked.fields(())
    fit = site.fit
    about = {
        "method": f"{fit.method}, rank {rank_words(fit.rank, fit.settings)}, seed {fit.seed}",
        **weight_words(fit.settings),
        **members(fit),
        "bound": reached(fit),
        "ended": ending(fit, dict(site.header)),
        "data": f"fingerprint {fit.fingerprint}",
        "saved by": f"plait {site.header['plait']}",
    }
    blocks = (
        Note("Look up an entity above, or begin with one of these.", quiet=False),
        relations(site),
        axes(site),
        Section("The fit", [Code(str(fit.model)), Facts.of(about), pictures.bound(fit)]),
    )
    return View(Document(f"Run {site.run.name}", blocks, description(fit, dict(site.header))))


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
