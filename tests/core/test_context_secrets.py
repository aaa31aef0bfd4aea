"""A context takes secrets as texts too, and shows none of them."""

from __future__ import annotations

from typing import Any

import pytest

from toolwire import Context, DefinitionError, Requirements, Secret, Toolkit, connect_sync


@pytest.mark.requirement("FU-59")
def test_a_text_is_kept_as_a_secret_and_reaches_the_tool() -> None:
    kit = Toolkit("Mail")

    @kit.tool(approval="auto", requirements=Requirements(secrets=("KEY",)))
    def send(context: Context) -> int:
        return len(context.secret("KEY").reveal())

    given: Any = {"KEY": "a-text-of-16-chr", "OTHER": Secret("kept")}
    context = Context(secrets=given)
    assert "a-text" not in repr(context)
    with connect_sync(kit, protocol="otc", context=context, agree=lambda _: True) as remote:
        assert remote.call("send").value == 16


@pytest.mark.requirement("FU-59")
@pytest.mark.parametrize("name", ["secrets", "tokens"])
def test_another_type_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(DefinitionError, match="must be a Secret or a string, not int"):
        Context(**{name: {"KEY": 7}})  # type: ignore[arg-type]
