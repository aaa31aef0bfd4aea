"""Targets of commands: a URL, a document, or Python code. May import client, server and define."""
