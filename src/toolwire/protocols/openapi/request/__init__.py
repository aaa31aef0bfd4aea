"""From a call to an HTTP request: parameters, paths, bodies."""
