"""From data to figures: hide a part of the links, fit the rest, and measure how well the hidden are predicted."""

from plait.evaluation.comparison import Comparison, compare
from plait.evaluation.evaluator import Metrics, evaluate
from plait.evaluation.split import Split, train_test_split

__all__ = ["Comparison", "Metrics", "Split", "compare", "evaluate", "train_test_split"]
