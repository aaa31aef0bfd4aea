"""The database of the authorization server, in SQLite or PostgreSQL."""
