"""Contenders: Plait, the yardstick, plain NumPy, and other packages, one file each, all with the same face."""

import importlib
import importlib.metadata

from bench.peers.peer import Cannot, Peer
from bench.peers.reasons import why_missing

OURS = {
    "Plait": "bench.peers.plait_engine:Plait",
    "Plait float32": "bench.peers.plait_engine:PlaitSingle",
    "yardstick": "bench.peers.own:Yardstick",
    "NumPy": "bench.peers.own:NumPy",
}
OTHERS = {
    "pyttb cp_apr": "bench.peers.pyttb_:CpApr",
    "pyttb gcp_opt": "bench.peers.pyttb_:GcpOpt",
    "pygenten cp_als": "bench.peers.pygenten_:CpAls",
    "pygenten gcp_sgd": "bench.peers.pygenten_:GcpSgd",
    "TensorLy": "bench.peers.tensorly_:Parafac",
    "SMURFF": "bench.peers.smurff_:Gibbs",
    "scikit-learn NMF": "bench.peers.sklearn_:KlNmf",
    "hpfrec": "bench.peers.hpfrec_:Hpf",
    "poismf": "bench.peers.poismf_:PoisMf",
}

__all__ = ["OTHERS", "OURS", "Cannot", "Peer", "find", "missing", "version"]


def find(name: str) -> type[Peer]:
    """The class of a contender; its package is not imported yet."""
    module, attribute = (OURS | OTHERS)[name].split(":")
    found: type[Peer] = getattr(importlib.import_module(module), attribute)
    return found


def version(package: str) -> str | None:
    """The installed version of a package, if it is installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def missing(package: str) -> str:
    """Why a package is not there; nothing if it is, or if none is needed."""
    return why_missing(package) if package and version(package) is None else ""
