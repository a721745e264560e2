"""Components of a fit: their entities, and similarity of entities."""
