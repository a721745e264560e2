"""Outside names and row numbers."""
