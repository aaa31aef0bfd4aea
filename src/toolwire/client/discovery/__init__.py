"""Find what a URL offers: probe every protocol, cache documents, apply overlays. Imports client.transport."""
