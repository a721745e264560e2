"""Groups that a fit has found: who is in a component, and who is like whom."""
