"""Binding of data to a model: checked and numbered cells, given factors, known links."""
