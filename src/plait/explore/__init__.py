"""A run in the browser: a local server whose every page is a document of `plait.rendering`, with a twin in JSON."""
