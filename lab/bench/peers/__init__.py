"""Contenders: Plait, the yardstick, plain NumPy, and other packages, one file each, all with the same face."""

from lab.bench.peers.peer import Cannot, Peer
from lab.harness.packages import load

OURS = {
    "Plait": "lab.bench.peers.plait_engine:Plait",
    "Plait float32": "lab.bench.peers.plait_engine:PlaitSingle",
    "yardstick": "lab.bench.peers.own:Yardstick",
    "NumPy": "lab.bench.peers.own:NumPy",
}
OTHERS = {
    "pyttb cp_apr": "lab.bench.peers.pyttb_:CpApr",
    "pyttb gcp_opt": "lab.bench.peers.pyttb_:GcpOpt",
    "pygenten cp_als": "lab.bench.peers.pygenten_:CpAls",
    "pygenten gcp_sgd": "lab.bench.peers.pygenten_:GcpSgd",
    "TensorLy": "lab.bench.peers.tensorly_:Parafac",
    "SMURFF": "lab.bench.peers.smurff_:Gibbs",
    "scikit-learn NMF": "lab.bench.peers.sklearn_:KlNmf",
    "hpfrec": "lab.bench.peers.hpfrec_:Hpf",
    "poismf": "lab.bench.peers.poismf_:PoisMf",
}

__all__ = ["OTHERS", "OURS", "Cannot", "Peer", "find"]


def find(name: str) -> type[Peer]:
    """The class of a contender; its package is not imported yet."""
    found: type[Peer] = load((OURS | OTHERS)[name])
    return found
