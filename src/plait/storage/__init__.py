"""Runs on disk: a folder with a manifest, arrays and tables, replaced as a whole or not at all."""
