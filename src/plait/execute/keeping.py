"""What a worker does with rows of a factor that it owns: operands of sums made of them, and changes. Pure functions."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from plait.execute.parts import Span
from plait.execute.remote import Node
from plait.types import Array


class Recipe(NamedTuple):
    """How the rows of an operand are made of what is kept: a function of a module, and what else it is given."""

    make: Callable[..., Array]
    given: tuple[Any, ...]


class News(NamedTuple):
    """What a change tells: numbers for every piece of rows, and one for every row."""

    pieces: Array
    rows: Array


class Block(NamedTuple):
    """Rows of a factor from `first` on: arrays of (rows or 1) × columns; each: rows of one root row."""

    first: int
    each: int
    arrays: tuple[Array, ...]
    recipe: Recipe
    news: News | None = None

    def operand(self, span: Span) -> Array:
        """The stored operand at some root rows."""
        whole = self.recipe.make(self.arrays, *self.recipe.given)
        return whole[span.first * self.each - self.first : span.last * self.each - self.first]


class Patch(NamedTuple):
    """Rows of a gradient that other runs have found."""

    row: int
    gradient: Array


class Work(NamedTuple):
    """A change of rows: change(arrays, gradient, cuts, *given) -> new arrays, and news; a function of a module."""

    change: Callable[..., tuple[tuple[Array, ...], News]]
    given: tuple[Any, ...]


class Message(NamedTuple):
    """A change for one block: the place of its gradient in the run's node, more of it, where pieces are cut; what."""

    place: int
    patches: tuple[Patch, ...]
    cuts: tuple[int, ...]
    work: Work


def change_block(message: Message, node: Node, block: Block) -> Block:
    """The rows after a change."""
    gradient = gather(message, node, block)
    arrays, news = message.work.change(block.arrays, gradient, message.cuts, *message.work.given)
    return block._replace(arrays=arrays, news=news)


def gather(message: Message, node: Node, block: Block) -> Array:
    """The gradient at the rows of a block: from its own run, and from others."""
    (own,) = (written for written in node.own if written.place == message.place)
    assert isinstance(own.rows, slice)
    total = np.zeros((message.cuts[-1], own.gradient.shape[1]), own.gradient.dtype)
    total[own.rows.start - block.first : own.rows.stop - block.first] = own.gradient
    for row, gradient in message.patches:
        total[row - block.first : row - block.first + len(gradient)] += gradient
    return total


def news_of(*blocks: Block) -> list[News | None]:
    """What the last change told."""
    return [block.news for block in blocks]


def bundle(*blocks: Block) -> tuple[Block, ...]:
    """The same rows under another name, to be fetched by a second worker."""
    return tuple(block._replace(news=None) for block in blocks)


def pass_on(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """The same under a third name, which that worker keeps."""
    return blocks


def take_block(copies: tuple[Block, ...], place: int) -> Block:
    """One of several blocks."""
    return copies[place]
