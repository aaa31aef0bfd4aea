"""Count calls for rate limits that several processes share, in SQLite, PostgreSQL or with the ``limits`` library.

This room imports ``limits`` for the rules, ``stores.database`` and ``stores.postgres``.
"""
