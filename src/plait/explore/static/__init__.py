"""Static files."""
