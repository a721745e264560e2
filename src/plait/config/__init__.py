"""A fit as a TOML file: the model, where its relations come from, given factors, labels and settings.

    model = "visits[user, place] = U[user, r] P[place, r]"
    rank = 10

    [relations.visits]
    source = "visits.csv"        # relative to this file; or a database URL beside query or table
    value = "plays"

    [fit]
    seed = 0

`read_config` checks names and types of all keys; the files behind it are read by `Config.data`, `fixed` and `entities`.
"""

from plait.config.config_file import Config, read_config

__all__ = ["Config", "read_config"]
