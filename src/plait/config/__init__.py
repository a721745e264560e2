"""Fits as TOML files: the model, sources of its relations, given factors, entities and settings.

    model = "visits[user, place] = U[user, r] P[place, r]"
    rank = 10

    [relations.visits]
    source = "visits.csv"        # relative to this file; or a database URL, with a query or a table
    value = "plays"

    [fit]
    seed = 0

`read_config` checks names and types of all keys; `Config.data`, `fixed` and `entities` read the files.
"""

from plait.config.config_file import Config, read_config

__all__ = ["Config", "read_config"]
