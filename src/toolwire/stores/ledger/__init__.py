"""Store the ledger of calls, in memory, SQLite or PostgreSQL, so that no call with a key runs twice.

This room imports ``core.ledger`` for the rules, ``stores.group_commit`` and ``stores.postgres``.
"""
