"""Note where structured content breaks the output schema that its own server lists. The result is never hidden."""
# O-38

from __future__ import annotations

from typing import Final

from toolwire.core.model import Tool, Value
from toolwire.framing.cut_notice import SCHEMA_FAULT
from toolwire.framing.jsontext import get_object
from toolwire.validation.results import TOO_LARGE_TO_CHECK, FindFault, build_foreign_result_check

_MAX_KNOWN: Final = 200
_CHECKS: Final[dict[int, tuple[Tool, FindFault | None]]] = {}


def note_broken_promise(tool: Tool, value: Value) -> Value:
    """Return ``value`` with a note if it breaks the output schema that the server of ``tool`` lists."""
    known = _CHECKS.get(id(tool))
    if known is None:
        if len(_CHECKS) >= _MAX_KNOWN:
            _CHECKS.clear()
        known = _CHECKS[id(tool)] = (tool, _build_check(tool))  # with the tool, so that no other one gets its id
    fault = "" if known[1] is None else known[1](value.value)
    if fault in ("", TOO_LARGE_TO_CHECK):
        return value
    return Value(value.value, {**(value.notes or {}), SCHEMA_FAULT: fault})


def _build_check(tool: Tool) -> FindFault | None:
    if not tool.output_schema or get_object(tool.hints, "mcp").get("hinted") is True:
        return None
    try:
        return build_foreign_result_check(dict(tool.output_schema))
    except ValueError:
        return None
