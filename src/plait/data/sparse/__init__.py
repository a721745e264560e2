"""Cells as coordinates: packed, sorted, compressed into fibres, and the trees that kernels walk."""
