"""The model language: equations and declarations, read from text and checked."""

from plait.model.model import Equation, Factor, Model, Occurrence, Summand

__all__ = ["Equation", "Factor", "Model", "Occurrence", "Summand"]
