"""A question of a caller, as the console shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.orders import build_order
from toolwire.core.check import Question
from toolwire.core.model import Call, Tool


def build_question(text: str = "", **changes: Any) -> Question:
    asked = replace(build_order(), binding="order", request=None, **changes)
    if not text:
        return asked
    tool = Tool(name=text, description=text, question=text, destructive=True)
    call = Call(tool, {text: text, "huge": "x" * 100_000})
    return replace(asked, call=call, title=text, target=text, reasons=(text,), places={}, changes=(text,))
