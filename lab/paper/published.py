"""What the paper reports: B. Ermis and A. T. Cemgil, 2013, "A Bayesian tensor factorization model via variational
inference for link prediction". The tables' rank is not stated there.
"""

METHODS = ("PLTF-EM", "PLTF-VB", "GCTF-EM", "GCTF-VB")

# AUC over the hidden cells, mean and sd of 10 runs, CP; by share of missing cells.
UCLAF: dict[float, dict[str, tuple[float, float]]] = {
    0.6: {"PLTF-EM": (0.940, 0.004), "PLTF-VB": (0.973, 0.002), "GCTF-EM": (0.917, 0.003), "GCTF-VB": (0.981, 0.001)},
    0.8: {"PLTF-EM": (0.867, 0.005), "PLTF-VB": (0.959, 0.003), "GCTF-EM": (0.892, 0.004), "GCTF-VB": (0.962, 0.001)},
    0.9: {"PLTF-EM": (0.844, 0.005), "PLTF-VB": (0.917, 0.003), "GCTF-EM": (0.869, 0.004), "GCTF-VB": (0.939, 0.002)},
}
UCLAF_SECONDS = {"PLTF": "1.4–2.1", "GCTF": "5.0–6.2"}  # a fit

# AUC of the two tasks on Digg.
DIGG: dict[str, dict[float, dict[str, float]]] = {
    "comment": {
        0.6: {"PLTF-EM": 0.848, "PLTF-VB": 0.917, "GCTF-EM": 0.856, "GCTF-VB": 0.928},
        0.8: {"PLTF-EM": 0.829, "PLTF-VB": 0.897, "GCTF-EM": 0.837, "GCTF-VB": 0.913},
        0.9: {"PLTF-EM": 0.813, "PLTF-VB": 0.879, "GCTF-EM": 0.824, "GCTF-VB": 0.891},
    },
    "digg": {
        0.6: {"PLTF-EM": 0.864, "PLTF-VB": 0.935, "GCTF-EM": 0.892, "GCTF-VB": 0.961},
        0.8: {"PLTF-EM": 0.845, "PLTF-VB": 0.917, "GCTF-EM": 0.870, "GCTF-VB": 0.947},
        0.9: {"PLTF-EM": 0.829, "PLTF-VB": 0.898, "GCTF-EM": 0.853, "GCTF-VB": 0.923},
    },
}
DIGG_SECONDS: dict[str, dict[float, float]] = {  # a fit of GCTF-VB
    "comment": {0.6: 1251, 0.8: 735, 0.9: 453},
    "digg": {0.6: 538, 0.8: 354, 0.9: 211},
}

# Side of the cube: seconds of a fit, RMSE on held-out cells.
SCALING: dict[int, tuple[str, float]] = {500: ("1000–1300", 0.23), 1000: ("10,000–13,000", 0.20)}
