"""Questions to a fit: predictions, the most probable links, reasons, labelled arrays."""
