"""Store the audit log in SQLite. Records are only added, and each holds the digest of the one before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toolwire.consent.decision_record import FIRST_DIGEST, ChainedDecision, Decision, compute_chain_digest
from toolwire.stores.database import Database

_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit (number INTEGER PRIMARY KEY, record TEXT NOT NULL, digest TEXT NOT NULL);;
CREATE TRIGGER IF NOT EXISTS audit_is_not_changed BEFORE UPDATE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END;;
CREATE TRIGGER IF NOT EXISTS audit_is_not_cut BEFORE DELETE ON audit
  BEGIN SELECT RAISE(ABORT, 'the audit log is only added to'); END
"""

AUDIT_FILE = "audit.sqlite3"


class StoredAudit:
    """The decisions of all processes of this user, chained in their order."""

    # XL-055

    def __init__(self, folder: Path) -> None:
        self._database = Database(folder / AUDIT_FILE, _SCHEMA)

    def append(self, record: Decision) -> None:
        """Add ``record`` at the end of the chain."""
        with self._database.transaction() as cursor:
            last = cursor.execute("SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1").fetchone()
            number, before = (last[0] + 1, last[1]) if last else (1, FIRST_DIGEST)
            text = json.dumps(asdict(record))
            cursor.execute(
                "INSERT INTO audit VALUES (?, ?, ?)", (number, text, compute_chain_digest(before, number, record))
            )

    def entries(self) -> Sequence[ChainedDecision]:
        """Return all records in order."""
        rows: Any = self._database.select_rows("SELECT number, record, digest FROM audit ORDER BY number")
        return [ChainedDecision(number, Decision(**json.loads(text)), digest) for number, text, digest in rows]

    def close(self) -> None:
        """Close the file."""
        self._database.close()
