"""Explorer of a run in the browser: a local server; every page is a document of `plait.rendering`, also as JSON."""
