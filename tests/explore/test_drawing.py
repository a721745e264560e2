"""The process that draws."""

import threading

import pytest

from plait.explore.subprocesses import Drawing
from plait.rendering.document import Picture
from plait.rendering.svg import drawn

CHART = {"data": {"values": [{"x": "</svg>é🎷"}]}, "mark": "text", "encoding": {"text": {"field": "x"}}}
PICTURE = Picture(lambda: CHART, "A “name”\nin two lines")


@pytest.fixture
def drawing():
    own = Drawing()
    yield own
    own.close()


def test_it_draws_as_this_process(drawing):
    wanted = drawn(PICTURE)
    assert [drawing.draw(PICTURE), drawing.draw(PICTURE)] == [wanted, wanted]


@pytest.mark.thorough
def test_a_process_that_ended_is_started_again(drawing, capfd):
    first = drawing.draw(PICTURE)
    drawing.drawer.kill()
    drawing.drawer.wait()
    assert drawing.draw(PICTURE) == first
    with pytest.raises(RuntimeError, match="has ended"):
        drawing.draw(Picture(lambda: {"mark": 7}, ""))
    drawing.drawer.wait()
    assert "<svg" in drawing.draw(PICTURE)


def test_a_closed_drawing_ends_its_waiting_threads(drawing):
    drawing.draw(PICTURE)
    errors = []

    def draw() -> None:
        while not errors:
            try:
                drawing.draw(PICTURE)
            except RuntimeError as error:
                errors.append(error)

    waiting = [threading.Thread(target=draw) for _ in range(2)]
    for thread in waiting:
        thread.start()
    drawing.close()
    for thread in waiting:
        thread.join(10)
    assert errors
    assert drawing.drawer.returncode is not None
