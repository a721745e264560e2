"""Files that are served as they are."""
