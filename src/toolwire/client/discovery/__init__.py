"""From a URL to a peer: probes of every protocol, the cache of documents, overlays. Imports client.transport."""
