"""The HTTP side of the server: connections, requests, bodies, and the process. Imports no other room of the server."""
