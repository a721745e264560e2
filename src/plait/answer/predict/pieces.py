"""Work over many cells on threads, a piece at a time: scratch memory does not grow with the number of cells."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from plait.machine import processors

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
