"""The methods, one file for each package or idea, all with the same face."""

from lab.harness.packages import load
from lab.quality.methods.method import TRIES, Method

METHODS = {
    "Plait": "lab.quality.methods.plait_:Default",
    "Plait, five fits": "lab.quality.methods.plait_:Five",
    "Plait, evidence": "lab.quality.methods.plait_:Evidence",
    "Plait, evidence, five fits": "lab.quality.methods.plait_:EvidenceFive",
    "Plait, rules": "lab.quality.methods.plait_:Rules",
    "Plait, EM": "lab.quality.methods.plait_:Em",
    "Plait, symmetric": "lab.quality.methods.plait_:Symmetric",
    "Plait, symmetric + paths": "lab.quality.methods.plait_:SymmetricPaths",
    "Plait, A G A": "lab.quality.methods.plait_:Shared",
    "Plait, pairwise": "lab.quality.methods.plait_:Pairwise",
    "Plait, pairs": "lab.quality.methods.plait_:Remembered",
    "popularity": "lab.quality.methods.popularity:Popularity",
    "popularity of pairs": "lab.quality.methods.popularity:Pairs",
    "Adamic–Adar": "lab.quality.methods.networkx_:AdamicAdar",
    "resource allocation": "lab.quality.methods.networkx_:ResourceAllocation",
    "EASE": "lab.quality.methods.ease:Ease",
    "ALS": "lab.quality.methods.implicit_:Als",
    "BPR": "lab.quality.methods.implicit_:Bpr",
    "hpfrec": "lab.quality.methods.hpfrec_:Hpf",
    "NMF": "lab.quality.methods.sklearn_:Nmf",
    "ComplEx": "lab.quality.methods.pykeen_:ComplEx",
    "RESCAL": "lab.quality.methods.pykeen_:Rescal",
}
EQUATIONS = (
    "Plait, symmetric",
    "Plait, symmetric + paths",
    "Plait, A G A",
    "Plait, pairwise",
    "Plait, pairs",
)
PLAIN = "Plait, five fits"
EVIDENCE = "Plait, evidence"
BEST = "Plait, evidence, five fits"
OURS = ("Plait", PLAIN, EVIDENCE, BEST, "Plait, rules", "Plait, EM", *EQUATIONS)

__all__ = ["BEST", "EVIDENCE", "METHODS", "OURS", "PLAIN", "TRIES", "Method", "find"]


def find(name: str) -> type[Method]:
    """The class of a method; its package is not imported yet."""
    found: type[Method] = load(METHODS[name])
    return found
