"""Which cells are observed, and how much: weights over all cells of a tensor, and their algebra."""
