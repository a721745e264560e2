"""Model selection: ranks and weights chosen from the data, and a grid search over settings."""
