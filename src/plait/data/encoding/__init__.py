"""Encoding of entity names as row numbers."""
