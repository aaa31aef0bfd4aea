"""Adapters to the SDKs of models: the tools to declare, and the calls that a model asks for.

May import core, consent, framing, and one SDK in each adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolwire.core.lazy_import import export_lazily

if TYPE_CHECKING:
    from .deferral import (
        Deferral,
        ModelCalls,
        ModelToolCall,
        approve,
        build_denied_result,
        deny,
        describe_question,
        identify_call,
        identify_question,
        read_answer,
    )

__all__ = [
    "Deferral",
    "ModelCalls",
    "ModelToolCall",
    "approve",
    "build_denied_result",
    "deny",
    "describe_question",
    "identify_call",
    "identify_question",
    "read_answer",
]
__getattr__, __dir__ = export_lazily(__name__, dict.fromkeys(__all__, "deferral"))
