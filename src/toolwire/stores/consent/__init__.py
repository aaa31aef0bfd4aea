"""Store grants, pending questions and the audit log of decisions, in memory or SQLite.

This room imports ``consent`` for the rules, and ``stores.database``.
"""
