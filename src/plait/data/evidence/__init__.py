"""Evidence made from data: features of entities, paths between them."""
