"""The process that draws."""

import threading

import pytest

from plait.explore.drawing import Drawing
from plait.show.document import Picture
from plait.show.svg import drawn

CHART = {"data": {"values": [{"x": "</svg>é🎷"}]}, "mark": "text", "encoding": {"text": {"field": "x"}}}
PICTURE = Picture(lambda: CHART, "A “name”\nin two lines")


@pytest.fixture
def drawing():
    own = Drawing()
    yield own
    own.close()


def test_it_draws_what_this_process_would(drawing):
    wanted = drawn(PICTURE)
    assert [drawing.draw(PICTURE), drawing.draw(PICTURE)] == [wanted, wanted]


def test_one_that_has_ended_is_started_again(drawing):
    first = drawing.draw(PICTURE)
    drawing.drawer.kill()
    drawing.drawer.wait()
    assert drawing.draw(PICTURE) == first


def test_what_cannot_be_drawn_is_an_error_and_the_next_is_drawn(drawing, capfd):
    with pytest.raises(RuntimeError, match="has ended"):
        drawing.draw(Picture(lambda: {"mark": 7}, ""))
    drawing.drawer.wait()
    assert "<svg" in drawing.draw(PICTURE)


def test_nobody_waits_for_one_that_is_closed(drawing):
    drawing.draw(PICTURE)
    told = []

    def draw() -> None:
        while not told:
            try:
                drawing.draw(PICTURE)
            except RuntimeError as error:
                told.append(error)

    waiting = [threading.Thread(target=draw) for _ in range(2)]
    for thread in waiting:
        thread.start()
    drawing.close()
    for thread in waiting:
        thread.join(10)
    assert told
    assert drawing.drawer.returncode is not None
