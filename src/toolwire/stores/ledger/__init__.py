"""Store the ledger of calls, in memory or SQLite, so that no call with a key runs twice.

This room imports ``core.ledger`` for the rules, and ``stores.group_commit``.
"""
