"""The tools that the Open Tool Calling RFC defines in its examples, written as Python functions and asked over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.request import urlopen

import pytest
from pydantic import AwareDatetime, Field

from toolwire import Authorization, Context, Requirements, Toolkit, asgi
from toolwire.testing.loopback import background

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "otc.json").read_text(encoding="utf-8"))
DEFINED = {one["id"]: one for each in VECTORS if each["name"] == "rfc-definitions" for one in each["body"]["tools"]}

GMAIL = Authorization(id="google", scopes=("https://www.googleapis.com/auth/gmail.readonly",))


class Timestamp(TypedDict):
    timestamp: Annotated[AwareDatetime, Field(description="The current system timestamp.")]


class Email(TypedDict):
    id: str
    subject: str
    snippet: str


class Emails(TypedDict):
    emails: Annotated[list[Email], Field(description="List of retrieved emails.")]


class Sending(TypedDict):
    status: Annotated[str, Field(description="Status of the SMS sending operation.")]


def add(
    a: Annotated[float, Field(description="The first number to add.")],
    b: Annotated[float, Field(description="The second number to add.")],
) -> Annotated[float, Field(description="The sum of the two numbers.")]:
    """Adds two numbers together."""
    return a + b


def ring(doorbell_id: Annotated[str, Field(description="The ID of the doorbell to ring.")]) -> None:
    """Rings a doorbell given a doorbell ID."""


def get_timestamp() -> Timestamp:
    """Retrieves the current system timestamp."""
    raise NotImplementedError


def get_emails(
    context: Context, query: Annotated[str, Field(description="Search query for filtering emails.")] = ""
) -> Emails:
    """Retrieves emails from Gmail using OAuth 2.0 authentication."""
    raise NotImplementedError


def send(
    context: Context,
    to: Annotated[str, Field(description="Recipient phone number.")],
    message: Annotated[str, Field(description="Message content to send.")],
) -> Sending:
    """Sends SMS messages using Twilio. Requires a valid TWILIO_API_KEY."""
    raise NotImplementedError


@pytest.mark.requirement("OTC-001", "OTC-012", "OTC-013", "OTC-016", "OTC-017", "OTC-018")
@pytest.mark.parametrize(
    ("function", "name", "requirements"),
    [
        (add, "Calculator.Add@1.0.0", Requirements()),
        (ring, "Doorbell.Ring@0.1.0", Requirements()),
        (get_timestamp, "System.GetTimestamp@1.0.0", Requirements()),
        (get_emails, "Gmail.GetEmails@1.2.0", Requirements(authorization=(GMAIL,))),
        (send, "SMS.Send@0.1.2", Requirements(secrets=("TWILIO_API_KEY",))),
    ],
)
def test_function_is_listed_as_the_rfc_defines_it(function: Any, name: str, requirements: Requirements) -> None:
    title, _, rest = name.partition(".")
    tool, _, version = rest.partition("@")
    kit = Toolkit(title, version=version)
    kit.add(function, name=tool, requirements=requirements)
    with background(asgi(kit)) as url, urlopen(f"{url}/tools", timeout=10) as response:
        (listed,) = json.load(response)["tools"]
    assert drop_additions(listed) == drop_additions(DEFINED[name]) | {"name": tool}


def drop_additions(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the members that the RFC defines; no required argument and none required are the same."""
    schema = {**definition["input_schema"]["parameters"]}
    for word in ("required", "properties"):
        if not schema.get(word):
            schema.pop(word, None)
    schema.pop("additionalProperties", None)
    for argument in schema.get("properties", {}).values():
        argument.pop("default", None)
    known = {name: value for name, value in definition.items() if name in DEFINED["Gmail.GetEmails@1.2.0"]}
    return known | {"input_schema": {"parameters": schema}}
