"""Settings found from data: how many components a latent index has, and which of several settings predicts best."""
