"""Vega-Lite charts of fits and tests; `plots` returns them as Altair charts, `pictures` puts them into documents."""
