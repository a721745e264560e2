"""One kind of page a file: what was asked for → a view."""
