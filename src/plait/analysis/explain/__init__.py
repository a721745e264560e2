"""Explanations of predicted links: components, supporting links, counterfactuals."""
