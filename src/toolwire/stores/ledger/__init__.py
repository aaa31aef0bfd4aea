"""The ledger of calls, in memory and in SQLite."""
