"""What the tests of the published files share: the schemas, under two validators that fetch nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import jsonschema
import jsonschema_rs
import pytest
from referencing import Registry

SPEC = Path(__file__).parents[2] / "spec" / "opentool"


def refuse(uri: str) -> NoReturn:
    raise AssertionError(f"{uri} was asked for")


@pytest.fixture(scope="session")
def is_accepted() -> Callable[[Any], bool]:
    """Say whether the schema of its version accepts a document; two validators must say the same."""
    validators = {}
    for version in ("1.1.0", "1.0.0"):
        schema = json.loads((SPEC / version / "opentool.schema.json").read_text(encoding="utf-8"))
        validators[version] = (
            jsonschema.Draft202012Validator(schema, registry=Registry(retrieve=refuse)),  # type: ignore[arg-type, call-arg]  # its class is made by attrs
            jsonschema_rs.Draft202012Validator(schema, retriever=refuse),
        )

    def accept(data: Any) -> bool:
        version = data.get("opentool") if isinstance(data, dict) else None
        is_old = isinstance(version, str) and (version == "1.0" or version.startswith("1.0."))
        python, rust = validators["1.0.0" if is_old else "1.1.0"]
        reply = python.is_valid(data)
        assert rust.is_valid(data) is reply
        return reply

    return accept
