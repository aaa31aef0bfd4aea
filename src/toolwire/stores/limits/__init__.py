"""Count calls for rate limits that several processes share, in SQLite or with the ``limits`` library.

This room imports ``limits`` for the rules, and ``stores.database``.
"""
