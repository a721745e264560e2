"""What everything that is measured shares.

results    finished cells, a line of JSON each; command: options and places of a run
running    cells that are not finished yet, one after the other; apart: a call in a process of its own
machine    where it was measured; packages: those that Plait is compared with; sources: the shared data
table, plots, page   presentation
"""
