"""Sparse cells: packed keys, sorting, compressed sparse fibre (CSF), leaves of the summation tree."""
