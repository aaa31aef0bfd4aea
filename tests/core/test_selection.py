"""What a person takes of a document, said beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire.core.selection import DEFAULT_SELECTION, Selection


def takes(selection: Selection, **change: Any) -> bool:
    operation = {
        "name": "getPet", "method": "get", "path": "/pets/{id}", "tags": frozenset({"pets"}), "safe": True,
        "deprecated": False,
    }  # fmt: skip
    return selection.matches(**(operation | change))


@pytest.mark.parametrize(
    ("selection", "change"),
    [
        (Selection(tags=("users", "pets")), {"tags": frozenset({"shops"})}),
        (Selection(methods=("GET",)), {"method": "post"}),
        (Selection(methods=("get",)), {"method": "POST"}),
        (Selection(paths=("/pets/*",)), {"path": "/users/1"}),
        (Selection(names=("get*",)), {"name": "addPet"}),
        (Selection(safe_only=True), {"safe": False}),
        (Selection(deprecated=False), {"deprecated": True}),
    ],
)
def test_each_selection_option_excludes_tools_that_do_not_match(selection: Selection, change: dict[str, Any]) -> None:
    assert selection.is_narrowing
    assert takes(selection)
    assert not takes(selection, **change)


def test_default_selection_takes_every_tool() -> None:
    assert not DEFAULT_SELECTION.is_narrowing
    assert takes(DEFAULT_SELECTION, deprecated=True, safe=False)


def test_selection_include_must_be_declared_or_all() -> None:
    with pytest.raises(ValueError, match='include must be "declared" or "all", not \'some\''):
        Selection(include="some")
