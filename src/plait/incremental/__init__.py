"""Incremental learning: fold-in of new entities and updates with new links, without the old data."""
