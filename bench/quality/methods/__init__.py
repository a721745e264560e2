"""The methods, one file for each package or idea, all with the same face."""

import importlib

from bench.quality.methods.method import TRIES, Method

METHODS = {
    "Plait": "bench.quality.methods.plait_:Default",
    "Plait, five fits": "bench.quality.methods.plait_:Five",
    "Plait, EM": "bench.quality.methods.plait_:Em",
    "Plait, symmetric": "bench.quality.methods.plait_:Symmetric",
    "Plait, symmetric + paths": "bench.quality.methods.plait_:SymmetricPaths",
    "Plait, A G A": "bench.quality.methods.plait_:Shared",
    "Plait, A G A, no self-links": "bench.quality.methods.plait_:SharedApart",
    "Plait, pairwise": "bench.quality.methods.plait_:Pairwise",
    "Plait, pairs": "bench.quality.methods.plait_:Remembered",
    "popularity": "bench.quality.methods.popularity:Popularity",
    "popularity of pairs": "bench.quality.methods.popularity:Pairs",
    "Adamic–Adar": "bench.quality.methods.networkx_:AdamicAdar",
    "resource allocation": "bench.quality.methods.networkx_:ResourceAllocation",
    "EASE": "bench.quality.methods.ease:Ease",
    "ALS": "bench.quality.methods.implicit_:Als",
    "BPR": "bench.quality.methods.implicit_:Bpr",
    "hpfrec": "bench.quality.methods.hpfrec_:Hpf",
    "NMF": "bench.quality.methods.sklearn_:Nmf",
    "ComplEx": "bench.quality.methods.pykeen_:ComplEx",
    "RESCAL": "bench.quality.methods.pykeen_:Rescal",
}
EQUATIONS = (
    "Plait, symmetric",
    "Plait, symmetric + paths",
    "Plait, A G A",
    "Plait, A G A, no self-links",
    "Plait, pairwise",
    "Plait, pairs",
)
OURS = ("Plait", "Plait, five fits", "Plait, EM", *EQUATIONS)
BEST = "Plait, five fits"
EASIER = ("Plait, A G A, no self-links",)  # has fewer rivals than all others, so it is shown but not compared

__all__ = ["BEST", "EASIER", "METHODS", "OURS", "TRIES", "Method", "find"]


def find(name: str) -> type[Method]:
    """The class of a method; its package is not imported yet."""
    module, attribute = METHODS[name].split(":")
    found: type[Method] = getattr(importlib.import_module(module), attribute)
    return found
