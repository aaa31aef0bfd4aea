"""Read a question back from the rows that were stored of it, for a page on which it is answered later.

Rules:
- The rows are what the user sees; what is read from them only builds the form of the answer.
- A value that was masked or cannot be read stands in no field.
"""
# CC-05, CO-02

from __future__ import annotations

import json
from collections.abc import Sequence

from toolwire.core.check import Question, SimilarTool
from toolwire.core.model import Approval, Call, Json, Tool

from .display import DisplayRow


def read_waiting_question(
    rows: Sequence[DisplayRow], *, always_allowed: bool, similar: Sequence[SimilarTool] = ()
) -> Question:
    """Return the question that ``rows`` show, with the arguments that can be read from them.

    ``similar`` are the tools that a permission may cover too.
    """
    facts = {row.label: row.text for row in rows if row.kind == "part"}
    arguments: dict[str, Json] = {}
    secrets = set[str]()
    for row in rows:
        if row.kind == "argument":
            try:
                arguments[row.label] = json.loads(row.text)
            except (ValueError, RecursionError):  # a secret, which is masked, or a file, which is shown by its name
                arguments[row.label] = row.text
                secrets.add(row.label)
    tool = Tool(
        name=facts.get("tool", "") or "a tool",
        description="",
        destructive=facts.get("destroys something", "yes") == "yes",
    )
    return Question(
        Call(tool, arguments),
        facts.get("site", "") or facts.get("program", ""),
        facts.get("sends", ""),
        Approval.PER_CALL,
        always_allowed=always_allowed,
        secrets=frozenset(secrets),
        find_similar=lambda: similar,
    )
