"""A document and code that live apart: what fits is served, what does not is named, difference by difference."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.opentool import FunctionCall, SyncOpenToolClient, build_toolbox, check_against

from .conftest import DOCUMENT, Notes, Serve

MORE = {"array": {"items": {"type": "string"}}, "object": {"properties": {}}}


def document(*functions: dict[str, Any]) -> dict[str, Any]:
    return {"opentool": "1.1.0", "info": {"title": "T", "version": "1.0.0"}, "functions": list(functions)}


def function(name: str, *parameters: tuple[str, str, bool]) -> dict[str, Any]:
    return {
        "name": name,
        "description": name,
        "parameters": [
            {"name": one, "schema": {"type": kind, **MORE.get(kind, {})}, "required": required}
            for one, kind, required in parameters
        ],
        "return": {"name": "sum", "schema": {"type": "integer"}},
    }


class Sums:
    """One method for each function."""

    def add(self, a: int, b: int = 1) -> int:
        """Add."""
        return a + b

    async def get_all(self, names: list[str]) -> int:
        """Count names."""
        return len(names)

    def _hidden(self) -> None:
        """Nobody's business."""


ADD = function("add", ("a", "integer", True), ("b", "integer", False))
GET_ALL = function("get-all", ("names", "array", True))


def test_class_that_matches_its_document_is_served(serve: Serve) -> None:
    fitting = document(ADD, GET_ALL)
    assert check_against(Sums(), fitting) == ()
    with SyncOpenToolClient(serve(Sums, document=fitting).url) as client:
        assert client.call(FunctionCall("1", "add", {"a": 2})).result == {"sum": 3}
        assert client.call(FunctionCall("2", "get-all", {"names": ["x", "y"]})).result == {"sum": 2}
        loaded = client.load()
    assert loaded is not None
    assert [one.name for one in loaded.functions] == ["add", "get-all"]


@pytest.mark.parametrize(
    ("functions", "fault"),
    [
        ([ADD, GET_ALL, function("sub")], "The document defines the function 'sub', but Sums has no method sub()."),
        ([ADD], "Sums has the method get_all(), but the document defines no function 'get_all'"),
        (
            [function("add", ("a", "integer", True), ("c", "integer", True)), GET_ALL],
            "Sums.add() has no parameter 'c', but the document defines it.",
        ),
        ([function("add"), GET_ALL], "Sums.add() requires the parameter 'a', but the document does not define it."),
        (
            [function("add", ("a", "integer", False)), GET_ALL],
            "Sums.add() requires the parameter 'a', which is optional in the document. Give it a default.",
        ),
        (
            [function("add", ("a", "string", True)), GET_ALL],
            "Sums.add(): the parameter 'a' is of the type string in the document, and integer in the code.",
        ),
        (
            [ADD, function("get-all", ("names", "object", True))],
            "Sums.get_all(): the parameter 'names' is of the type object in the document, and array in the code.",
        ),
    ],
    ids=["no method", "no function", "no parameter", "not described", "optional", "type", "array"],
)
def test_each_mismatch_is_one_sentence_and_prevents_serving(functions: list[Any], fault: str) -> None:
    (found,) = check_against(Sums(), document(*functions))
    assert found.startswith(fault)
    with pytest.raises(DefinitionError) as raised:
        build_toolbox(Sums, document(*functions))
    assert fault in str(raised.value)


def test_all_mismatches_are_reported_at_once() -> None:
    assert len(check_against(Sums(), document(function("add"), function("sub"), function("mul")))) == 4


def test_integer_matches_float_and_an_unannotated_type_matches_any() -> None:
    class Loose:
        def half(self, x: float, y: Any) -> float:
            """Halve."""
            return x / 2

    assert check_against(Loose(), document(function("half", ("x", "integer", True), ("y", "string", True)))) == ()
    (fault,) = check_against(Loose(), document(function("half", ("x", "boolean", True), ("y", "array", True))))
    assert "'x' is of the type boolean" in fault


def test_only_the_signature_of_call_is_checked_for_a_class_with_call() -> None:
    class Wrong:
        def call(self) -> None:
            """Take nothing."""

    assert check_against(Notes(), DOCUMENT) == ()
    (fault,) = check_against(Wrong(), DOCUMENT)
    assert fault == "call() of Wrong must take a name and its arguments, as in call(self, name, arguments)."


def test_parameter_without_a_schema_is_a_mismatch() -> None:
    class Odd:
        def add(self, *numbers: int) -> int:
            """Add."""
            return sum(numbers)

    (fault,) = check_against(Odd(), document(ADD))
    assert "add" in fault
