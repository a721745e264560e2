"""Corrupted links: hidden ones against the same with another entity, so that only that entity distinguishes the two."""

import numpy as np
import polars as pl


def corrupted(
    links: pl.DataFrame, test: pl.DataFrame, index: str, rng: np.random.Generator
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Hidden links, and row by row the same with another entity of the index; links: all there are, hidden or not.

    The other entity is any that has a link. A draw that gives a link is left out, from both tables.
    """
    hidden = test.select(links.columns)
    drawn = pl.Series(index, rng.choice(links[index].unique().sort(), len(hidden)), dtype=links[index].dtype)
    free = hidden.with_columns(drawn).with_row_index().join(links, on=links.columns, how="anti", maintain_order="left")
    return hidden[free["index"]], free.drop("index")
