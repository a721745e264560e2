"""Reports: data summary, cost estimate, run summary, and the report file."""
