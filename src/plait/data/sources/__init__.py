"""Input data: tables, arrays, graphs; `Relation` and `Exposure`."""
