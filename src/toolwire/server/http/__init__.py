"""Serve HTTP: connections, requests, bodies, and the process. Imports no other room of the server."""
