"""From a fit to answers: cells with uncertainty, the most probable links, posterior draws."""
