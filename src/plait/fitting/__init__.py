"""Fitting: options of `plait.fit`, their validation, preparation of problems, and ensembles; `plait.pack`."""
