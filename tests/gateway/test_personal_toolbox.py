"""The tools of an upstream that each caller calls with their own credentials."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from toolwire import Kind, Problem, Toolkit
from toolwire.core.model import ANONYMOUS, Call
from toolwire.gateway.personal_toolbox import PersonalToolbox
from toolwire.gateway.sign_in_notice import SignInNotices
from toolwire.server.run.function_toolbox import FunctionToolbox


@pytest.mark.requirement("GW-02")
def test_caller_without_a_name_opens_no_connection_and_reads_no_credential() -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("nothing is opened and nothing is read")

    kit = Toolkit("Mail")

    @kit.tool
    def send(to: str) -> str:
        """Send a letter."""
        return to

    shared = FunctionToolbox(kit)
    toolbox = PersonalToolbox(
        "mail",
        "https://mail.example",
        shared,
        connect=refuse,
        vault=refuse,
        notices=SignInNotices("https://tools.example"),  # type: ignore[arg-type]  # no vault may be read
    )
    (tool,) = shared.catalog().tools
    refused = asyncio.run(toolbox.run(Call(tool, {"to": "ada"}, "1", ANONYMOUS)))
    assert isinstance(refused, Problem)
    assert refused.kind is Kind.UNAUTHORIZED
    assert "credentials of its caller" in refused.message
