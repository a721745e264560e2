"""Data bound to a model: cells checked and numbered, given factors, what a fit remembers of it."""
