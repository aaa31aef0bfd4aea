"""The guarded network: URLs, addresses, HTTP/1.1, limits, and the drivers of flows. Imports no room of the client."""
