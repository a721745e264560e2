"""How large the factors of a fit are: their layouts, and whether memory holds them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plait.compile.layout import Layout, PairRows
from plait.data.bound import Data
from plait.errors import SettingError
from plait.machine import memory
from plait.model import Model

ARRAYS = 6  # arrays of a factor's size that a plain fit holds at its peak


def layouts(
    model: Model, data: Data, ranks: Mapping[str, int], pairs: Mapping[str, PairRows] | None = None
) -> dict[str, Layout]:
    """The layout of every factor; pairs: those over pairs, by name."""
    result, unscaled = {}, model.unscaled({name: own.likelihood for name, own in data.relations.items()})
    for name in model.factors:
        factor, scaled = model.factor(name), name not in unscaled
        if pairs and name in pairs:
            own = tuple(ranks[index] for index in factor.latent)
            result[name] = Layout.of_pairs(name, pairs[name], factor.latent, own, scaled)
            continue
        sizes = tuple(ranks[i] if i in ranks else data.sizes[i] for i in factor.visible + factor.latent)
        result[name] = Layout(name, factor.indices, factor.visible, factor.latent, sizes, scaled)
    return result


def arrays_held(method: str, accelerate: bool, restarts: int = 1) -> int:
    """Arrays of a factor's size that a fit holds; an accelerated one has C and D (of a point Z) a second time.

    Members that have run leave C, D and log L (of a point Z).
    """
    own = 2 if method == "vb" else 1
    return ARRAYS + (own if accelerate else 0) + (restarts - 1) * (3 if method == "vb" else 1)


def check_memory(layouts: Mapping[str, Layout], free: Sequence[str], dtype: np.dtype[Any], arrays: int) -> None:
    """Refuse factors that cannot fit, so many arrays of each, before trying to allocate them."""
    size = dtype.itemsize * arrays
    needs = {name: size * layouts[name].rows * layouts[name].columns for name in free}
    if sum(needs.values()) <= memory():
        return
    name = max(needs, key=lambda name: needs[name])
    shape = " × ".join(f"{size:,}" for size in layouts[name].shape)
    others = f", {sum(needs.values()) / 1e9:,.1f} GB with the others" if len(needs) > 1 else ""
    raise SettingError(
        (
            f"factor {name} is too large: {shape} needs about {needs[name] / 1e9:,.1f} GB{others}; "
            f"this machine has {memory() / 1e9:,.1f} GB."
        ),
        hint="Use a smaller rank, or a model in which no factor has so many visible indices.",
    )
