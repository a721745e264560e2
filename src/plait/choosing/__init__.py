"""Settings compared in one table: which rank, tying and likelihood predicts best, or has the best bound."""

from plait.choosing.deciding import choose
from plait.choosing.report import Choice

__all__ = ["Choice", "choose"]
