"""Model semantics: Occurrence, Summand, Equation, Factor and Model, checked at construction."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.errors import ModelError, suggestion
from plait.model.syntax import Bracket, Declaration, EquationStatement, Span, Statement, Token, mistake, parse

if TYPE_CHECKING:
    from plait.data.bound import Data

# Tables of data and predictions have columns of these names.
RESERVED = frozenset({"value", "mean", "sd", "probability", "lower", "upper", "rate", "weight"})

ORDERED = "ordered"  # in a declaration, unless an index has this name

ONE_SHAPE = "A factor has the same indices in the whole model"


@dataclass(frozen=True)
class Occurrence:
    """One use of a factor in an equation, ``A[i, r]``."""

    factor: str
    indices: tuple[str, ...]

    def __str__(self) -> str:
        return _bracket(self.factor, self.indices)


@dataclass(frozen=True)
class Summand:
    """A term of an equation: a product of factors, summed over the indices that the relation does not have."""

    occurrences: tuple[Occurrence, ...]

    @property
    def indices(self) -> tuple[str, ...]:
        """All indices, in order of first use."""
        return _unique(chain.from_iterable(occurrence.indices for occurrence in self.occurrences))

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of the factors, as written; one that stands twice is there twice."""
        return tuple(occurrence.factor for occurrence in self.occurrences)

    @property
    def twice(self) -> tuple[str, ...]:
        """The factors that stand twice."""
        return _unique(name for name in self.factors if self.factors.count(name) > 1)

    def __str__(self) -> str:
        return " ".join(map(str, self.occurrences))


