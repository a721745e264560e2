"""Fixtures of saved runs."""

import pytest

from tests.support.store_runs import fitted


@pytest.fixture
def fit():
    return fitted()
