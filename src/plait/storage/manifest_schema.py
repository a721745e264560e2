"""Schema of the manifest of a run, and the upgrade of manifests of earlier format versions."""

from collections.abc import Mapping
from typing import Any

from plait.inference.state import Reason
from plait.manifests import FILE, natural


def _is_seed(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_name(value: Any) -> bool:
    """Whether a value is a file name without a path."""
    return isinstance(value, str) and value.endswith((".safetensors", ".parquet")) and not set("/\\\0:") & set(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300  # products of two such numbers may overflow, sums may not


def _is_weight(value: Any) -> bool:
    return _is_number(value) and value >= 0


def _is_positive(value: Any) -> bool:
    return _is_number(value) and value > 0


def _is_record(value: Any) -> bool:
    """Whether a value is one sweep: its number, the objective, its change (None at the start), seconds, ranks."""
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
    "unseen": ("missing", "zero"),
    "self_links": ("", "missing", "observed"),
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
    "n_accepted?": natural,
    "extrapolated?": bool,
    "likelihood_params?": {str: {str: _is_number}},
    "log_scales?": (None, {str: _is_number}),
}
CALIBRATION = {
    "intercept": _is_number,
    "slope": _is_positive,
    "links": natural,
    "zeros": natural,
    "gain": _is_number,
    "gain_error": _is_number,
    "features?": [{"name": str, "places": [natural], "coefficient": _is_number, "offset": _is_positive}],
}
COURSE = {
    "seed": _is_seed, "stop": STOP, "history": _is_history, "loop": LOOP, "component_names?": {str: {str: str}},
}  # fmt: skip
SETTINGS = {
    "rank": {str: natural},
    "adapt_prior": {str: (str, [str])},
    "max_iter?": natural,
    "tol?": _is_number,
    "threads?": (None, natural),
    "dtype?": ("float64", "float32"),
    "prune?": bool,
    "accelerate?": bool,
    "warmup?": natural,
    "restarts?": natural,
    "combine?": ("average", "best"),
    "bootstrap?": bool,
    "adapt_after?": int,
    "join?": int,
    "popularity?": {"baseline": _is_number, "objective": _is_number},
    "rank_by?": dict,
    "search_seconds?": _is_number,
    "weights?": {str: _is_number},
    "weights_by?": dict,
    "likelihood_by?": {str: str},
    "folded?": {str: natural},
}
SUMMED = {"factor": str, "weights": str, "index": str, "size": natural, "labels": [(str, int)]}
MANIFEST = {
    "version": natural,
    "plait?": str,
    "model": str,
    "method": ("vb", "em", "map"),
    "seed": _is_seed,
    "stop": STOP,
    "likelihood": {str: (str, {str: (str, _is_number)})},
    "relations?": {str: RELATION},
    "calibration?": {str: CALIBRATION},
    "settings": SETTINGS,
    "fingerprint": str,
    "exposures": {"names": [str], "relations": {str: [TERM]}, "summed?": {str: SUMMED}},
    "extra": dict,
    "files": {str: FILE | {"file": _is_name, "key": (None, str)}},
}


def schema_of(content: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a manifest; runs of earlier versions have one member, in the manifest itself."""
    return MANIFEST | (COURSE if "members" not in content else {"members": [COURSE]})


UNSEEN = {"relation": "missing", "model": "zero"}
SETTING_NAMES = {"adapt": "adapt_prior", "sweeps": "max_iter", "start": "warmup", "keep": "combine"}
SETTING_VALUES: dict[str, dict[Any, Any]] = {"start": {"em": 50, "random": 0}}
STOP_ADVICE = dict.fromkeys(
    ("Raise `sweeps` to go on.", "Raise sweeps= to go on."), "Fit again with a larger `max_iter`."
)
LOOP_NAMES = {
    "streak": "n_accepted", "leapt": "extrapolated", "learnt": "likelihood_params", "gauge": "log_scales",
}  # fmt: skip


def upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest of format version 6 or earlier with the names of version 7.

    Values of unexpected types stay as they are: the schema refuses them afterwards.
    """
    if not isinstance(version := content.get("version"), int) or version > 6:
        return content
    content = dict(content)
    content["settings"] = _renamed(content.get("settings"), SETTING_NAMES, SETTING_VALUES)
    if isinstance(content["settings"], dict):
        content["settings"].pop("order", None)  # an option that is gone
        if isinstance(stored := content["settings"].get("popularity"), dict):
            content["settings"]["popularity"] = _renamed(stored, {"bound": "baseline", "beside": "objective"})
        if isinstance(stored := content["settings"].get("rank_by"), dict):
            elbo = {"bound": "elbo"}
            content["settings"]["rank_by"] = _renamed(stored, {}, {"asked": elbo, "way": elbo})
    if isinstance(likelihoods := content.get("likelihood"), dict):
        content["likelihood"] = {name: _likelihood(words) for name, words in likelihoods.items()}
    if isinstance(relations := content.get("relations"), dict):
        content["relations"] = {name: _relation(stored) for name, stored in relations.items()}
    if isinstance(members := content.get("members"), list):
        content["members"] = [_member(stored) for stored in members]
    return dict(_member(content))


def _renamed(stored: Any, names: Mapping[str, str], values: Mapping[str, Mapping[Any, Any]] | None = None) -> Any:
    if not isinstance(stored, dict):
        return stored

    def value_of(key: str, value: Any) -> Any:
        known = (values or {}).get(key, {})
        return known[value] if isinstance(value, str) and value in known else value

    return {names.get(key, key): value_of(key, value) for key, value in stored.items()}


def _likelihood(words: Any) -> Any:
    if isinstance(words, dict):
        return _renamed(words, {}, {"name": {"amounts": "tweedie"}})
    return "tweedie" if words == "amounts" else words


def _relation(stored: Any) -> Any:
    if isinstance(stored, dict) and isinstance(rule := stored.get("observed"), dict):
        names = {"universe": "unseen", "diagonal": "self_links"}
        return stored | {"observed": _renamed(rule, names, {"universe": UNSEEN})}
    return stored


def _member(stored: Any) -> Any:
    if not isinstance(stored, dict):
        return stored
    stored = dict(stored)
    if "loop" in stored:
        stored["loop"] = _renamed(stored["loop"], LOOP_NAMES)
    if isinstance(stored.get("stop"), dict):
        stored["stop"] = _renamed(stored["stop"], {}, {"reason": {"sweeps": "max_iter"}, "advice": STOP_ADVICE})
    return stored
