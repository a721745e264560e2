"""Rendering of documents as text, HTML, Markdown and JSON; independent of the rest of Plait."""
