"""From arguments to a fit: options checked, problems made, members run."""
