"""The most probable links of a relation, by branch and bound: exact, though most cells are never looked at."""
