"""What is shown: documents, and how text, HTML, Markdown and JSON write them. Nothing in here knows Plait."""
