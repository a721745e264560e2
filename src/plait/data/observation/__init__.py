"""Observation weights: which cells are observed, and with what weight."""
