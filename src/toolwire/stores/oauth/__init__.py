"""Store the data of the authorization server, in SQLite or PostgreSQL.

This room imports ``auth`` for the rules.
"""
