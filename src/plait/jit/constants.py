"""Sizes and thresholds of kernels."""

WIDTH = 8  # doubles of a vector; rows are padded to a multiple of it
LOGS = 256  # numbers collected before their logarithms are taken, eight at a time
TINY = 1e-270  # a scaled Xhat below this cannot be divided by (1e38/TINY is finite): log-sum-exp takes over there
TINY_SINGLE = 1e-20  # the same in floats: x/Xhat must stay below 1e38, and products above 1e-38 keep their digits
