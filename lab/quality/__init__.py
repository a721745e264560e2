"""How good answers are: Plait beside other packages and simple rules, on the same links, by one judge."""
