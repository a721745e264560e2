"""Files of whole HTML pages."""
