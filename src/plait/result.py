"""`Fit`, the fitted model with its queries, and `load`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from plait._typing import Array
from plait.data.bound import Data
from plait.data.sources.tables import POLARS, as_kind, kind_of
from plait.errors import OF_PREDICT, OF_TOP, ParameterError, refusing_unknown, suggestion, warn_of
from plait.rendering.formatting import evidence_words, likelihood_words, objective_word
from plait.storage.fitted import Fitted, Member

if TYPE_CHECKING:
    import polars as pl
    import xarray
    from narwhals.stable.v2.typing import IntoDataFrame

    from plait.analysis.explain.explain import Explanation
    from plait.plotting.plots import FitPlot

Table = TypeVar("Table", bound="IntoDataFrame")


@dataclass(frozen=True, eq=False)
class Fit(Fitted):
    """Fitted model: the posterior of all factors, and methods to query it.

    `plait.fit` and `plait.load` return it.

    Attributes
    ----------
    model : Model
        The model.
    method : str
        ``"vb"``, ``"em"`` or ``"map"``.
    rank : dict of str to int
        Size of each latent index.
    factors : mapping of str to Posterior
        Posterior of each factor. Exposures are not among them.
    prior : dict of str to Gamma
        Prior of each factor after adaptation (VB and MAP).
    entities : mapping of str to names
        Names of the entities per axis and per index, in row order.
    titles : mapping of str to mapping
        Display names per axis and per index: ``fit.titles["film"][7]``.
    objective : float
        Larger is better: the ELBO of VB, the log-likelihood of EM, the log joint density
        of MAP.
    history : list of Record
        One record per sweep with ``sweep``, ``objective``, ``change``, ``seconds`` and
        ``rank``. Sweeps of the warm-up have negative numbers.
    stop : Stop
        Why the fit stopped.
    converged : bool
        Whether the fit stopped because the objective converged.
    seed : int
        Random seed of the fit.
    known : dict of str to links
        Links of the training data per relation: ``known["visits"].cells`` has their row
        numbers, ``.values`` their values and ``.weights`` their weights.
    likelihood : dict of str to plait.likelihood.Likelihood
        Likelihood of each relation. It equals its name: ``likelihood["visits"] == "poisson"``.
    likelihood_params : dict of str to dict
        Parameters of each likelihood, learnt or given: ``{"visits": {"burst": 0.7}}``.
    calibration : dict of str to Calibration
        Calibration of probabilities per relation, after `calibrate`.
    members : tuple of Fit
        All fits of an ensemble (``restarts``); otherwise this fit alone.
    settings : dict
        Arguments of the fit.
    fingerprint : str
        Hash of the data. Equal data have equal fingerprints.
    plot : FitPlot
        Charts of the fit.

    Notes
    -----
    An ensemble answers `predict`, `top`, `explain` and `sample` with the mixture of its
    members. Its ``factors``, ``prior``, ``objective`` and ``history`` are those of the member
    with the best objective, with ``bootstrap=True`` those of the first.

    All methods return tables of the library of the data: pandas, polars or pyarrow. Tables
    about all relations follow the first relation that is not polars.

    Guide: <https://tensorplait.github.io/tensorplait/looking.html>.

    Examples
    --------
    >>> fit.rank
    {'r': 2}
    >>> fit.factors["U"].mean.shape
    (5, 2)
    >>> list(fit.entities["user"])
    ['ann', 'bob', 'cem', 'dee', 'eva']
    """

    @overload
    def predict(
        self,
        relation: str,
        cells: dict[str, Any],
        *,
        handle_unknown: Literal["error", "prior"] = "error",
        new_entities: Mapping[str, Any] | None = None,
    ) -> "IntoDataFrame": ...

    @overload
    def predict(
        self,
        relation: str,
        cells: Table,
        *,
        handle_unknown: Literal["error", "prior"] = "error",
        new_entities: Mapping[str, Any] | None = None,
    ) -> Table: ...

    @refusing_unknown("predict", OF_PREDICT)
    def predict(
        self,
        relation: str,
        cells: Any,
        *,
        handle_unknown: Literal["error", "prior"] = "error",
        new_entities: Mapping[str, Any] | None = None,
    ) -> Any:
        """Predict the values of cells.

        Parameters
        ----------
        relation : str
            Name of the relation.
        cells : table or dict of columns
            One column per index of the relation.
        handle_unknown : one of "error", "prior", default "error"
            What to do with a name that the fit does not know: raise an error, or predict from
            the prior.
        new_entities : dict of str to table, default None
            Rows per relation of entities that the fit does not know, as for `fold_in`. The
            cells may name them; the fit does not store them.

        Returns
        -------
        table
            The cells with the columns ``mean``, ``sd``, ``probability``, ``lower`` and
            ``upper``, as the same kind of table. Some likelihoods add ``rate``.

        Raises
        ------
        plait.errors.DataError
            If a column is missing, or a name is unknown.
        plait.errors.ModelError
            If the model does not have the relation.

        Notes
        -----
        The columns depend on the likelihood of the relation.

        - Poisson: ``mean`` is the expected count and ``probability`` that of a link, P(x > 0).
          ``sd`` is the posterior standard deviation of the rate. ``lower`` and ``upper`` are a
          90 % predictive interval of the count.
        - Bernoulli: ``mean`` and ``probability`` are the probability of a link. ``sd``,
          ``lower`` and ``upper`` are its posterior standard deviation and 90 % credible interval.
          ``rate`` is the expected rate.
        - Others (``"negbin"``, ``"tweedie"``): ``mean`` is the expected value and ``sd`` its
          posterior standard deviation. ``lower`` and ``upper`` are a 90 % predictive interval of
          the value. ``rate`` is the expected number of events.

        Intervals of probabilities are too narrow for one fit: on simulated data, nominal 90 %
        contain the true probability in 65 to 71 % of the cells, with ``restarts=5`` in 75 to 87 %,
        with ``bootstrap=True`` too in 87 to 90 %. Intervals of counts contain 89 to 90 %. After
        `calibrate`, probabilities and intervals are calibrated.

        EM and MAP have no posterior uncertainty: ``sd`` is 0, the interval of a count is that of
        its Poisson distribution, and the interval of a probability is a point.

        Examples
        --------
        >>> cells = pl.DataFrame({"user": ["bob", "bob"], "place": ["club", "pool"]})
        >>> fit.predict("visits", cells)["mean"].round(1).to_list()
        [4.5, 0.2]
        """
        from plait.analysis.predict.prediction import predict

        predicted = predict(self, relation, cells, handle_unknown=handle_unknown, new_entities=new_entities)
        return self._in_kind(predicted, relation) if isinstance(cells, dict) else predicted

    @overload
    def top(
        self, relation: str, k: int = 10, *, given: Mapping[str, Any] | None = None,
        per: str | Sequence[str] | None = None, include_known: bool = False, exclude: Any = None, score: str = "mean",
        new_entities: Mapping[str, Any] | None = None, output: None = None,
    ) -> "IntoDataFrame": ...  # fmt: skip

    @overload
    def top(
        self, relation: str, k: int = 10, *, given: Mapping[str, Any] | None = None,
        per: str | Sequence[str], include_known: bool = False, exclude: Any = None, score: str = "mean",
        new_entities: Mapping[str, Any] | None = None, output: str | PathLike[str],
    ) -> Path: ...  # fmt: skip

    @refusing_unknown("top", OF_TOP)
    def top(
        self, relation: str, k: int = 10, *, given: Mapping[str, Any] | None = None,
        per: str | Sequence[str] | None = None, include_known: bool = False, exclude: Any = None, score: str = "mean",
        new_entities: Mapping[str, Any] | None = None, output: str | PathLike[str] | None = None,
    ) -> "IntoDataFrame | Path":  # fmt: skip
        """Find the k best links of a relation.

        Parameters
        ----------
        relation : str
            Name of the relation.
        k : int, default 10
            Number of links.
        given : dict of str to name or list of names, default None
            Restrict indices to these entities.
        per : str or sequence of str, default None
            Return k links for each entity of this index, or for each combination of several.
        include_known : bool, default False
            Whether links of the training data are candidates.
        exclude : table, dict of columns or list of these, default None
            Further cells that are not candidates. The columns are some of the indices.
        score : one of "mean", "probability", "rate", default "mean"
            Column to rank by.
        new_entities : dict of str to table, default None
            Rows per relation of entities that the fit does not know, as for `fold_in`.
            ``given`` may name them; the fit does not store them.
        output : path, default None
            File to write the links to, for large answers; requires ``per``. Its ending is the
            format: ``.parquet``, ``.arrow``, ``.feather``, or ``.csv``, ``.tsv``, ``.txt``
            (each also ``.gz``). An existing file is replaced.

        Returns
        -------
        table or pathlib.Path
            The links, best first, with the columns of `predict`; or the file, with ``output``.

        Raises
        ------
        plait.errors.ParameterError
            If ``k``, ``per`` or ``score`` is wrong, or ``output`` is given without ``per``.
        plait.errors.DataError
            If a name in ``given`` is unknown, or the file cannot be written.

        Warns
        -----
        plait.errors.NoCandidatesWarning
            If rules exclude all cells.
        plait.errors.InexactSearchWarning
            If the list may lack links: with a calibration that has features, of a query with more
            than a million cells.

        Notes
        -----
        The search is exact, but for this case. Branch and bound skips most cells.

        `top` skips pairs and slices of ``missing``, self-links where the data have hardly any,
        self-links of slices (relations of a knowledge graph) with 20 links or more and no
        self-link, and cells with exposure 0. Single missing cells and held-out cells are
        candidates.

        With ``output``, the links are written in chunks as they are found, so the memory does
        not grow with their number. The rows and their order are those of the table. The file
        appears when it is complete.

        Examples
        --------
        >>> fit.top("visits", k=2).select("user", "place").rows()
        [('bob', 'club'), ('cem', 'bar')]
        >>> fit.top("visits", k=1, per="user")["user"].to_list()
        ['ann', 'bob', 'cem', 'dee', 'eva']
        >>> path = fit.top("visits", k=1, per="user", output="links.parquet")
        >>> len(plait.read(path))
        5
        """
        from plait.analysis.topk.top import propose, propose_to_file

        options = {
            "given": given, "per": per, "include_known": include_known, "exclude": exclude, "score": score,
            "new_entities": new_entities,
        }  # fmt: skip
        if output is None:
            table, warning = propose(self, relation, k, **options)
        else:
            warning = propose_to_file(self, relation, k, output, **options)[1]
        if warning is not None:
            warn_of([warning])
        return self._in_kind(table, relation) if output is None else Path(output)

    def forecast(
        self, relation: str, steps: int | Sequence[Any] = 1, *, cells: Any = None,
        given: Mapping[str, Any] | None = None, per: str | Sequence[str] | None = None, k: int = 10,
        exclude: Any = None, score: str = "mean", fixed: Mapping[str, Any] | None = None,
    ) -> "IntoDataFrame":  # fmt: skip
        """Predict the periods after the last one of an ordered axis.

        Parameters
        ----------
        relation : str
            Name of a relation with an index of an ordered axis.
        steps : int or list of names, default 1
            Number of periods. Their names continue the steps of the axis: integers, dates,
            months. The periods of text axes need a list of names.
        cells : table or dict of columns, default None
            Cells to predict, one column per other index. Each cell is predicted in every
            period, unless a column names the period.
        given : dict of str to name or list of names, default None
            Without ``cells``: restrict indices to these entities.
        per : str or sequence of str, default None
            Without ``cells``: return the k best links of each period for each entity of this
            index, or for each combination of several. With all other indices, all cells.
        k : int, default 10
            Without ``cells``: number of links in each period.
        exclude : table, dict of columns or list of these, default None
            Without ``cells``: cells that are not candidates, as for `top`. Links of earlier
            periods are candidates.
        score : one of "mean", "probability", "rate", default "mean"
            Column to rank by.
        fixed : dict of str to table, default None
            Rows of fixed factors over visible indices for the later periods, such as the
            evidence of `plait.evidence.recurrence`. Cells without a row have the default.

        Returns
        -------
        table
            The cells or links with the columns of `predict`.

        Raises
        ------
        plait.errors.DataError
            If ``cells`` lacks a column, or a name is unknown.
        plait.errors.ParameterError
            If the relation has no ordered axis, a factor has no chain along it, an exposure or
            a fixed factor depends on it, or an option is wrong.

        Notes
        -----
        The Gamma Markov chains continue (`GammaChain`): a factor keeps the mean of the last period,
        and its variance grows with every step. Intervals grow, too. Mean and variance are exact;
        a Gamma distribution with these moments gives ``probability``, ``lower`` and ``upper``.
        Under MAP there is no uncertainty, and all periods are equal.

        `update` with the links of a new period moves the forecast on.

        Guide: <https://tensorplait.github.io/tensorplait/time.html>.

        Examples
        --------
        >>> monthly = plait.Model("visits[user, month] = U[user, r] T[month, r]; month: ordered")
        >>> table = pl.DataFrame({"user": ["ann", "bob", "ann", "ann"], "month": [1, 1, 2, 3]})
        >>> drifting = plait.fit(monthly, {"visits": table}, **quick)
        >>> later = drifting.forecast("visits", steps=3, cells={"user": ["ann"]})
        >>> later["month"].to_list()
        [4, 5, 6]
        >>> later["sd"].is_sorted()
        True
        """
        from plait.analysis.forecast import forecast

        options = {"given": given, "per": per, "k": k, "exclude": exclude, "score": score, "fixed": fixed}
        table, warning = forecast(self, relation, steps, cells=cells, **options)
        if warning is not None:
            warn_of([warning])
        return table if cells is not None and not isinstance(cells, dict) else self._in_kind(table, relation)

    def explain(
        self, relation: str, cell: Mapping[str, Any], *, top: int = 5, exact: bool | str = False,
        data: Mapping[str, Any] | Data | None = None,
    ) -> "Explanation":  # fmt: skip
        """Explain the prediction of one cell.

        Parameters
        ----------
        relation : str
            Name of the relation.
        cell : dict of str to name
            The entity of each index.
        top : int, default 5
            Number of components, entities and links to show.
        exact : bool or one of "zero", "missing", default False
            Refit once for each supporting link, to measure its effect exactly. ``True`` and
            ``"zero"`` set the link to an observed zero; ``"missing"`` makes it unobserved.
        data : mapping or None, default None
            The data given to `plait.fit`; required by ``exact``, because a fit does not store
            them.

        Returns
        -------
        Explanation
            Components, supporting links and the part of the prior. Print it to read it.

        Raises
        ------
        plait.errors.DataError
            If a name is unknown.
        plait.errors.ParameterError
            If ``exact`` is given without ``data``.

        Notes
        -----
        Without ``exact`` the effect of a known link is a first-order estimate: the fraction by
        which the mean would fall if the link were an observed zero. The estimate updates the
        factors of the link's entities in this cell and keeps all others.

        Examples
        --------
        >>> explanation = fit.explain("visits", {"user": "bob", "place": "club"})
        >>> explanation.links["link"].to_list()[:2]
        ['visits(bob, cafe)', 'visits(ann, club)']
        """
        from plait.analysis.explain.explain import explain

        return replace(explain(self, relation, cell, top=top, exact=exact, data=data), kind=self._kind(relation))

    def coupling(self) -> "IntoDataFrame":
        """Measure how much each component contributes to each relation.

        Returns
        -------
        table
            One row per relation and component, with these columns:

            - ``component``, ``relation``, ``index`` (the latent index);
            - ``counts``: the part of the known links' total that the component explains;
            - ``share``: ``counts`` as a fraction of the relation's total;
            - ``sd``: standard deviation of ``counts``, because the component of each link is
              uncertain;
            - ``term``: the factors of the term, if the equation is a sum;
            - ``part``: the relation's share divided by the sum of the component's shares over
              all relations, so that large relations do not hide small ones;
            - ``kind``: ``"private"`` if one relation has at least 0.95 of ``part``, else
              ``"shared"``.

        Notes
        -----
        A term without latent indices has one row; its ``part`` and ``kind`` are null. If a
        factor stands twice in a term, as in ``A[h, p] G[p, q] A[t, q]``, a component is
        counted over both places, under the first index. An ensemble shows its best member.

        Examples
        --------
        >>> fit.coupling().select("component", "relation", "kind").rows()
        [(0, 'visits', 'private'), (1, 'visits', 'private')]
        """
        from plait.analysis.explain.coupling import coupling

        return self._in_kind(coupling(self))

    def components(self, *, top: int | None = 10) -> "IntoDataFrame":
        """List the heaviest entities of each component.

        Parameters
        ----------
        top : int or None, default 10
            Number of entities per component, factor and axis; ``None`` for all.

        Returns
        -------
        table
            One row per component, factor, axis and entity, heaviest first, with these columns:

            - ``component`` (its number, as in `coupling` and `explain`), ``name`` (given by
              `name_components`, else its most typical entities; null if none is typical),
              ``index`` (the latent index), ``factor``, ``axis``, ``entity`` and, in a fit with
              titles, ``entity_title``;
            - ``weight``: the entity's fraction of the component in this factor;
            - ``sd``: posterior standard deviation of ``weight``, to first order;
            - ``lift``: ``weight`` divided by the entity's share of the known links; null for an
              entity without links;
            - ``data``: the fraction of ``weight`` that comes from data rather than the prior;
            - ``share_<relation>``: the component's share of that relation, as in `coupling`.

        Notes
        -----
        A factor with several latent indices lists the components of each one, summed over the
        others. A factor with several visible indices lists each one, summed over the others. A
        factor without visible indices is not listed. An ensemble shows its best member.

        Examples
        --------
        >>> table = fit.components(top=2)
        >>> table.filter(component=1, axis="place")["entity"].to_list()
        ['pool', 'gym']
        """
        from plait.analysis.components.component_members import components

        return self._in_kind(components(self, top=top))

    def name_components(self, names: Mapping[int, str], index: str | None = None) -> Self:
        """Return the fit with names of components.

        Parameters
        ----------
        names : dict of int to str
            Name of each component, by number. An empty name restores the automatic one.
        index : str or None, default None
            The latent index, if the model has several.

        Returns
        -------
        Fit
            The same fit. `components`, `explain`, charts, reports and the explorer show the
            names; `save` stores them.

        Raises
        ------
        plait.errors.ParameterError
            If there is no such component or index.

        Notes
        -----
        The automatic name has the entities with the largest weight × lift. The components of an
        ensemble are those of its best member. `fold_in` and `update` keep the names.

        Examples
        --------
        >>> named = fit.name_components({1: "sports"})
        >>> named.components(top=1)["name"].unique(maintain_order=True).to_list()[1]
        'sports'
        """
        from plait.analysis.components.component_names import with_names

        return self._with_given_names(with_names(self, names, index))

    def similar(self, axis: str, name: Any, k: int = 10) -> "IntoDataFrame":
        """Find the entities with the most similar components.

        Parameters
        ----------
        axis : str
            Axis of the entities.
        name : object
            Name of the entity to compare with.
        k : int, default 10
            Number of entities.

        Returns
        -------
        table
            The entities, most similar first, with the columns ``<axis>``, ``similarity`` and
            ``sd``.

        Raises
        ------
        plait.errors.ParameterError
            If the model has no such axis.
        plait.errors.DataError
            If the axis has no such entity.

        Notes
        -----
        The profile p of an entity is the share of each component in its expected counts. The
        similarity of p and q is the Bhattacharyya coefficient Σ √(p q), from 0 (no common
        component) to 1 (the same profile). It does not depend on popularity. Several factors on
        the axis are averaged, weighted by the known counts of their relations.

        ``sd`` is the root mean square deviation in 300 draws from the posterior; the draws are
        always the same. An entity without data has the profile of the prior and a large ``sd``.
        ``sd`` is 0 under EM and MAP. An ensemble averages over its members.

        Examples
        --------
        >>> fit.similar("user", "ann", k=2)["user"].to_list()
        ['bob', 'cem']
        """
        from plait.analysis.components.similar import similar

        return self._in_kind(similar(self, axis, name, k))

    def surprising(self, relation: str, k: int = 10) -> "IntoDataFrame":
        """Find the observations that the model finds least probable.

        Parameters
        ----------
        relation : str
            Name of the relation.
        k : int, default 10
            Number of links, and of zeros.

        Returns
        -------
        table
            The k least probable links, then the k least probable zeros. The columns are the
            indices, ``kind`` (``"link"`` or ``"zero"``), ``value``, ``surprise`` and those of
            `predict`.

        Notes
        -----
        ``surprise`` is the negative log-probability of the observation in nats: of x > 0 for a
        link, of x = 0 for a zero. It is at most 708.

        Only observed zeros count: missing and held-out cells are not listed. With
        ``observed="listed"`` there are only the zeros of the table.

        Examples
        --------
        >>> fit.surprising("visits", k=1).select("user", "place", "kind").rows()
        [('cem', 'club', 'link'), ('bob', 'club', 'zero')]
        """
        from plait.analysis.topk.surprising import surprising

        return self._in_kind(surprising(self, relation, k), relation)

    def responsibilities(self, relation: str, cells: Any, *, most: int | None = None) -> "IntoDataFrame":
        """Attribute the values of cells to components.

        Parameters
        ----------
        relation : str
            Name of the relation.
        cells : table or dict of columns
            Cells as for `predict`. A column ``value`` has the observed values; without it, known
            links have their own.
        most : int or None, default None
            Number of components per cell, largest first. ``None`` lists all, up to 1,000.

        Returns
        -------
        table
            One row per cell and component, with the index columns, ``value``, one column per
            latent index, ``share`` and ``expected``. A sum adds ``term``, an ensemble
            ``member``.

        Notes
        -----
        The shares of a cell sum to 1. For an observed value they are its responsibilities, and
        ``expected`` sums to the value (Bernoulli: to the expected count behind the link). For
        other cells they are shares of the predicted mean, and ``expected`` is null.

        Examples
        --------
        >>> cells = pl.DataFrame({"user": ["bob"], "place": ["club"]})
        >>> fit.responsibilities("visits", cells, most=1).select("user", "place", "r").rows()
        [('bob', 'club', 0)]
        """
        from plait.analysis.explain.responsibilities import responsibilities

        table = responsibilities(self, relation, cells, most=most)
        return as_kind(table, kind_of(cells, self._kind(relation)))

    def fold_in(self, data: Mapping[str, Any], *, iterations: int = 10) -> Self:
        """Add new entities without changing the factors of known ones.

        Parameters
        ----------
        data : dict of str to table or Relation
            Rows per relation, in the same form as in `plait.fit`. Each row contains at least one
            new entity. Relations without new rows may be omitted.
        iterations : int, default 10
            Number of iterations for the factors of the new entities.

        Returns
        -------
        Fit
            A fit with the new entities. It can be queried, saved and folded in again.

        Raises
        ------
        plait.errors.DataError
            If a row has only known entities; `update` learns from these.

        Notes
        -----
        The factors of new entities are estimated from their own cells with the method of the
        fit. Their prior is that of the factor, or the average prior if each entity has its own.
        Cells of new entities are observed by the rules of the relation: where unlisted cells are
        zeros, they are zeros for new entities too. An entity that only other relations mention
        is missing in this one, except with ``unseen="zero"``.

        Guide: <https://tensorplait.github.io/tensorplait/new.html>.

        Examples
        --------
        >>> new = pl.DataFrame({"user": ["fay"], "place": ["gym"], "value": [5]})
        >>> larger = fit.fold_in({"visits": new})
        >>> larger.top("visits", k=1, given={"user": "fay"})["place"].to_list()
        ['pool']
        """
        from plait.incremental.fold_in import fold_in

        return fold_in(self, data, iterations=iterations)

    def update(self, data: Mapping[str, Any], *, iterations: int = 5, fixed: Mapping[str, Any] | None = None) -> Self:
        """Learn new links without the old data.

        Parameters
        ----------
        data : dict of str to table or Relation
            New rows per relation, in the same form as in `plait.fit`. They may contain new
            entities.
        iterations : int, default 5
            Number of iterations.
        fixed : dict of str to table, default None
            Rows of fixed factors over visible indices for new entities, such as the evidence of
            a later day. Cells without a row have the default.

        Returns
        -------
        Fit
            The updated fit.

        Raises
        ------
        plait.errors.DataError
            If a cell is already a link, except under Poisson, where values add up.
        plait.errors.ParameterError
            If the fit is an ensemble with ``bootstrap=True``, or was saved by a version that
            did not store what an update needs.

        Notes
        -----
        All factors are updated from their old expected counts and those of the new links.
        Priors and parameters of likelihoods do not change. A new link adds no exposure where its
        cell was an observed zero; other cells become observed. For likelihoods other than
        Poisson, a sample of the known links estimates how their counts change.

        Under EM and MAP the result is exact only if the fit had converged.

        Guide: <https://tensorplait.github.io/tensorplait/new.html>.

        Examples
        --------
        >>> new = pl.DataFrame({"user": ["dee"], "place": ["bar"], "value": [9]})
        >>> updated = fit.update({"visits": new})
        >>> len(fit.known["visits"]), len(updated.known["visits"])
        (11, 12)
        """
        from plait.incremental.update import update

        return update(self, data, iterations=iterations, fixed=fixed)

    def calibrate(
        self, relation: str, held_out: Any, *, features: Any = None, zeros: str | None = None, seed: int = 0
    ) -> Self:
        """Calibrate the probabilities of a relation on held-out cells.

        Parameters
        ----------
        relation : str
            Name of the relation.
        held_out : table or Relation
            Cells that the fit has not seen, as for `plait.evaluate`. Do not evaluate on the same
            cells afterwards.
        features : "counts", dict of str to table, or None, default None
            What the probability may depend on next to the fit. ``"counts"``: numbers of known
            links that agree with the cell in one or more indices. A dict: the counts and its
            tables, each with a column for one or more indices and one of values of at least 0,
            such as those of `plait.evidence`; cells that it does not list have the value 0.
        zeros : one of "all", "sample" or None, default None
            How zeros were held out: with ``"all"`` the cells are a random sample of links and
            zeros; with ``"sample"`` the zeros are fewer, drawn from the cells without a link.
            ``None`` is ``"all"``, but refuses a table with far too few zeros. A table without
            zeros is a random sample of the links; zeros are then drawn.
        seed : int, default 0
            Random seed of drawn zeros and of the cross-validation.

        Returns
        -------
        Fit
            The fit with ``calibration[relation]``. `predict`, `top`, `plait.evaluate`, `save` and
            all other methods use it.

        Raises
        ------
        plait.errors.DataError
            If the cells cannot be read, have no links, or contain links of the training data.
        plait.errors.ParameterError
            If an option is wrong.

        Notes
        -----
        With Λ = −log P(x = 0), the calibrated fit has Λ' = exp(b) Λ^β. b and β maximise the
        likelihood of the held-out cells, weighted by how they were drawn; β is shrunk to 1. Links
        that were missing in the training data, as `plait.train_test_split` leaves them, stand for
        their share of all cells. If links were left out and looked like zeros, a probability is
        that of a zero to be such a link.

        Five-fold cross-validation decides: if it does not prefer the regression by more than
        one standard error, b = 0 and β = 1, and probabilities stay as they are.

        With ``features`` f, log Λ' also has a term γ log(f + ε) for each, γ shrunk to 0. They are
        used if cross-validation prefers them to the regression without by more than one standard
        error. They change the order of cells, and `top` may say that it is not exact.

        Without them the order of probabilities does not change. Under Bernoulli,
        ``mean`` is the calibrated probability, ``lower`` and ``upper`` transform like it, and
        ``sd`` does to first order. Under other likelihoods, ``mean``, ``sd`` and ``rate`` do
        not change (rank by ``score="probability"``); ``lower`` and ``upper`` are quantiles with
        the calibrated P(x = 0) and the values above 0 of the fit.

        `fold_in` and `update` keep the calibration. Calibrating again replaces it.

        Guide: <https://tensorplait.github.io/tensorplait/evaluation.html#calibration>.

        Examples
        --------
        >>> trained = plait.fit(model, train, **quick)
        >>> calibrated = trained.calibrate("visits", test, zeros="all")
        >>> calibrated.calibration["visits"].links
        6
        """
        from plait.evaluation.calibrate import calibrate

        return calibrate(self, relation, held_out, features=features, zeros=zeros, seed=seed)

    def title(self, axis: str, name: Any) -> str | None:
        """Return the title of an entity.

        Parameters
        ----------
        axis : str
            Axis or index of the entity.
        name : object
            Name of the entity.

        Returns
        -------
        str or None
            The title, or ``None`` if the entity has none.

        Raises
        ------
        plait.errors.ParameterError
            If the model has no such axis.

        Examples
        --------
        >>> fit.with_titles({"user": {"ann": "Ann Lee"}}).title("user", "ann")
        'Ann Lee'
        """
        if axis not in self.entities:
            hint = f"{suggestion(axis, self.model.axes)}The axes are {', '.join(self.model.axes) or 'none'}."
            raise ParameterError(f"{axis!r} is not an axis of the model.", location="title", actual=axis, hint=hint)
        return self.titles[axis].get(name) if axis in self.titles else None

    def with_titles(self, titles: Mapping[str, Any]) -> Self:
        """Return the fit with titles of entities.

        Parameters
        ----------
        titles : dict of str to table or dict
            Titles per axis. A table has a column of ids, named as the axis (else the first
            column), and a column ``title`` (else ``name``, else the only other column). A dict is
            ``{id: title}``. Ids that the fit does not know are ignored.

        Returns
        -------
        Fit
            The same fit. Tables, explanations and reports show titles next to names.

        Notes
        -----
        Existing titles stay unless ``titles`` replaces them. An empty or null title removes one.

        Examples
        --------
        >>> titled = fit.with_titles({"place": {"gym": "Olympic Gym"}})
        >>> titled.top("visits", k=1, given={"place": "gym"}).columns[:3]
        ['user', 'place', 'place_title']
        """
        from plait.data.titles import bind_titles

        return self._with_bound_titles(bind_titles(self.model, self.entities, titles, self.titles))

    def sample(self, n: int, seed: int | None = None) -> dict[str, Array]:
        """Draw factors from the posterior.

        Parameters
        ----------
        n : int
            Number of draws.
        seed : int or None, default None
            Random seed.

        Returns
        -------
        dict of str to numpy.ndarray
            One array per factor, of shape ``(n, …)`` with the axes as written in the model.

        Examples
        --------
        >>> fit.sample(3, seed=0)["U"].shape
        (3, 5, 2)
        """
        from plait.analysis.export import sample

        return sample(self, n, seed)

    def to_xarray(self) -> "xarray.Dataset":
        """Export the factors as a labelled dataset.

        Returns
        -------
        xarray.Dataset
            One variable per factor with the names of the entities as coordinates. Requires
            ``pip install 'tensorplait[xarray]'``.

        Examples
        --------
        >>> dataset = fit.to_xarray()
        >>> dataset["U"].sel(user="ann").dims
        ('r',)
        """
        from plait.analysis.export import to_xarray

        return to_xarray(self)

    def to_datatree(
        self, draws: int = 1000, factors: str | Iterable[str] | None = None, seed: int | None = None
    ) -> "xarray.DataTree":
        """Draw from the posterior into a tree that ArviZ reads.

        Parameters
        ----------
        draws : int, default 1000
            Number of draws from each member.
        factors : str, iterable of str or None, default None
            Factors to draw; all by default.
        seed : int or None, default None
            Random seed. Equal seeds give the draws of `sample`.

        Returns
        -------
        xarray.DataTree
            The group ``posterior`` has each factor with the dimensions ``chain``, ``draw`` and its
            indices. The group ``constant_data`` has given factors. Requires
            ``pip install 'tensorplait[xarray]'``.

        Raises
        ------
        plait.errors.ParameterError
            If the fit has no posterior (EM and MAP).

        Notes
        -----
        Each member of an ensemble is a chain. Members are different optima with their own order
        of components, so R-hat and other comparisons of chains say nothing about factors.
        Components that a member lacks are 0. There are no groups ``sample_stats`` and
        ``observed_data``.

        Examples
        --------
        >>> tree = fit.to_datatree(draws=4, factors="U", seed=0)
        >>> tree["posterior"]["U"].shape
        (1, 4, 5, 2)
        """
        from plait.analysis.export import to_datatree

        return to_datatree(self, draws, factors, seed)

    def report(
        self, path: str | PathLike[str], *, test: Any = None, relation: str | None = None, interactive: bool = False,
        replace: bool = False,
    ) -> None:  # fmt: skip
        """Write a report on the fit as one HTML file.

        Parameters
        ----------
        path : path
            The file.
        test : table or Relation or None, default None
            Cells that the fit has not seen, as for `plait.evaluate`. The report then includes
            an evaluation.
        relation : str or None, default None
            Relation of the test; required if the model has several.
        interactive : bool, default False
            Include sortable tables and interactive charts, which need scripts in the file.
        replace : bool, default False
            Whether to replace an existing file.

        Raises
        ------
        plait.errors.StorageError
            If the file exists and ``replace`` is ``False``, or it cannot be written.

        Notes
        -----
        The report has warnings, predicted links with reasons, components, coupling, surprising
        links, the course of the fit and how to reproduce it. The file loads no other file.
        Requires ``pip install 'tensorplait[report]'``.

        Examples
        --------
        >>> fit.report("fit.html")
        """
        from plait.report.report_file import report

        report(self, path, test=test, relation=relation, interactive=interactive, replace=replace)

    def save(self, path: str | PathLike[str], *, replace: bool = False, extra: Mapping[str, Any] | None = None) -> None:
        """Save the fit to a folder or a file.

        Parameters
        ----------
        path : path
            A folder; or a file, if the path ends in ``.plait``.
        replace : bool, default False
            Whether to replace the run of another fit. An earlier state of this fit, such as a
            checkpoint, is always replaced; anything that is not a run never is.
        extra : dict or None, default None
            Further data to store, in the types of JSON. ``None`` keeps those of an earlier
            state.

        Raises
        ------
        plait.errors.StorageError
            If the path holds something else, or cannot be written.

        Notes
        -----
        The write is atomic: after a crash the path holds the old run or the new one.

        Examples
        --------
        >>> fit.save("visits.plait")
        >>> plait.load("visits.plait").objective == fit.objective
        True
        """
        from plait.storage.save import save

        members = [Member(fit.seed, fit.state, fit.stop, fit.given_names) for fit in self.members]
        save(path, self._origin, members, self.stop, replace=replace, extra=extra)

    def _kind(self, relation: str | None = None) -> str:
        """The library of a relation's table; without one, of the first relation that is not of polars."""
        if relation is not None:
            return self.known[relation].kind
        return next((known.kind for known in self.known.values() if known.kind != POLARS), POLARS)

    def _in_kind(self, table: "pl.DataFrame", relation: str | None = None) -> "IntoDataFrame":
        return as_kind(table, self._kind(relation))

    @property
    def plot(self) -> "FitPlot":
        """Charts of the fit.

        ``fit.plot.objective()``, ``components``, ``coupling``, ``rank``, ``entity`` and
        ``neighbourhood`` return Altair charts. Requires ``pip install 'tensorplait[report]'``.
        """
        from plait.plotting.plots import FitPlot

        return FitPlot(self)

    def __repr__(self) -> str:
        relations = ", ".join(self.model.relations)
        ranks = ", ".join(f"{index}={size}" for index, size in self.rank.items())
        fit = "Fit" if len(self.members) == 1 else f"Ensemble of {len(self.members)} fits"
        word = "log-likelihood" if self.history[-1].warm_up else objective_word(self.method)
        start = f"{fit} of {relations} by {self.method}, rank {ranks or 'none'}"
        return f"{start}: {word} {self.objective:,.6g}; {self.stop}"

    def __str__(self) -> str:
        words = likelihood_words(self.likelihood, self.settings.get("likelihood_by", {}))
        chosen = [f"Likelihood: {words}."] if words else []
        evidence = [f"Evidence: {words}."] if (words := evidence_words(self.settings)) else []
        calibrated = [f"{name}: {own}." for name, own in self.calibration.items()]
        return "\n".join([self._sentences(), *chosen, *evidence, *calibrated])

    def _sentences(self) -> str:
        if len(self.members) > 1:
            bounds = ", ".join(f"{member.objective:,.6g}" for member in self.members)
            shown = "first one, which has unweighted links" if self.settings.get("bootstrap") else "best one"
            return (
                f"{self!r}\nPredictions average all members (objectives {bounds}). Factors, prior and history "
                f"are those of the {shown}; fit.members has all fits."
            )
        if self.method != "vb":
            return repr(self)
        if self.history[-1].warm_up:
            return (
                f"{self!r}\nThe objective is the log-likelihood of the warm-up. It is not comparable with other fits."
            )
        return f"{self!r}\nELBOs are comparable between ranks and equations, given the same data and `adapt_prior`."

    def _repr_html_(self) -> str:
        from plait.plotting.pictures import objective
        from plait.rendering.html import render
        from plait.rendering.objects import describe_fit

        return render(describe_fit(self, [objective(self)]))


def load(path: str | PathLike[str]) -> Fit:
    """Load a saved fit.

    Parameters
    ----------
    path : path
        The folder or ``.plait`` file that `Fit.save` or a checkpoint wrote.

    Returns
    -------
    Fit
        The fit. An interrupted run loads its last checkpoint; ``plait.fit(…, init=path)``
        continues it.

    Raises
    ------
    plait.errors.StorageError
        If there is no run, or it is damaged or was saved by a newer version.

    Examples
    --------
    >>> fit.save("run")
    >>> plait.load("run").rank
    {'r': 2}
    """
    from plait.storage.load import read_run as read

    return Fit._of(*read(path))
