"""Predictive distributions of cells: moments, probabilities, intervals."""