@dataclass(frozen=True)
class Equation:
    """A relation as a sum of products of factors; latent indices are summed in each.

    ``relation[indices] = occurrence occurrence … + occurrence …``
    """

    relation: str
    indices: tuple[str, ...]
    terms: tuple[Summand, ...]

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """All uses of factors, term by term."""
        return tuple(chain.from_iterable(term.occurrences for term in self.terms))

    @property
    def latent(self) -> tuple[str, ...]:
        """The indices summed out, in order of first use."""
        return _unique(i for term in self.terms for i in term.indices if i not in self.indices)

    def latent_of(self, term: Summand) -> tuple[str, ...]:
        """The indices that one of its terms sums out, in order of first use."""
        return tuple(index for index in term.indices if index not in self.indices)

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of the factors, as written, each once."""
        return _unique(occurrence.factor for occurrence in self.occurrences)

    @property
    def doubled(self) -> tuple[tuple[str, str], ...]:
        """Pairs of visible indices by which a factor that stands twice in a term takes two of its rows."""
        pairs = []
        for term in self.terms:
            for name in term.twice:
                first, second = (o.indices for o in term.occurrences if o.factor == name)
                pairs += [(i, j) for i, j in zip(first, second) if i != j and i in self.indices]
        return tuple(dict.fromkeys((i, j) if self._before(i, j) else (j, i) for i, j in pairs))

    @property
    def exchanged(self) -> tuple[tuple[str, str], ...]:
        """Pairs of visible indices whose exchange leaves the equation as it is: the relation is undirected.

        Where a factor stands twice, with one of them each, a factor over nothing but visible indices that has both is
        one of pairs: N[i, j] next to U[i, r] U[j, r] is the same as N[j, i].
        """
        pairs = combinations(self.indices, 2)
        return tuple((i, j) for i, j in pairs if self._as_set({}, ()) == self._as_set({i: j, j: i}, (i, j)))

    def is_of_pairs(self, occurrence: Occurrence, pair: tuple[str, ...]) -> bool:
        """Whether a factor is one of the pairs of two visible indices, which have no order then."""
        own = set(occurrence.indices)
        return pair in self.doubled and own.issuperset(pair) and own.issubset(self.indices)

    def _before(self, index: str, other: str) -> bool:
        return self.indices.index(index) < self.indices.index(other)

    def _as_set(
        self, names: Mapping[str, str], pair: tuple[str, ...]
    ) -> frozenset[tuple[tuple[str, tuple[str, ...]], ...]]:
        """The terms, indices renamed but in factors of the pair; neither their order nor that in them counts."""
        renamed = (
            sorted(
                (o.factor, o.indices if self.is_of_pairs(o, pair) else tuple(names.get(i, i) for i in o.indices))
                for o in term.occurrences
            )
            for term in self.terms
        )
        return frozenset(map(tuple, renamed))

    def __str__(self) -> str:
        return f"{_bracket(self.relation, self.indices)} = {' + '.join(map(str, self.terms))}"


@dataclass(frozen=True)
class Factor:
    """An unknown (or given) array; its indices as first written, and which of them are visible and latent."""

    name: str
    indices: tuple[str, ...]
    visible: tuple[str, ...]
    latent: tuple[str, ...]

    def __str__(self) -> str:
        return _bracket(self.name, self.indices)


@dataclass(frozen=True, init=False, repr=False)
class Model:
    """Coupled factorisation model, parsed from equations.

    Parameters
    ----------
    text : str
        One equation per line (or separated by ``;``), each
        ``relation[index, …] = Factor[index, …] Factor[…] + …``. A line ``index: other``
        declares that two indices have the same entities, ``index: ordered`` that the
        entities of an index have an order. ``#`` starts a comment.

    Attributes
    ----------
    equations : tuple of Equation
        One equation per relation.
    relations, factors : tuple of str
        Names of the relations and of the factors.
    indices, visible, latent : tuple of str
        Names of all indices, of those of relations, and of those that are summed out.
    axes : tuple of str
        Axes of the visible indices. Indices with the same entities share an axis.
    ordered : tuple of str
        Axes whose entities have an order, such as months.
    ranks : tuple of str
        Latent indices whose size can be chosen.
    R : numpy.ndarray
        Coupling matrix of shape ``(n_relations, n_factors)``: 1 where the factor occurs in
        the relation.

    Raises
    ------
    plait.errors.ModelError
        If the text is wrong. The message points to the place.

    Notes
    -----
    - An index that the relation does not have is latent: each term is summed over it. The
      same name in two terms has the same size.
    - A term may lack indices of the relation and is then constant along them. ``c[]`` is a
      number. Parentheses distribute: ``V[i] (A[i, r] B[j, r] + c[])``.
    - A factor is the same wherever it occurs: in several equations, in several terms, or
      twice in a term with two indices of one axis.
    - If exchanging two indices does not change an equation, the relation is undirected and
      a pair is one cell: ``friends[a, b] = U[a, r] U[b, r]; b: a``.
    - Factors with an index of an ordered axis change slowly along it: see `GammaChain`.
    - Two models are equal if their equations and axes are.

    Guide: <https://tensorplait.github.io/tensorplait/models.html>.

    Examples
    --------
    >>> model = plait.Model("X[i, j] = A[i, r] B[j, r]; Y[i] = A[i, r]")
    >>> model.factors
    ('A', 'B')
    >>> model.R.tolist()
    [[1, 1], [1, 0]]
    """

    equations: tuple[Equation, ...]
    # (index, its axis) for each index that is declared to be another one, in order of first use.
    _declared: tuple[tuple[str, str], ...]
    ordered: tuple[str, ...]

    def __init__(self, text: str):
        if not isinstance(text, str):
            hint = 'Example: Model("X[i, j] = A[i, r] B[j, r]").'
            raise ModelError(f"`model` must be a string, got {type(text).__name__}.", hint=hint)
        statements = parse(text)
        axes, ordered = _check(statements)
        equations = tuple(_equation(statement) for statement in statements if isinstance(statement, EquationStatement))
        # The class is frozen for everyone else.
        object.__setattr__(self, "equations", equations)
        object.__setattr__(self, "_declared", tuple((i, axes[i]) for i in self.visible if axes.get(i, i) != i))
        object.__setattr__(self, "ordered", tuple(axis for axis in self.axes if axis in ordered))

    @cached_property
    def relations(self) -> tuple[str, ...]:
        """Names of the relations, in the order of the rows of ``R``."""
        return tuple(equation.relation for equation in self.equations)

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """Names of the factors, in the order of the columns of ``R``."""
        return _unique(chain.from_iterable(equation.factors for equation in self.equations))

    @cached_property
    def indices(self) -> tuple[str, ...]:
        """Names of all indices, in order of first use."""
        return _unique(chain.from_iterable((*equation.indices, *equation.latent) for equation in self.equations))

    @cached_property
    def visible(self) -> tuple[str, ...]:
        """Names of the indices of relations, in order of first use."""
        return _unique(chain.from_iterable(equation.indices for equation in self.equations))

    @cached_property
    def latent(self) -> tuple[str, ...]:
        """Names of the indices that are summed out, in order of first use."""
        return _unique(chain.from_iterable(equation.latent for equation in self.equations))

    @cached_property
    def axes(self) -> tuple[str, ...]:
        """Axes of the visible indices; indices with the same entities share one."""
        return _unique(map(self.axis, self.visible))

    def axis(self, index: str) -> str:
        """Return the axis of an index.

        Parameters
        ----------
        index : str
            Name of an index.

        Returns
        -------
        str
            The index that its declarations lead to, or the index itself. Latent indices of a
            factor that occurs twice in a term share an axis.

        Raises
        ------
        plait.errors.ModelError
            If the model has no such index.

        Examples
        --------
        >>> plait.Model("knows[a, b] = U[a, r] U[b, r]; b: a").axis("b")
        'a'
        """
        if index not in self.indices:
            raise _no_such("index", index, self.indices)
        return dict(self._declared).get(index) or self._tied.get(index, index)

    @cached_property
    def _tied(self) -> dict[str, str]:
        """The axis of every latent index that is another one."""
        step: dict[str, str] = {}
        for i, j in _ties(self.equations):
            first, second = sorted((_end(step, i), _end(step, j)), key=self.latent.index)
            if first != second:
                step[second] = first
        return {index: _end(step, index) for index in step}

    @cached_property
    def ranks(self) -> tuple[str, ...]:
        """Latent indices whose size can be chosen, one per axis."""
        return tuple(index for index in self.latent if self.axis(index) == index)

    def equation(self, name: str) -> Equation:
        """Return the equation of a relation.

        Parameters
        ----------
        name : str
            Name of the relation.

        Returns
        -------
        Equation
            The equation with ``relation``, ``indices`` and ``terms``.

        Raises
        ------
        plait.errors.ModelError
            If the model has no such relation.

        Examples
        --------
        >>> model.equation("visits").indices
        ('user', 'place')
        """
        if name not in self.relations:
            raise _no_such("relation", name, self.relations)
        return self.equations[self.relations.index(name)]

    def factor(self, name: str) -> Factor:
        """Return a factor.

        Parameters
        ----------
        name : str
            Name of the factor.

        Returns
        -------
        Factor
            The factor with ``indices``, ``visible`` and ``latent``.

        Raises
        ------
        plait.errors.ModelError
            If the model has no such factor.

        Examples
        --------
        >>> model.factor("U").latent
        ('r',)
        """
        if name not in self.factors:
            raise _no_such("factor", name, self.factors)
        occurrences = chain.from_iterable(equation.occurrences for equation in self.equations)
        indices = next(occurrence.indices for occurrence in occurrences if occurrence.factor == name)
        visible = tuple(index for index in indices if index in self.visible)
        return Factor(name, indices, visible, tuple(index for index in indices if index in self.latent))

    @cached_property
    def R(self) -> NDArray[np.int64]:
        """Coupling matrix of shape ``(n_relations, n_factors)``, 1 where the factor occurs."""
        rows = [[factor in equation.factors for factor in self.factors] for equation in self.equations]
        R = np.array(rows, dtype=np.int64)
        R.flags.writeable = False
        return R

    def unscaled(self, likelihoods: Mapping[str, Any]) -> frozenset[str]:
        """The factors whose scale matters: those of sums, and of relations whose likelihood needs the true one."""
        exact = [e for e in self.equations if len(e.terms) > 1 or likelihoods[e.relation].true_scale]
        return frozenset(name for equation in exact for name in equation.factors)

    def bind(self, data: Any, entities: Mapping[str, Any] | None = None) -> "Data":
        """Check data against the model and prepare them for a fit.

        Parameters
        ----------
        data : mapping of str to table, array, graph or Relation
            One entry per relation; for a model of one relation, its data alone; or the folder
            of blocks that `plait.pack` wrote.
        entities : dict of str to sequence, default None
            Entities per axis that exist although the data do not mention them.

        Returns
        -------
        Data
            The bound data, which `plait.fit` accepts. Print it for a summary.

        Raises
        ------
        plait.errors.DataError
            If the data are wrong or do not match the model.

        Examples
        --------
        >>> bound = model.bind({"visits": visits})
        >>> plait.fit(model, bound, **quick).rank
        {'r': 2}
        """
        from plait.data.outofcore.bind_blocks import bind_all

        return bind_all(self, data, entities=entities)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.equations), *self._declarations])

    @property
    def _declarations(self) -> list[str]:
        """Declarations as text, one per line."""
        return [
            *(f"{index}: {axis}" for index, axis in self._declared),
            *(f"{axis}: {ORDERED}" for axis in self.ordered),
        ]

    def _ordered_places(self, name: str) -> tuple[int, ...]:
        """Places of ordered axes among the visible indices of a factor."""
        return tuple(n for n, index in enumerate(self.factor(name).visible) if self.axis(index) in self.ordered)

    def _repr_html_(self) -> str:
        from plait.rendering.html import render
        from plait.rendering.objects import describe_model

        return render(describe_model(self))

    def __repr__(self) -> str:
        lines = str(self).split("\n")
        if len(lines) == 1:
            return f'Model("{lines[0]}")'
        return "\n".join(['Model("""', *(f"    {line}" for line in lines), '""")'])

    def __reduce__(self) -> tuple[type["Model"], tuple[str]]:
        # The text is the model: a pickle needs nothing else, and R stays read-only.
        return Model, (str(self),)


def _bracket(name: str, indices: Iterable[str]) -> str:
    return f"{name}[{', '.join(indices)}]"


def _unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def _texts(tokens: Iterable[Token]) -> tuple[str, ...]:
    return tuple(token.text for token in tokens)


def _no_such(kind: str, name: object, known: Sequence[str]) -> ModelError:
    """The error for a name that the model does not have."""
    return ModelError(
        f"the model has no {kind} {name}.",
        hint=f"{suggestion(name, known, quote=False)}The model has {', '.join(known) or 'none'}.",
    )


def _equation(statement: EquationStatement) -> Equation:
    terms = tuple(Summand(tuple(map(_occurrence, term))) for term in statement.terms)
    return Equation(statement.left.name.text, _texts(statement.left.indices), terms)


def _occurrence(bracket: Bracket) -> Occurrence:
    return Occurrence(bracket.name.text, _texts(bracket.indices))


def _ties(equations: Iterable[Equation]) -> Iterator[tuple[str, str]]:
    """Latent indices that stand at one place of a factor which is twice in a term."""
    for equation in equations:
        for term in equation.terms:
            for name in term.twice:
                first, second = (o.indices for o in term.occurrences if o.factor == name)
                yield from ((i, j) for i, j in zip(first, second) if i != j and i not in equation.indices)


# The meaning checks. Each raises at the first thing wrong; their order is the order in which a person would want
# to hear of them, since one slip often breaks several rules.


def _check(statements: Sequence[Statement]) -> tuple[dict[str, str], set[str]]:
    """Refuse statements that make no sense together; gives the axis of every declared index, and ordered axes."""
    equations = [statement for statement in statements if isinstance(statement, EquationStatement)]
    declarations = [statement for statement in statements if isinstance(statement, Declaration)]
    if not equations:
        raise ModelError(
            "the model has no equations.",
            hint="Write at least one equation, such as X[i, j] = A[i, r] B[j, r].",
        )
    _check_spelling(statements)
    _check_names(equations)
    for equation in equations:
        _check_equation(equation)
    visible = _check_roles(equations)
    orders = [] if ORDERED in visible else [one for one in declarations if one.other.text == ORDERED]
    axes = _check_declarations([one for one in declarations if one not in orders], visible)
    _check_shapes(equations, axes, visible)
    for one in orders:
        _check_axis(one.axis, visible)
    return axes, {axes.get(one.axis.text, one.axis.text) for one in orders}


def _brackets(equation: EquationStatement) -> tuple[Bracket, ...]:
    return (equation.left, *equation.right)


def _names(statements: Iterable[Statement]) -> Iterator[Token]:
    """Every name in the model, as written."""
    for statement in statements:
        if isinstance(statement, Declaration):
            yield from (statement.axis, statement.other)
        else:
            for bracket in _brackets(statement):
                yield from (bracket.name, *bracket.indices)


def _check_spelling(statements: Iterable[Statement]) -> None:
    """Refuse names that look the same and yet differ, such as é in one character and in two."""
    spelling: dict[str, str] = {}
    for name in _names(statements):
        if spelling.setdefault(unicodedata.normalize("NFC", name.text), name.text) != name.text:
            what = f"{name.text} looks like an earlier name, but has different characters."
            raise mistake(what, name.span, "Use the same characters in both names.")


def _check_names(equations: Sequence[EquationStatement]) -> None:
    """A relation has one equation, and is not a factor."""
    relations: set[str] = set()
    for equation in equations:
        name = equation.left.name
        if name.text in relations:
            what = f"relation {name.text} has two equations."
            raise mistake(what, name.span, "A relation has one equation. Rename one of the two.")
        relations.add(name.text)
    for equation in equations:
        for bracket in equation.right:
            if bracket.name.text in relations:
                hint = "Relations are data, factors are unknown. Rename one of the two."
                raise mistake(f"{bracket.name.text} is both a relation and a factor.", bracket.name.span, hint)


def _check_equation(equation: EquationStatement) -> None:
    """What can be said of one equation alone."""
    for bracket in _brackets(equation):
        _check_bracket(bracket)
    relation = equation.left.name.text
    used = _texts(chain.from_iterable(bracket.indices for bracket in equation.right))
    for index in equation.left.indices:
        if index.text not in used:
            hint = f"{suggestion(index.text, used, quote=False)}Add it to a factor, or remove it from {relation}."
            raise mistake(f"index {index.text} of {relation} does not occur in any factor.", index.span, hint)
    seen: set[tuple[Occurrence, ...]] = set()
    for term in equation.terms:
        for bracket in term:
            _check_uses(equation, term, bracket)
        alike = tuple(sorted(map(_occurrence, term), key=str))
        if alike in seen:
            hint = "A repeated term only changes the scale. Remove it, or use different factors."
            what = f"the term {' '.join(map(str, map(_occurrence, term)))} occurs twice in the equation of {relation}."
            raise mistake(what, term[-1].span if term[0].span.start > term[-1].span.start else _whole(term), hint)
        seen.add(alike)


def _whole(term: Sequence[Bracket]) -> Span:
    """From the first bracket of a term to its last."""
    return term[0].span.through(term[-1].span)


def _check_uses(equation: EquationStatement, term: Sequence[Bracket], bracket: Bracket) -> None:
    """A factor stands once in a term, or twice with two visible indices, one in each."""
    name, relation = bracket.name.text, equation.left.name.text
    uses = [other for other in term if other.name.text == name]
    if len(uses) == 1 or bracket is not uses[-1]:
        return
    if len(uses) > 2:
        hint = "A factor can occur at most twice, with two indices of one axis. Rename one, or use a second factor."
        raise mistake(f"factor {name} occurs {len(uses)} times in a term of {relation}.", bracket.span, hint)
    visible = _texts(equation.left.indices)
    first, second = (_texts(use.indices) for use in uses)
    apart = [(i, j) for i, j in zip(first, second) if i != j and (i in visible or j in visible)]
    if len(first) == len(second) and len(apart) != 1:
        # With the same row in both places the equation would not be linear in it, and the updates rest on that.
        hint = f"Exactly one visible index must differ, as in {name}[i, …] {name}[j, …] with j: i."
        many = "more than one visible index" if apart else "no visible index"
        raise mistake(f"factor {name} occurs twice in a term of {relation}, but {many} differs.", bracket.span, hint)


def _check_bracket(bracket: Bracket) -> None:
    """An index is not reserved, and stands once in a bracket."""
    seen: set[str] = set()
    for index in bracket.indices:
        if index.text in RESERVED:
            hint = "Tables use this name for a column. Rename the index."
            raise mistake(f"{index.text} is a reserved name and cannot be an index.", index.span, hint)
        if index.text in seen:
            hint = "Give the two sides different names. If they have the same entities, declare it with other: axis."
            raise mistake(f"index {index.text} occurs twice in the brackets of {bracket.name.text}.", index.span, hint)
        seen.add(index.text)


def _check_roles(equations: Sequence[EquationStatement]) -> dict[str, bool]:
    """An index is visible everywhere or latent everywhere; gives which, by name."""
    visible: dict[str, bool] = {}
    where: dict[str, str] = {}
    for equation in equations:
        relation, outer = equation.left.name.text, _texts(equation.left.indices)
        for index in chain.from_iterable(bracket.indices for bracket in _brackets(equation)):
            here = index.text in outer
            there = where.setdefault(index.text, relation)
            if visible.setdefault(index.text, here) != here:
                role, other = ("visible", "latent") if here else ("latent", "visible")
                what = f"index {index.text} is {other} in {there} but {role} in {relation}."
                latent = there if here else relation
                hint = f"Rename it in one of the two, or add it to the brackets of {latent}."
                raise mistake(what, index.span, hint)
    return visible


def _check_declarations(declarations: Sequence[Declaration], visible: Mapping[str, bool]) -> dict[str, str]:
    """Declarations join visible indices, without circles; gives the last axis that each declared one leads to."""
    step: dict[str, str] = {}
    for declaration in declarations:
        for token in (declaration.axis, declaration.other):
            _check_axis(token, visible)
        axis, other = declaration.axis.text, declaration.other.text
        if step.get(axis, other) != other:
            what = f"{axis} is declared twice, as {step[axis]} and as {other}."
            hint = f"Keep one; if {step[axis]} and {other} have the same entities too, declare {step[axis]}: {other}."
            raise mistake(what, declaration.span, hint)
        if _end(step, other) == axis:
            what = f"{axis} is declared as {'itself' if axis == other else f'{other}, which is already {axis}'}."
            raise mistake(what, declaration.span, "Remove this declaration.")
        step[axis] = other
    return {axis: _end(step, axis) for axis in step}


def _end(step: Mapping[str, str], axis: str) -> str:
    while axis in step:
        axis = step[axis]
    return axis


def _check_axis(token: Token, visible: Mapping[str, bool]) -> None:
    """A declared name is a visible index."""
    if token.text not in visible:
        near = suggestion(token.text, [*visible, ORDERED], quote=False)
        hint = f"{near}A declaration contains two indices of relations, or an index and the word `{ORDERED}`."
        raise mistake(f"{token.text} is not an index of any equation.", token.span, hint)
    if not visible[token.text]:
        hint = "Only indices of relations have entities. Remove the declaration."
        raise mistake(f"{token.text} is a latent index.", token.span, hint)


def _check_shapes(equations: Sequence[EquationStatement], axes: Mapping[str, str], visible: Mapping[str, bool]) -> None:
    """A factor has the same axes, in the same order, wherever it occurs."""
    first: dict[str, tuple[Bracket, str]] = {}
    for equation in equations:
        relation = equation.left.name.text
        for term in equation.terms:
            twice = [name for name, uses in Counter(bracket.name.text for bracket in term).items() if uses > 1]
            for bracket in term:
                other, there = first.setdefault(bracket.name.text, (bracket, relation))
                # The second of two uses in a term may have its own latent indices: A[i, p] G[p, q] A[j, q].
                free = bracket.name.text in twice and other is not bracket
                _check_shape(bracket, relation, other, there, axes, visible, free)


def _check_shape(
    bracket: Bracket,
    relation: str,
    other: Bracket,
    there: str,
    axes: Mapping[str, str],
    visible: Mapping[str, bool],
    free: bool,
) -> None:
    """A factor's use has the shape of its first one; free: but for the names of latent indices."""
    name, old, new = bracket.name.text, _texts(other.indices), _texts(bracket.indices)
    if len(old) != len(new):
        count = f"{len(old)} {'index' if len(old) == 1 else 'indices'}"
        what = f"factor {name} has {count} in {there} but {len(new)} in {relation}."
        raise mistake(what, bracket.span, f"{ONE_SHAPE}; rename one of the two.")
    for place, (was, now) in enumerate(zip(old, new)):
        same = axes.get(was, was) == axes.get(now, now) or (free and not visible[was] and not visible[now])
        if not same:
            where = f"in {there} but {now} in {relation}" if there != relation else f"in one place and {now} in another"
            what = f"index {place + 1} of factor {name} is {was} {where}."
            raise mistake(what, bracket.indices[place].span, _shape_cure(old, new, place, visible))


def _shape_cure(old: tuple[str, ...], new: tuple[str, ...], place: int, visible: Mapping[str, bool]) -> str:
    """What to do about a factor whose indices differ first at this place."""
    was, now = old[place], new[place]
    if sorted(old) == sorted(new):
        return f"{ONE_SHAPE}; use one order of its indices."
    if visible[was] and visible[now]:
        return f"If the two have the same entities, declare {now}: {was}; else rename one of the two factors."
    return f"{ONE_SHAPE}; write {was} in both, or rename one of the two."
