"""What is found from the data before a fit: how many components a latent index has, and what side relations weigh."""
