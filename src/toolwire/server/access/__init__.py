"""Decide who may call and what each caller may see. Imports server.run and server.http."""
