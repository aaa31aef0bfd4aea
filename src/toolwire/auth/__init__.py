"""Define OAuth's rules as values and functions: what can be requested, what is granted, and when a token is valid.

This room has no side effects, and imports only ``core`` and ``framing``. Clocks, randomness and responses are
arguments.

Rules:
- Other parties' URLs are compared as text, without any normalisation.
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
