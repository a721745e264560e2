"""Tables and arrays -> row numbers, values and weights. ``bind`` ties them to a model."""

from plait.data.sources.relation import Exposure, Relation

__all__ = ["Exposure", "Relation"]
