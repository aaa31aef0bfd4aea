"""Recognize a tool that is declared as a read and named or typed like one that changes something."""
# FU-52: an author who takes "auto" for "no fuss" publishes a write as a safe read, over OpenAPI as a GET.

from __future__ import annotations

import re
from typing import Final

from .model import Approval, Json, Tool

_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WRITES: Final = frozenset(
    {
        *(
            "add",
            "append",
            "approve",
            "archive",
            "assign",
            "book",
            "buy",
            "cancel",
            "charge",
            "clear",
            "close",
            "create",
        ),
        *(
            "delete",
            "disable",
            "drop",
            "edit",
            "enable",
            "erase",
            "insert",
            "invite",
            "merge",
            "modify",
            "move",
            "order",
        ),
        *(
            "patch",
            "pay",
            "post",
            "publish",
            "purge",
            "put",
            "refund",
            "register",
            "rename",
            "remove",
            "replace",
            "reset",
        ),
        *(
            "restore",
            "revoke",
            "save",
            "send",
            "set",
            "store",
            "submit",
            "transfer",
            "update",
            "upload",
            "upsert",
            "write",
        ),
    }
)
_NUMBERS: Final = frozenset({"integer", "number"})


def is_named_like_write(name: str) -> bool:
    """Return whether the first word of ``name`` says that something is changed."""
    first = _WORD.search(name)
    return first is not None and first[0].lower() in _WRITES


def has_write_word(name: str) -> bool:
    """Return whether any word of ``name`` says that something is changed."""
    return any(word.lower() in _WRITES for word in _WORD.findall(name))


def warn_of_unasked_write(name: Json, policy: Json) -> str:
    """Return a sentence about a tool of a document that its ``policy`` calls a read without a question, or ``""``.

    ``policy`` is its ``x-llm``. It is about a ``name`` that says that something is changed.
    """
    declared = policy if isinstance(policy, dict) else {}
    is_read = declared.get("approval") == Approval.AUTO and declared.get("readOnly") is True
    if not isinstance(name, str) or not is_read or not is_named_like_write(name):
        return ""
    return f"{name[:100]!r} is declared read-only without a question, but its name looks like a write."


def suspects_write(tool: Tool) -> str:
    """Return why ``tool``, a read that needs no question, looks like a write, as the rest of a sentence, or ``""``."""
    if tool.approval is not Approval.AUTO or not tool.safe:
        return ""
    types = {schema.get("type") for schema in tool.parameters.values()}
    if is_named_like_write(tool.name) and not (types and types <= _NUMBERS):  # add(a, b) computes
        return "its name looks like a write"
    return "it returns nothing, like a write" if tool.output_schema is None else ""
