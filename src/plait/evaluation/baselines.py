"""What a model must beat: scores of cells without one."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from plait.result import Fit


def popularity(fit: "Fit", relation: str, cells: Any) -> NDArray[np.float64]:
    """The product over the indices of how many known links each entity of a cell has; cells as for `fit.predict`."""
    from plait.answer.predict.lookup import rows_of

    _, rows = rows_of(fit, relation, cells)
    return popularity_of_rows(fit, relation, rows)


def popularity_of_rows(fit: "Fit", relation: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for cells by row numbers; (n, order) -> (n,)."""
    known = fit.known[relation]
    score = np.ones(len(rows))
    cells = known.written  # of a pair, either entity has the link
    for k, size in enumerate(known.shape):
        score *= np.bincount(cells[:, k], minlength=size)[rows[:, k]]
    return score
