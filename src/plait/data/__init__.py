"""Data of a model: tables and arrays as row numbers, values and weights; `bind` ties them to a model."""

from plait.data.sources.relation import Exposure, Relation

__all__ = ["Exposure", "Relation"]
