"""Settings compared in one table: which rank, tying and likelihood predicts best, or has the best bound."""

from plait.choosing.choice import Choice
from plait.choosing.deciding import choose

__all__ = ["Choice", "choose"]
