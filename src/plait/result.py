"""What a fit returns: its record, and the questions it answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from plait._typing import Array
from plait.data.bound import Data
from plait.errors import ParameterError, suggestion, warn_of
from plait.storage.fitted import Fitted, Member

if TYPE_CHECKING:
    import polars as pl
    import xarray
    from narwhals.typing import IntoDataFrame

    from plait.analysis.explain.explain import Explanation
    from plait.plotting.plots import FitPlot

Table = TypeVar("Table", bound="IntoDataFrame")


@dataclass(frozen=True, eq=False)
class Fit(Fitted):
    """A fitted model.

    factors: posteriors by name (a given factor without latent indices is an exposure, not among them). prior: what they
    were fitted under, after adaptation (VB, MAP). entities: names by axis and by index, in row order. objective: the
    evidence bound (EM: log-likelihood, MAP: log joint) of exactly this state. history: one `Record` a sweep, the start
    first. stop: why it stopped, a `plait.Stop`: `stop.reason`, and as text a sentence. known: the observed links by
    relation. likelihood: by relation, an object that equals its name unless anything was given with it;
    likelihood_params: by relation its own numbers, {"burst": 0.7}. titles: by axis and by index what people call
    entities, a mapping from those that have a title; tables and explanations show it beside the name (`film_title`).
    settings: the arguments of the fit. fingerprint: of the data, equal for equal data. state: what the loop would go on
    from.

    members: with `restarts=`, all fits of the ensemble, each a Fit of its own; else this one. An ensemble answers
    `predict`, `top`, `explain` and `sample` by the mixture of its members. What else it shows, `factors`, `prior`,
    `objective`, `history`, is that of the member with the best bound (with `bootstrap=True` of the first).
    """

    @overload
    def predict(
        self,
        relation: str,
        cells: dict[str, Any],
        *,
        handle_unknown: Literal["error", "prior"] = "error",
        new_entities: Mapping[str, Any] | None = None,
    ) -> "pl.DataFrame": ...

    @overload
    def predict(
        self,
        relation: str,
        cells: Table,
        *,
        handle_unknown: Literal["error", "prior"] = "error",
        new_entities: Mapping[str, Any] | None = None,
    ) -> Table: ...

    def predict(
        self,
        relation: str,
        cells: Any,
        *,
        handle_unknown: Literal["error", "prior"] = "error",
        new_entities: Mapping[str, Any] | None = None,
    ) -> Any:
        """What is expected at some cells: the same kind of table, with the columns mean, sd, probability, lower,
        upper.

        cells: a table (or a dict of columns) with a column for each index of the relation, by outside names.
        handle_unknown: a name that the fit has not seen is an "error", or has the "prior". new_entities: rows of guests
        by relation, as for `fold_in`, which the cells may name.

        probability: of a link, P(x > 0). mean: the expected count. sd: of its rate, from the uncertainty of the
        factors. lower, upper: a 90 % predictive interval of the count.

        Under Bernoulli `mean` is the probability of a link, 1 − e^−rate averaged over the posterior; sd, lower and
        upper say how unsure that probability is: its standard deviation and a 90 % credible interval. A column `rate`
        holds the expected rate.

        Under "negbin", "tweedie" and others in which an event adds more than 1 the mean is that of the value, sd says
        how unsure that mean is, lower and upper are a 90 % predictive interval of the value, and `rate` is the number
        of events.

        EM and MAP know no uncertainty: sd is 0, a count has the interval of a Poisson distribution, and a probability
        that of a point.
        """
        from plait.analysis.predict.prediction import predict

        return predict(self, relation, cells, handle_unknown=handle_unknown, new_entities=new_entities)

    def top(
        self, relation: str, k: int = 10, *, given: Mapping[str, Any] | None = None,
        per: str | Sequence[str] | None = None, include_known: bool = False, exclude: Any = None, score: str = "mean",
        new_entities: Mapping[str, Any] | None = None,
    ) -> "IntoDataFrame":  # fmt: skip
        """The k most probable links of a relation, best first: a table with the columns of `predict`.

        It is of the kind that the relation's data were, pandas, polars or pyarrow; polars where they were no table.

        Exact, though most cells are never looked at.

        given: some of the indices, each with a name or a list of names. per: an index, or several, for every entity of
        which k links are wanted, one entity after the other: `per="user"`. include_known: whether links of the data may
        be among them. exclude: what else is not to be proposed, a table or several (or dicts of columns) over some of
        the indices: seen elsewhere, out of stock. score: the column to rank by, "mean", "probability" or "rate".
        new_entities: rows by relation of entities that are not stored, as for `fold_in`, which may be given.

        What a rule makes unobservable is not proposed: pairs and slices of `missing=`, self-links where hardly any is
        observed, cells of exposure 0. Single missing cells, and all that is hidden for a test, may be. Where rules
        leave nothing of what is asked for, a `plait.errors.NoCandidatesWarning` says so.
        """
        from plait.analysis.topk.top import propose
        from plait.data.sources.tables import as_kind

        table, closed = propose(
            self,
            relation,
            k,
            given=given,
            per=per,
            include_known=include_known,
            exclude=exclude,
            score=score,
            new_entities=new_entities,
        )
        if closed is not None:
            warn_of([closed])
        return as_kind(table, self.known[relation].kind)

    def explain(
        self, relation: str, cell: Mapping[str, Any], *, top: int = 5, exact: bool | str = False,
        data: Mapping[str, Any] | Data | None = None,
    ) -> "Explanation":  # fmt: skip
        """Why a link is predicted: the share of every component, who characterises it, and which known links say so.

        cell: the name of each index. top: how many entities and links to show of each kind.

        The percentage of a known link is about how much smaller the mean would be, were the link an observed zero: its
        entities in this cell settle anew, all others are held. A link that is missing, not observed at all, is another
        question, and takes less away.

        exact: fit again to be exact, warm and with the priors held, once for each link that is named: True or "zero"
        with the link an observed zero, "missing" with the link not observed. data: what was given to `plait.fit`,
        which a fit does not keep; only needed for exact.
        """
        from plait.analysis.explain.explain import explain

        return explain(self, relation, cell, top=top, exact=exact, data=data)

    def coupling(self) -> "pl.DataFrame":
        """How much each relation contributes to each component: a table with the columns component, relation, counts,
        share, sd, index, term, part, kind.

        A row for every relation and every value (`component`) of its latent indices (`index`); where its equation is a
        sum, for every term (`term`, its factors) by itself, and one for a term without latent indices. counts: what the
        component explains of the relation's known links, weights included. share: of the relation's counts. sd: of
        counts, from not knowing which component each link comes from. An ensemble shows its best member.

        part: how much of the component's evidence comes from this relation: its share over the sum of the component's
        shares of all relations that have it, so that a large relation does not drown a small one. kind: "private"
        where one relation has at least 0.95 of that, else "shared". Both are null where there is no component.
        """
        from plait.analysis.explain.coupling import coupling

        return coupling(self)

    def components(self, *, top: int | None = 10) -> "pl.DataFrame":
        """Who is in each component: the `top` heaviest entities of every factor and axis that has it, None for all.

        The columns are component (the number that `coupling` and `explain` give it), index (the latent one), factor,
        axis, entity (its name as text), weight, sd, lift, data and a share for every relation. weight: the entity's
        share of the component in that factor, its mean over the sum of all entities'. sd: of that share, to first
        order; 0 under EM and MAP. lift: weight over the entity's share of the known counts of the relations in which
        the factor stands; null where it has none. data: how much of the weight comes from data, and not from the
        prior, 0 to 1; 1 under EM and of a given factor. share_visits: the component's share of the known counts of
        visits, from `coupling`; null where the relation does not have it. Of a fit with titles, entity_title stands
        behind entity.

        Rows are ordered by index, component, factor and axis, as the model has them; the heaviest first. Of a factor
        with several latent indices each has its components, the others summed out, each value weighed by what the rest
        of the model holds of it. A factor over several visible indices has rows for each of them, the others added up
        (for pairs, over those that are remembered); where two of them are one axis, `axis` is the index. A core has no
        rows. An ensemble shows its best member.
        """
        from plait.analysis.components.component_members import components

        return components(self, top=top)

    def similar(self, axis: str, name: Any, k: int = 10) -> "pl.DataFrame":
        """The k entities of an axis whose components are most like those of one of them, best first.

        The columns are the axis, similarity and sd. similarity: Σ √(p q), from 0 (no component in common) to 1 (the
        same profile), where a profile p is the share of every component in the counts that are expected of the entity:
        neither how popular it is nor the scale of a factor matters. Several factors on the axis: the mean, weighed by
        the known counts of the relations that they stand in.

        sd: how far the similarities of draws from the posterior are from it (root mean square; 300 draws, always the
        same). An entity without data has the profile of the prior: its similarities mean nothing, and their sd is
        large. EM and MAP know no uncertainty: sd is 0. An ensemble averages over its members, and sd has their
        disagreement in it.
        """
        from plait.analysis.components.similar import similar

        return similar(self, axis, name, k)

    def surprising(self, relation: str, k: int = 10) -> "pl.DataFrame":
        """The k known links that the model finds least likely, and the k observed zeros that it finds most unlikely.

        The columns are the indices, kind ("link" or "zero"), value, surprise and those of `predict`; links come first,
        each kind with the most surprising one first. surprise: −log of the probability of what was observed, in nats:
        P(x > 0) of a link, whatever its value, and P(x = 0) of a zero. It ends at 708, where a probability is 0.

        Zeros are those that the fit has seen: cells that are missing, hidden or closed by a rule are none. Where only
        links were observed there are no zeros; nor in runs of versions that did not keep what is observed.
        """
        from plait.analysis.topk.surprising import surprising

        return surprising(self, relation, k)

    def responsibilities(self, relation: str, cells: Any, *, most: int | None = None) -> "pl.DataFrame":
        """Where the counts of cells come from: the share of each term and latent value, and the counts it is expected
        to have, one a row.

        cells: a table (or a dict of columns) as for `predict`. A column `value` has the observed values; where there is
        none, a known link has its own. most: how many components of a cell are listed, the largest ones; all of them,
        if they are 1,000 or fewer.

        The table has the index columns, value, in a sum term (its factors), a column for each latent index, share and
        expected. The shares of a cell add up to 1. Where its value is observed they are those of what was observed, and
        expected adds up to the value (Bernoulli: to the expected count behind it); elsewhere they are shares of the
        predicted mean, and expected is empty. An ensemble has a column `member`: its members share each cell by what
        they add to the mean.
        """
        from plait.analysis.explain.responsibilities import responsibilities

        return responsibilities(self, relation, cells, most=most)

    def fold_in(self, data: Mapping[str, Any], *, iterations: int = 10) -> Self:
        """This fit with new entities beside the old ones; everything else is untouched, to the last bit.

        data: rows by relation, as for `plait.fit`, each with at least one entity that the fit does not know; a relation
        without new rows is left out. All rows of factors that there were are held. Those of new entities are a small
        problem of their own: by the fit's method, under the factor's prior (where each entity has its own, under their
        average), from their own cells. These are observed as all others are: where what is not listed is a 0, so it is
        for a new entity and every known one of the relation. An entity that only other relations mention is missing
        here, unless unseen="zero". iterations: ten are enough (see the docs).

        The result answers every question, can be saved, and folded in again. What is learnt of new entities does not
        change what others have taught: for that, see `update`.
        """
        from plait.incremental.fold_in import fold_in

        return fold_in(self, data, iterations=iterations)

    def update(self, data: Mapping[str, Any], *, iterations: int = 5) -> Self:
        """A fit that has learnt new links without the old data: the posterior holds the counts of these.

        data: rows by relation, as for `plait.fit`. Every factor is updated with the counts that it had and those of the
        new links, which each iteration takes anew; priors and a likelihood's own numbers are held. A link between known
        entities adds counts and no exposure where its cell was an observed zero, and is observed from now on where it
        was not. New entities extend what is observed as they do in `fold_in`. A cell known already is added up under
        Poisson, and refused under other likelihoods, whose old links stand for more events where new ones raise their
        rates: some of the known links tell how many. What was folded in before is learnt, too.

        Refused: an ensemble with bootstrap=True, whose weights are not kept, and runs of earlier versions. EM and MAP
        hold the counts of a fit that has converged; of others they are approximate.
        """
        from plait.incremental.update import update

        return update(self, data, iterations=iterations)

    def title(self, axis: str, name: Any) -> str | None:
        """What people call an entity of an axis (or index); None where it has no title."""
        if axis not in self.entities:
            hint = f"{suggestion(axis, self.model.axes)}Its axes are {', '.join(self.model.axes) or 'none'}."
            raise ParameterError(f"{axis!r} is no axis of the model.", location="title", actual=axis, hint=hint)
        return self.titles[axis].get(name) if axis in self.titles else None

    def with_titles(self, titles: Mapping[str, Any]) -> Self:
        """The same fit with titles, as `plait.fit(…, titles=…)` takes them; those it had stay where none are given.

        By axis a table with a column of ids, named as the axis (or the first one), and a column `title` (or `name`, or
        the only other one); or a dict {id: title}. A title that is null or empty takes away that of its entity.
        """
        from plait.data.titles import bind_titles

        return self._with_bound_titles(bind_titles(self.model, self.entities, titles, self.titles))

    def sample(self, n: int, seed: int | None = None) -> dict[str, Array]:
        """Draws of all factors from the posterior, by name: arrays (n, …) with the axes as written."""
        from plait.analysis.export import sample

        return sample(self, n, seed)

    def to_xarray(self) -> "xarray.Dataset":
        """The factors as a labelled `xarray.Dataset` (needs xarray: pip install 'tensorplait[xarray]')."""
        from plait.analysis.export import to_xarray

        return to_xarray(self)

    def to_datatree(
        self, draws: int = 1000, factors: str | Iterable[str] | None = None, seed: int | None = None
    ) -> "xarray.DataTree":
        """Draws from the posterior as an `xarray.DataTree`, which ArviZ reads (needs xarray, as `to_xarray` does).

        draws: from each member. factors: the names of those that are wanted, or one name; all, unless given. seed:
        equal seeds give equal draws, those of `sample`; None draws one.

        The group posterior has each factor with the dimensions chain, draw and its indices as written, labelled as in
        `to_xarray`. Given factors are known and not drawn: they are in the group constant_data. Attributes: those of
        `to_xarray`, the fingerprint of the data, inference_library and its version.

        Each member of an ensemble is a chain. These are different optima, which number their components as they like,
        so R-hat and what else compares chains says nothing of factors; components that a member has not are 0. Draws
        within a chain are independent. There is no sample_stats, for nothing was accepted, rejected or tuned; and no
        observed_data, which would be dense. Under EM and MAP there is no posterior: refused.
        """
        from plait.analysis.export import to_datatree

        return to_datatree(self, draws, factors, seed)

    def report(
        self, path: str | PathLike[str], *, test: Any = None, relation: str | None = None, interactive: bool = False,
        replace: bool = False,
    ) -> None:  # fmt: skip
        """Write all that is known of the fit as one page of HTML (needs pip install 'tensorplait[report]').

        Warnings, predicted links with reasons, components, how relations share them, surprises, how the fit went, and
        how to make it again. test: cells that the fit has not seen, as for `plait.evaluate`: then how good it is, too.
        relation: what the test is of, where there are several. interactive: tables that sort and charts that answer to
        the pointer, by scripts inside of the file; without them it has none. The page asks for no other file. replace:
        whether a file that is there may go.
        """
        from plait.report.report_file import report

        report(self, path, test=test, relation=relation, interactive=interactive, replace=replace)

    def save(self, path: str | PathLike[str], *, replace: bool = False, extra: Mapping[str, Any] | None = None) -> None:
        """Write the fit into a folder, for `plait.load`; a path that ends in `.plait` is one file, an archive of it.

        What is there changes as a whole or not at all. The run of another fit is an error unless replace is True; this
        fit itself, or an earlier state of it such as a checkpoint, may be there, and nothing but a run is ever
        replaced. extra: anything that JSON can hold, kept beside it; where this fit was saved before, what is there
        stays.
        """
        from plait.storage.save import save

        members = [Member(fit.seed, fit.state, fit.stop) for fit in self.members]
        save(path, self._origin, members, self.stop, replace=replace, extra=extra)

    @property
    def plot(self) -> "FitPlot":
        """Charts by name, each an Altair chart (`pip install 'tensorplait[report]'`): ``fit.plot.objective()``.

        objective, components, coupling, rank, entity, neighbourhood.
        """
        from plait.plotting.plots import FitPlot

        return FitPlot(self)

    def __repr__(self) -> str:
        relations = ", ".join(self.model.relations)
        ranks = ", ".join(f"{index}={size}" for index, size in self.rank.items())
        fit = "Fit" if len(self.members) == 1 else f"Ensemble of {len(self.members)} fits"
        return (
            f"{fit} of {relations} by {self.method}, rank {ranks or 'none'}: bound {self.objective:,.6g}; {self.stop}"
        )

    def __str__(self) -> str:
        if len(self.members) > 1:
            bounds = ", ".join(f"{member.objective:,.6g}" for member in self.members)
            shown = "first one, which alone saw links as they are" if self.settings.get("bootstrap") else "best one"
            return (
                f"{self!r}\nIt predicts by all of them (bounds {bounds}); factors, prior and history are those of "
                f"the {shown}, and fit.members has the others."
            )
        if self.method != "vb":
            return repr(self)
        if self.history[-1].warm_up:
            return f"{self!r}\nIts bound is the log-likelihood that the warm-up has reached: it compares with no other."
        return f"{self!r}\nIts bound compares with those of other ranks and equations: same data, same adapt_prior=."

    def _repr_html_(self) -> str:
        from plait.plotting.pictures import objective
        from plait.rendering.html import render
        from plait.rendering.objects import describe_fit

        return render(describe_fit(self, [objective(self)]))


def load(path: str | PathLike[str]) -> Fit:
    """The fit that `Fit.save` or a checkpoint wrote into a folder or a `.plait` file; all works as on the day it was
    made.

    A run that was interrupted loads as it stood at its last checkpoint; `plait.fit(…, init=path)` goes on with it.
    """
    from plait.storage.load import read_run as read

    return Fit._of(*read(path))
