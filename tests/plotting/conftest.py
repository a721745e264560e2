"""A fit of two coupled relations, its test and its drawings."""

import pytest

import plait
from plait.rendering.svg import drawn
from tests.support.chart_data import MODEL, NAMES, pictures, tables


@pytest.fixture(scope="session")
def split():
    return plait.train_test_split(tables(), "X", fraction=0.3, by="cells", seed=0, model=MODEL)


@pytest.fixture(scope="session")
def fit(split):
    labels = {"i": NAMES, "j": [f"j{n}" for n in range(15)], "k": [f"k{n}" for n in range(4)]}
    return plait.fit(MODEL, split.train, rank=3, seed=0, max_iter=60, restarts=3, entities=labels)


@pytest.fixture(scope="session")
def metrics(fit, split):
    return plait.evaluate(fit, "X", split.test)


@pytest.fixture(scope="session")
def drawings(fit, metrics):
    """The pictures, drawn."""
    return {name: drawn(picture) for name, picture in pictures(fit, metrics).items()}
