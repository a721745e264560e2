"""Exact top-k search for the most probable links of a relation, by branch and bound."""
