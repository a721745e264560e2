"""Schema of the manifest of a run, of this format version and of earlier ones."""

from typing import Any

from plait.infer.stop import Reason
from plait.manifests import FILE, natural


def _is_seed(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_name(value: Any) -> bool:
    """Whether a value names a file of a folder, not a path."""
    return isinstance(value, str) and value.endswith((".safetensors", ".parquet")) and not set("/\\\0:") & set(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300  # products of two such numbers may overflow, sums may not


def _is_weight(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_record(value: Any) -> bool:
    """Whether a value is one sweep: its number, the bound, its change (None at the start), seconds, ranks."""
    if not isinstance(value, list) or len(value) != 5:
        return False
    sweep, bound, change, seconds, rank = value
    numbers = type(sweep) is int and all(map(_is_number, (bound, 0.0 if change is None else change, seconds)))
    return numbers and isinstance(rank, dict) and all(map(natural, rank.values()))


def _is_history(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_record, value))


STOP = (None, str, {"reason": tuple(str(reason) for reason in Reason), "sentence": str, "advice": str})
TERM = {"coefficient": _is_number, "vectors": [str], "table": [str]}
RULE = {
    "unlisted": _is_weight,
    "zero": _is_weight,
    "weight": _is_weight,
    "universe": ("relation", "model"),
    "diagonal": ("", "missing", "observed"),
    "apart": bool,
    "seen": [str],
    "hidden": [[str]],
    "weights": [TERM],
}
RELATION = {
    "columns": {str: str},
    "value": (None, str),
    "kind?": str,
    "closed": [[str]],
    "observed?": (None, RULE),
}
LOOP = {
    "rates": [_is_number],
    "divergences": {str: _is_number},
    "pause": int,
    "streak?": natural,
    "leapt?": bool,
    "learnt?": {str: {str: _is_number}},
    "gauge?": (None, {str: _is_number}),
}
COURSE = {"seed": _is_seed, "stop": STOP, "history": _is_history, "loop": LOOP}
SETTINGS = {
    "rank": {str: natural},
    "adapt": {str: (str, [str])},
    "order?": ("one-pass", "per-factor", "blocks"),
    "sweeps?": natural,
    "tol?": _is_number,
    "threads?": (None, natural),
    "dtype?": ("float64", "float32"),
    "prune?": bool,
    "accelerate?": bool,
    "start?": ("em", "random"),
    "restarts?": natural,
    "keep?": ("average", "best"),
    "bootstrap?": bool,
    "adapt_after?": int,
    "join?": int,
    "popularity?": {"bound": _is_number, "beside": _is_number},
    "rank_by?": dict,
    "weights?": {str: _is_number},
    "weights_by?": dict,
    "folded?": {str: natural},
}
MANIFEST = {
    "version": natural,
    "plait?": str,
    "model": str,
    "method": ("vb", "em", "map"),
    "seed": _is_seed,
    "stop": STOP,
    "likelihood": {str: (str, {str: (str, _is_number)})},
    "relations?": {str: RELATION},
    "settings": SETTINGS,
    "fingerprint": str,
    "exposures": {"names": [str], "relations": {str: [TERM]}},
    "extra": dict,
    "files": {str: FILE | {"file": _is_name, "key": (None, str)}},
}


def schema_of(found: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a manifest; runs of earlier versions have one member, in the manifest itself."""
    return MANIFEST | (COURSE if "members" not in found else {"members": [COURSE]})
