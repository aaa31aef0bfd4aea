"""Define the rules of OAuth as values and functions: what may be requested, what is granted, when a token is valid.

This room is pure: it imports ``core`` and ``framing`` only. Clocks, randomness and responses come in as arguments.

Rules:
- URLs of other parties are compared as text; nothing is normalised before a comparison.
- An expected refusal is an ``OAuthError``, with the error codes of the OAuth specifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .receipt import ReceiptKey

__all__ = ["ReceiptKey"]

# It needs an extra, and most programs sign no receipts.
__getattr__, __dir__ = export_lazily(__name__, {"ReceiptKey": "receipt"})
