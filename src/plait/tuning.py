"""Sizes that decide how work is cut: chunks, buffers, thresholds and waiting times.

Each was measured or follows from memory. Fits and answers are right with any of them: tests set some to reach the code
for large data with small data.
"""

from dataclasses import dataclass


@dataclass
class Tuning:
    """The sizes in force."""

    # Reading text files.
    csv_sample_bytes: int = 1 << 17  # enough to see what a column holds; one that turns out wider is read again
    csv_chunk_bytes: int = 4 << 20  # of the line-by-line walk that locates a bad row

    # The machine: None is what it has.
    memory_bytes: float | None = None
    processors: int | None = None

    # Sorted links and the leaves they are cut into (decision 27).
    min_leaf_entries: int = 1 << 12  # fewer are one leaf
    max_leaf_entries: int = 1 << 23  # read from a disk in one go
    leaf_entries_per_row: int = 128  # for each row that leaves share: clearing and joining sums then costs little
    min_narrow_entries: int = 4096  # fewer keep wide types: they fit a cache, and each combination is another kernel
    min_threaded_rows: int = 50_000  # below, plain NumPy is as fast, and nothing has to be compiled
    key_span: int = 1 << 64  # of integer keys of cells; the cells of a larger tensor are keyed by ranks
    release_words: int = 1 << 20  # of packed cells, whose memory is released at a time
    max_opened_cells: int = 1 << 26  # tensors of more cells keep tables of hidden cells, even if few cells are open
    max_dense_pairs: int = 1 << 12  # rows up to which a factor over pairs has one for every pair
    max_join_entries: int = 2_000_000_000  # a larger join of weight tables is a mistake on any machine
    path_sums: int = 1 << 22  # sums of `paths` made in one go
    ridge_sample_rows: int = 2_000  # rows by which a ridge is chosen: inverting such a matrix takes tenths of a second
    ridge_row_predictions: int = 50  # of a restricted regression, kept for each row
    ridge_pairs: float = 2e8  # pairs of links of one row that a restricted regression counts: some 1.5 GB

    # Threads and workers.
    min_parallel_entries: int = 1 << 16  # entries × columns below which starting a thread costs more than it saves
    min_member_entries: int = 1 << 18  # entries × columns below which one member cannot keep several threads busy
    float_sum_entries: int = 1 << 18  # added up in floats before the sum goes on in doubles …
    float_sum_rows: int = 4  # … and entries for each row of the gradients, else going on costs more than adding up
    underflow_chunk: int = 1 << 22  # doubles of the latent tensor worked on at a time
    join_bytes: int = 32 << 20  # of all partial sums together, beyond which Dask workers join them
    connect_seconds: float = 10.0  # in which a Dask scheduler must answer

    # Optimisation.
    max_momentum_change: float = 1e-3  # no momentum after a sweep that changed the bound by more (decision 10)
    momentum_delay: float = 3  # the larger, the slower the momentum grows

    # Searches for ranks and weights (decision 19).
    max_sweep_products: float = 5e8  # links × products of ranks that a sweep may take
    max_trial_products: float = 1e8  # the same of a fit that only tries a weight
    rank_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    side_weights: tuple[float, ...] = (0.01, 0.1, 0.3, 3.0)  # tried next to 1, for each relation in turn
    min_gain_errors: float = 2.0  # standard errors by which another weight must predict better

    # Answers.
    predict_cells: int = 1 << 20  # whose row numbers and moments are held at a time
    mixture_points: int = 1 << 22  # held at a time
    responsibilities_chunk: int = 1 << 20  # numbers of a chunk's largest array
    coupling_chunk: int = 1 << 20  # the same of `coupling`
    box_cells: int = 512  # of a box that is scored outright
    boxes_batch: int = 4096  # boxes split, or scored, at a time
    first_boxes: int = 16  # scored before there is anything to compare with
    tree_fan_out: int = 8  # blocks of rows in a block of the next level
    contraction_doubles: int = 1 << 24  # that a contraction may add: 128 MB
    max_pair_array: int = 1 << 22  # pairs of which a factor has an array
    gathered_doubles: int = 1 << 23  # of a factor, gathered for the entries of an exposure's table at a time
    contracted_cells: int = 1 << 20  # of a search without compiled code
    all_cells: int = 1 << 20  # cells of one query up to which all of them are scored
    block_cells: int = 1 << 21  # scored at a time
    max_calibrated_cells: int = 1 << 20  # scored in a search whose bounds are loose, because calibration has features
    top_chunk_links: int = 1 << 17  # of a row group that `top` writes to a file: some 100 MB while it is made
    update_sample_links: int = 10_000  # by which old counts are rescaled (decision 28)
    networkx_restarts: int = 5  # fits whose mixture answers: one alone is a poorer guess (docs/quality.md)
    networkx_pairs: int = 1 << 16  # whose probabilities are computed at a time

    # Splits and evaluation.
    max_listed_cells: int = 1 << 25  # tensors of more cells, and pairs of indices, are not listed
    listing_chunk: int = 1 << 20  # cells looked at together
    max_negatives_listed: int = 1 << 20  # tensors of more cells have their negatives drawn until enough are no links
    negative_rounds: int = 30  # of draws before the remaining candidates are listed
    ranking_scores: int = 1 << 22  # held at a time

    # Terminal, report, explorer.
    quiet_seconds: float = 0.5  # of work without a progress bar
    pipe_columns: int = 10_000  # nothing is wrapped or cut in a pipe
    map_entities: int = 400  # of an entity map: distances of all pairs are in memory
    report_cards: int = 24  # components that have a card
    many_entities: int = 50_000  # from which on reasons take so long that fewer are given …
    explained_of_many: int = 30  # … namely these
    whatif_answers: int = 200  # kept
    whatif_grace_seconds: float = 5.0  # after which a worker that does not stop is ended


TUNING = Tuning()
