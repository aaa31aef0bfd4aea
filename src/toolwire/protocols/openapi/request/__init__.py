"""Build the HTTP request of a call: parameters, path, headers and body. May import ``document``."""
