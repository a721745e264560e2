"""Storage of runs: a folder with a manifest, arrays and tables, replaced atomically."""
