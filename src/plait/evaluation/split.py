"""What `plait.hide` gives: data to fit, and what was hidden from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """``train, test = plait.hide(…)``.

    train: a `plait.Relation`, or the dict of relations with some replaced. test: a table of the hidden cells by index,
    and their `value`. twins: what gives hidden links away: a table with the columns relation, agree_on, hidden_links,
    twins, example, hidden; None where they were to be ignored. zeros: how many hidden zeros the test lists; None where
    only links are listed, though zeros may be hidden too. chosen, candidates, what: how many were chosen to be hidden,
    out of how many cells, links, entities or pairs. indices: of the relation, as they were understood.
    """

    train: Any
    test: Any
    twins: "pl.DataFrame | None"
    relation: str
    by: str | tuple[str, ...]
    fraction: float
    seed: int
    what: str
    chosen: int
    candidates: int
    links: int
    zeros: int | None
    indices: tuple[str, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.train, self.test))

    def __repr__(self) -> str:
        return str(self)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What there is to say of it: a word and what it is, a line each."""
        zeros = "no zeros listed" if self.zeros is None else f"{self.zeros:,} zeros"
        found = [
            ("hidden", f"{self.chosen:,} of {self.candidates:,} {self.what}, seed {self.seed}"),
            ("test", f"{self.links:,} links, {zeros}"),
        ]
        for row in self.twins.iter_rows(named=True) if self.twins is not None else ():
            state = "hidden too" if row["hidden"] else "known to a fit"
            words = f"{row['twins']:,} in {row['relation']} agree on {row['agree_on']} with {row['hidden_links']:,}"
            found.append(("twins", f"{words} hidden links; {state}"))
        if self.twins is not None and not len(self.twins):
            found.append(("twins", "none"))
        return found

    def __str__(self) -> str:
        subject = f"{self.relation}[{', '.join(self.indices)}]"
        first = f"Split of {subject}: {self.chosen:,} of {self.candidates:,} {self.what} hidden, seed {self.seed}"
        return "\n  ".join([first, *(f"{word:<6} {words}" for word, words in self.facts[1:])])

    def _repr_html_(self) -> str:
        from plait.show.html import render
        from plait.show.objects import describe_split

        return render(describe_split(self))
