"""Queries of a fit: predictions, top-k search, explanations, components, export."""
