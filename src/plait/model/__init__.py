"""Model language: equations and declarations, parsed and checked."""

from plait.model.model import Equation, Factor, Model, Occurrence, Summand

__all__ = ["Equation", "Factor", "Model", "Occurrence", "Summand"]
