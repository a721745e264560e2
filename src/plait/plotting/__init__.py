"""Charts of fits and tests as Vega-Lite has them; `plots` hands them to users as Altair's, `pictures` to documents."""
