"""New entities and new links: what a fit learns after it was made, without the data it was made from."""
