"""Evaluation: train–test splits, leakage, metrics with standard errors, comparison of fits."""

from plait.evaluation.comparison import Comparison, compare
from plait.evaluation.evaluator import Metrics, evaluate
from plait.evaluation.split import Split, train_test_split

__all__ = ["Comparison", "Metrics", "Split", "compare", "evaluate", "train_test_split"]
