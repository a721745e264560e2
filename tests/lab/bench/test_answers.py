"""The part of answers: when a training has arrived, and who is sooner."""

import pytest

from lab.bench.report import answers
from lab.bench.rows.answers import course
from lab.harness.results import Found


def found(**courses):
    cells = [
        {"cell": {"part": "answers", "what": "course", "data": "Nations", "method": who}, "figures": figures}
        for who, figures in courses.items()
    ]
    return Found({}, cells)


def test_a_course_arrives_where_its_precision_stays_near_the_end():
    assert answers.near({"seconds": [1.0, 2.0, 3.0, 4.0], "AP": [0.5, 0.4, 0.496, 0.5]}) == 3.0
    assert answers.near({"seconds": [1.0], "AP": [0.5]}) == 1.0


def test_a_peer_is_sooner_only_if_it_is_as_good():
    own = {"seconds": [1.0, 2.0], "AP": [0.4, 0.5]}
    peers = {
        "good": {"seconds": [0.5], "AP": [0.496]},
        "poor": {"seconds": [0.1], "AP": [0.3]},
        "slow": {"seconds": [3.0], "AP": [0.6]},
        "absent": {"cannot": "not installed"},
    }
    assert answers.slower(found(Plait=own, **peers)).endswith(": good on Nations.")
    assert answers.slower(found(Plait=own)) == ""
    (table,) = answers.tables(found(Plait=own, **peers))
    assert next(row[1:4] for row in table.rows) == ["Plait", "2.00 s", "0.500"]
    assert "absent: not installed" in table.note


@pytest.mark.thorough
def test_longer_trainings_follow_shorter_ones():
    figures = course("Nations", "Plait", quick=True)
    assert len(figures["seconds"]) == len(figures["AP"]) == 10
    assert 0 < min(figures["AP"]) < max(figures["AP"]) <= 1
