"""Accuracy of Plait, other packages and simple rules on the same links, by the same metrics."""
