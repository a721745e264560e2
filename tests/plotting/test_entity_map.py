"""Maps of entities: distances are those of profiles, labels do not meet, and all of it is reproducible."""

import numpy as np
import pytest

from plait.errors import ParameterError
from plait.plotting.entity_map import draw, entity_map, scaled
from tests.support.chart_data import HOSTILE


def distances(X):
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1))


def test_points_of_a_plane_keep_their_distances():
    rng = np.random.default_rng(0)
    plane = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6))
    np.testing.assert_allclose(distances(scaled(plane)), distances(plane), rtol=1e-6, atol=1e-6)


def test_scaling_lowers_the_stress_of_principal_axes():
    points = np.random.default_rng(1).dirichlet(np.full(6, 0.3), 80) ** 0.5
    centred = points - points.mean(axis=0)
    principal = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    stress = [((distances(points) - distances(places)) ** 2).sum() for places in (principal, scaled(points))]
    assert stress[1] < 0.9 * stress[0]


def test_equal_profiles_and_single_entities_have_a_map():
    assert np.abs(scaled(np.ones((5, 3)))).max() < 1e-6
    assert scaled(np.ones((1, 1))).shape == (1, 2)


def test_a_map_has_the_entities_of_the_axis_and_marks_one(fit):
    found = entity_map(fit, "i", HOSTILE)
    assert sorted(found.names) == sorted(map(str, fit.entities["i"].names))
    assert found.names[found.chosen] == HOSTILE
    alike = fit.similar("i", HOSTILE, 10)["i"].to_list()
    assert [found.names[n] for n in found.near] == alike
    np.testing.assert_array_equal(found.places, entity_map(fit, "i", HOSTILE).places)
    rows = draw(found)["datasets"]["table0"]
    assert {row["series"].split(":")[0] for row in rows} <= {str(n) for n in range(fit.rank["r"])}
    assert [row["size"] for row in rows].count(160) == 1
    assert rows[found.chosen]["label"]


def test_the_largest_entities_are_on_a_map_of_many(fit, tuning):
    tuning(map_entities=5)
    found = entity_map(fit, "i")
    assert (len(found.rows), found.size) == (5, len(fit.entities["i"]))
    counts = dict.fromkeys(map(str, fit.entities["i"].names), 0)
    for known in fit.known.values():
        names = fit.entities["i"].names.gather(np.asarray(known.cells[:, 0], np.int64))
        for name, value in zip(names, known.values):
            counts[str(name)] += value
    assert min(counts[name] for name in found.names) >= sorted(counts.values())[-5]


def test_an_axis_without_components_has_no_map(fit):
    with pytest.raises(ParameterError, match="not an axis"):
        entity_map(fit, "q")
