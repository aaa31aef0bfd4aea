"""Servers and gateways, put together from records and files. Importing this loads none of it."""
