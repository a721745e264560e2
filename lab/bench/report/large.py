"""The part of large data: blocks on disk, a cluster, new entities and links."""

from collections.abc import Iterator, Mapping
from typing import Any

from lab.bench.report import words
from lab.harness.results import Found
from lab.harness.table import percent, text_table
from plait.rendering.document import Table


def tables(found: Found) -> Iterator[Table]:
    """One for each part, forecasts apart."""
    parts = (_disk, _memory, _speeds, _travelling, _losses, _forecasts, _newcomers, _fold_ins, _updates)
    for make in parts:
        table = make(found)
        if table.rows:
            yield table


def disk_over_memory(figures: Mapping[str, Any]) -> tuple[float, float] | None:
    """Processor time of a pass from disk ÷ one in memory; wall ÷ the longer of that and reading. None: not measured."""
    if "memory" not in figures:
        return None
    disk, memory = figures["disk"]["pass"], figures["memory"]["pass"]
    return disk["cpu"] / memory["cpu"], disk["wall"] / max(memory["wall"], disk["reading"])


def two_over_one(figures: Mapping[str, Any], kind: str = "processors") -> float:
    """How much faster two workers are."""
    return float(figures["workers=1"][kind] / figures["workers=2"][kind])


def _disk(found: Found) -> Table:
    made = []
    for about, f in found.part("large"):
        count = about["nonzeros"]
        for name in ("disk", "memory"):
            if name in f:
                run, fit = f[name]["pass"], f[name]["fit"]
                made.append([f"{words.number(count)} from {name}".replace("from memory", "in memory"),
                             words.significant(run["bytes"]), words.seconds(run["cpu"]), words.seconds(run["wall"]),
                             words.seconds(fit["seconds"]), words.size(fit["peak"])])  # fmt: skip
        pack = f["pack"]
        nanoseconds = f"{1e9 * pack['cpu'] / count:.0f} ns a row"
        made.append([f"{words.number(count)}, packed (memory=4GB)", "", nanoseconds, words.seconds(pack["wall"]), "",
                     words.size(pack["peak"])])  # fmt: skip
    headings = [
        "links of 10⁶ × 200 × 20,000, R = 20",
        "bytes a link",
        "a pass: processors",
        "wall",
        "three sweeps",
        "peak",
    ]
    note = (
        "The page cache is dropped before every pass from disk. The peak is that of the process, with Python and "
        "libraries; in memory it includes reading the table."
    )
    return text_table("Blocks on disk", headings, made, note)


def _memory(found: Found) -> Table:
    made = []
    for about, f in found.part("large"):
        for name, what in (("memory", "a table in memory"), ("scanned", "a scanned table")):
            if "bind" in f.get(name, {}):
                bind, fit, count = f[name]["bind"], f[name]["fit"], about["nonzeros"]
                bytes_ = [words.significant(one["more"] / count) for one in (bind, fit)]
                made.append([f"{words.number(count)} of {what}", f"{1e9 * bind['cpu'] / count:.0f}", *bytes_])
    headings = ["links", "binding: processor ns a link", "bytes a link at its peak", "at that of three sweeps, R = 20"]
    note = "Without the user's table. The last row includes factors, 192 MB per array, and kernels."
    return text_table("Memory of links", headings, made, note)


def _speeds(found: Found) -> Table:
    made = []
    for about, f in found.part("dask", what="speed"):
        cells = [words.seconds(f[name][kind]) for kind in ("seconds", "processors")
                 for name in ("threads=1", "workers=1", "workers=2")]  # fmt: skip
        ratios = [words.times(two_over_one(f, kind)) for kind in ("seconds", "processors")]
        made.append([about["data"], *cells[:3], ratios[0], *cells[3:], ratios[1]])
    ways = ["one thread", "one worker", "two", "two over one"]
    headings = ["R = 20", *ways, *(f"processors: {way}" for way in ways)]
    note = (
        "One sweep; workers of one thread, processes on this machine. Processors: processor time of the driver plus "
        "that of the busiest worker."
    )
    return text_table("Dask workers", headings, made, note)


def _losses(found: Found) -> Table:
    made = []
    for _, f in found.part("dask", what="lost"):
        made.append(["a sweep with a killed worker ÷ a normal one", words.significant(f["killed"] / f["normal"])])
    for _, f in found.part("dask", what="kills"):
        same = "the same bits" if f["same"] else "OTHER BITS"
        name = f"{f['killed']} workers killed and added at random in {f['sweeps'] - 1} sweeps"
        made.append([name, same])
    return text_table("Lost workers", ["what", "found"], made)


def _travelling(found: Found) -> Table:
    made = []
    for _, f in found.part("dask", what="bytes"):
        cells = (f"{f[way] / f['rows']:.1f}" for way in ("out", "back", "peers"))
        made.append([f"{words.number(f['rows'])} rows", *cells])
    note = "Per sweep and row of the longest axis, R = 20, two workers; rows of all other axes included."
    return text_table("Bytes sent", ["data", "sent from here", "fetched", "from peer to peer"], made, note)


def _forecasts(found: Found) -> Table:
    made = []
    for about, f in found.part("dask", what="forecast"):
        made.append([about["data"], *(f"{f[n]:.1f}" for n in ("one", "8", "64", "512"))])
    headings = ["links, and axes", "one machine", "8 machines", "64", "512"]
    return text_table("Estimate: seconds per sweep, R = 20, machines of 16 threads, 10 Gbit/s", headings, made)


def _newcomers(found: Found) -> Table:
    figures = found.get({"part": "fold_in", "what": "newcomer"}) or {}
    made = [[name, words.seconds(value)] for name, value in figures.items() if name != "items"]
    items = words.number(figures.get("items", 0))
    return text_table(f"One new user with 50 links among {items} items, rank 20", ["what", "seconds"], made)


def _fold_ins(found: Found) -> Table:
    made = []
    for about, f in found.part("fold_in"):
        if "data" in about:
            nats = (f"{f[name]:.3f}" for name in ("as the prior", "folded in", "fitted with"))
            made.append(
                [about["data"], f"{f['new']:,}", f"{f['links']:,}", *(f"{g:.5f}" for g in f["gaps"].values()), *nats]
            )
    iterations = next((list(f["gaps"]) for a, f in found.part("fold_in") if "data" in a), [])
    headings = ["data", "new", "links", *(f"after {n}" for n in iterations), "as the prior", "folded in", "fitted with"]
    note = (
        "A tenth of the entities is folded in. By iterations: loss in nats per link compared with 40 iterations. Then "
        "the log-probability of their held-out links."
    )
    return text_table("Fold-ins", headings, made, note)


def _updates(found: Found) -> Table:
    made = []
    for about, f in found.part("update"):
        shares = (percent(share) for share in f["shares"].values())
        made.append([about["data"], f"{f['links']:,}", f"{f['before']:.4f}", f"{f['full']:.4f}", *shares,
                     words.seconds(f["seconds"]["full"]), words.seconds(f["seconds"]["2"])])  # fmt: skip
    iterations = next((list(f["shares"]) for _, f in found.part("update")), [])
    headings = [
        "data",
        "old links",
        "before",
        "20 sweeps",
        *(f"after {n}" for n in iterations),
        "20 sweeps take",
        "2 iterations",
    ]
    note = (
        "Held-out gain of some iterations over the new fifth of the links, as a share of that of 20 warm sweeps over "
        "all links."
    )
    return text_table("Updates", headings, made, note)
