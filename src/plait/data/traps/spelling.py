"""Names of one axis that a person would read as one: other case, other blanks. On distinct names only, by polars."""

from typing import TYPE_CHECKING

from plait.data.labels.columns import kind
from plait.data.labels.names import Labels
from plait.errors import quoted

if TYPE_CHECKING:
    import polars as pl

SHORTEST = 3  # letters of a name from which on case is taken for chance; "a" and "A" are symbols
SAMPLE = 10_000  # names that are looked at to tell words from codes


def padded(labels: Labels) -> tuple[int, str]:
    """How many names begin or end with a blank, and one of them."""
    if kind(labels.names) != "strings":
        return 0, ""
    found = labels.names.filter(labels.names != labels.names.str.strip_chars())
    return len(found), quoted(found[0]) if len(found) else ""


def alike(labels: Labels) -> tuple[int, str]:
    """How many names are equal to another but for case and blanks, and two of them; (0, "") if none."""
    import polars as pl

    if kind(labels.names) != "strings":
        return 0, ""
    folded = _folded(labels.names)
    if folded.n_unique() == len(folded):
        return 0, ""
    twice = folded.is_duplicated()
    frame = pl.DataFrame({"name": labels.names.filter(twice), "folded": folded.filter(twice)})
    if not _words(labels.names):  # codes such as 'aB3x' differ by case on purpose: only blanks count
        frame = frame.with_columns(folded=_single_blanks(frame["name"])).filter(pl.col("folded").is_duplicated())
    frame = frame.filter(pl.col("folded").str.len_chars() >= SHORTEST)
    if len(frame) == 0:
        return 0, ""
    pair = frame.filter(pl.col("folded") == frame["folded"].min())["name"].sort()
    return len(frame) - frame["folded"].n_unique(), f"{quoted(pair[0])} and {quoted(pair[1])}"


def _folded(names: "pl.Series") -> "pl.Series":
    return _single_blanks(names).str.to_lowercase()


def _single_blanks(names: "pl.Series") -> "pl.Series":
    bare = names.str.strip_chars()
    several = any(bare.str.contains(blanks, literal=True).any() for blanks in ("  ", "\t"))
    return bare.str.replace_all(r"\s+", " ") if several else bare  # a pattern takes its time


def _words(names: "pl.Series") -> bool:
    """Whether most names are written as words are: in one case, or with capitals at the beginning."""
    some = names.head(SAMPLE).str.strip_chars()
    lower, upper = some.str.to_lowercase(), some.str.to_uppercase()
    plain = (some == lower) | (some == upper) | (some == some.str.to_titlecase())
    return bool(2 * plain.sum() > len(some))
