"""Read HTTP responses as results of bounded size: JSON, text, files, streams. May import ``request``."""
