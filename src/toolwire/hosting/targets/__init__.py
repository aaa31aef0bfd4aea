"""Targets: a URL, a document, or Python code, and how each is opened."""
