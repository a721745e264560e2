"""Speed and memory of Plait, compared with a hand-written kernel, plain NumPy and other packages: make bench.

data         the models that are measured, with random data
engine       Plait, taken apart
plain        the same sweep in NumPy; yardstick: the counts pass of CP-3 by hand
peers/       all contenders with one face, a file each
team         contenders side by side, a process each (worker), an iteration in turn
rows/        the measurements: sweep, quality, front, growth
report/      the page and its plots, from the results alone
starts, predict, top, counts   tables for the terminal, behind decisions
"""
