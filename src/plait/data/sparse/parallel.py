"""Work over many rows on threads, in ranges or chunks.

The threads are those of reading and sorting: one per processor, independent of the `threads` of a fit. Chunks keep
scratch memory independent of the number of rows.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from plait.machine import processors
from plait.tuning import TUNING

CHUNK_ROWS = 1 << 17  # per call, where a step needs scratch memory


def ranges(count: int, threads: int | None = None) -> list[tuple[int, int]]:
    """0 … count cut into one range per thread; a single one for few rows."""
    parts = 1 if count < TUNING.min_threaded_rows else threads or processors()
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def shares(count: int) -> list[tuple[int, int]]:
    """0 … count items, each worth a thread, cut into one range per thread."""
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
    """Call work(rows) for chunks that make up 0 … count, on threads and in any order."""

    def run(_: int, lo: int, hi: int) -> None:
        for piece in range(lo, hi):
            work(slice(piece * CHUNK_ROWS, min((piece + 1) * CHUNK_ROWS, count)))

    # Chunks do not depend on threads, so sums of their sums do not either.
    pieces, parts = -(-count // CHUNK_ROWS), len(ranges(count))
    cuts = [(pieces * part // parts, pieces * (part + 1) // parts) for part in range(parts)]
    on_threads(run, [cut for cut in cuts if cut[0] < cut[1]] or [(0, 0)])


MIN_THREADED_CHUNKS = 4  # below, starting a thread costs more than it saves


def in_pieces(work: Callable[[int, int], object], count: int, piece: int) -> None:
    """Call work(lo, hi) for chunks of at most `piece` cells that cover 0 … count − 1, on threads and in any order."""
    piece = max(1, piece)
    threads = processors() if count > (MIN_THREADED_CHUNKS - 1) * piece else 1

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
