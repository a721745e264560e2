"""From data to figures: hide a part of the links, fit the rest, and measure how well the hidden are predicted."""

from plait.evaluation.comparing import compare
from plait.evaluation.comparison import Comparison
from plait.evaluation.evaluating import evaluate
from plait.evaluation.evaluation import Metrics
from plait.evaluation.hiding import hide
from plait.evaluation.split import Split

__all__ = ["Comparison", "Metrics", "Split", "compare", "evaluate", "hide"]
