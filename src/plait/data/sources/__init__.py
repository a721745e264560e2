"""What users hand over: tables, arrays, graphs; `Relation` and `Exposure`."""
