"""How many components a latent index has, found from the data: what predicts best, and how many groups there are."""
