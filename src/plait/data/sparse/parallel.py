"""Work over many rows, cut into ranges that threads share.

The threads are those of reading and sorting: one for every processor, whatever `threads=` a fit asks for its sweeps.

Work over many cells on threads, a piece at a time: scratch memory does not grow with the number of cells.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from plait.machine import processors

MANY = 50_000  # rows below which plain NumPy is as fast, and nothing has to be compiled
PIECE = 1 << 17  # rows worked on at a time where a step needs scratch memory


def ranges(count: int, threads: int | None = None) -> list[tuple[int, int]]:
    """0 … count cut into one range a thread; a single one where there are few rows."""
    parts = 1 if count < MANY else threads or processors()
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def shares(count: int) -> list[tuple[int, int]]:
    """0 … count things, each of them worth a thread, cut into one range a thread."""
    parts = max(min(processors(), count), 1)
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def on_threads(work: Callable[[int, int, int], object], cuts: list[tuple[int, int]]) -> None:
    """Call work(number, lo, hi) for every range, the first one on this thread."""
    if len(cuts) == 1:
        work(0, *cuts[0])
        return
    with ThreadPoolExecutor(len(cuts) - 1, thread_name_prefix="plait") as pool:
        others = [pool.submit(work, part, *cuts[part]) for part in range(1, len(cuts))]
        work(0, *cuts[0])
        for other in others:
            other.result()


def by_pieces(work: Callable[[slice], object], count: int) -> None:
    """Call work(rows) for short ranges that make up 0 … count, on threads and in any order."""

    def run(_: int, lo: int, hi: int) -> None:
        for piece in range(lo, hi):
            work(slice(piece * PIECE, min((piece + 1) * PIECE, count)))

    # Pieces are the same whoever works on them, so that sums of their sums are.
    pieces, parts = -(-count // PIECE), len(ranges(count))
    cuts = [(pieces * part // parts, pieces * (part + 1) // parts) for part in range(parts)]
    on_threads(run, [cut for cut in cuts if cut[0] < cut[1]] or [(0, 0)])


FEW = 4  # pieces below which starting a thread costs more than it saves


def in_pieces(work: Callable[[int, int], object], count: int, piece: int) -> None:
    """Call work(lo, hi) for ranges of at most `piece` cells that together cover 0 … count − 1, in any order."""
    piece = max(1, piece)
    threads = processors() if count > (FEW - 1) * piece else 1

    def run(thread: int) -> None:
        for lo in range(count * thread // threads, count * (thread + 1) // threads, piece):
            work(lo, min(lo + piece, count * (thread + 1) // threads))

    if threads == 1:
        run(0)
        return
    with ThreadPoolExecutor(threads - 1, thread_name_prefix="plait") as pool:
        others = [pool.submit(run, thread) for thread in range(1, threads)]
        run(0)
        for other in others:
            other.result()
