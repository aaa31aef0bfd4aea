"""The guarded network of the client: URLs, addresses, HTTP/1.1, limits. Imports no other room of the client."""
