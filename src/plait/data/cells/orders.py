"""The order in which the one tree of a table that is kept on disk has its indices."""

from collections.abc import Mapping, Sequence


def packed_order(indices: Sequence[str], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The longest axis at the root, so that leaves are many and share few rows; then the others, short ones first.

    The rule of `compile.plan.tree_order`, which data must not know: a test holds the two together.
    """
    root = max(indices, key=lambda index: sizes[index])
    return (root, *sorted((index for index in indices if index != root), key=lambda index: sizes[index]))
