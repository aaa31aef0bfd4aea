"""Clients that ask and read as those of the SDKs for other languages were seen to: strict where they are strict."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit


class Failed(Exception):
    """What a client told its caller instead of a result."""


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
    """Return what a server answers to one request; ``_`` in a header's name is a dash."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


@dataclass(frozen=True)
class Sdk:
    """One SDK's client: how it writes a call, and what it makes of each answer."""

    name: str
    write: Callable[[str, dict[str, Any] | None, str], Any]
    read: Callable[[Answer], dict[str, Any]]
    load: Callable[[Answer], Any]
    content_type: str = "application/json"
    accept: str = "*/*"

    def call(self, url: str, name: str, arguments: dict[str, Any] | None, key: str | None = None) -> dict[str, Any]:
        body = json.dumps(self.write(name, arguments, "callId-0"), ensure_ascii=False).encode()
        headers = {"content_type": self.content_type, "accept": self.accept, **_build_auth_header(key)}
        return self.read(ask(url, "POST", "/opentool/call", body, **headers))

    def version(self, url: str, key: str | None = None) -> str:
        answer = ask(url, "GET", "/opentool/version", accept=self.accept, **_build_auth_header(key))
        _raise_refusal(answer, "No access")
        version: str = answer.json["version"]
        assert isinstance(version, str)
        return version

    def document(self, url: str, key: str | None = None) -> Any:
        answer = ask(url, "GET", "/opentool/load", accept=self.accept, **_build_auth_header(key))
        _raise_refusal(answer, "No access")
        return self.load(answer)


def _build_auth_header(key: str | None) -> dict[str, str]:
    return {} if key is None else {"authorization": f"Bearer {key}"}


def _raise_refusal(answer: Answer, otherwise: str) -> None:
    if answer.status == 401:
        raise Failed("Unauthorized")
    if answer.status != 200:
        raise Failed(otherwise.format(answer))


def _error(body: dict[str, Any]) -> None:
    error = body.get("error")
    if error is not None:
        assert isinstance(error["code"], int)
        assert isinstance(error["message"], str)
        raise Failed(error["message"])


# How each writes a call


def typescript_call(name: str, arguments: dict[str, Any] | None, id_: str) -> Any:
    return {"jsonrpc": "2.0.0", "method": name, "id": id_, "params": arguments or {}}


def java_call(name: str, arguments: dict[str, Any] | None, id_: str) -> Any:
    params = {} if arguments is None else {"params": arguments}
    return {"jsonrpc": "2.0", "method": name, **params, "id": id_}


def usual_call(name: str, arguments: dict[str, Any] | None, id_: str) -> Any:
    return {"jsonrpc": "2.0", "method": name, "params": arguments, "id": id_}


# How each reads an answer


def typescript_read(answer: Answer) -> dict[str, Any]:
    _raise_refusal(answer, "Please check OpenTool Server is RUNNING or NOT")
    body = answer.json
    _error(body)
    result: dict[str, Any] = body["result"]
    return result


def java_read(answer: Answer) -> dict[str, Any]:
    _raise_refusal(answer, "HTTP error: {0.status}")
    body = answer.json
    assert body["result"] is None or isinstance(body["result"], dict), "Jackson wants a map"
    assert isinstance(body["id"], str | int)
    _error(body)
    result: dict[str, Any] = body["result"]
    return result


def dart_read(answer: Answer) -> dict[str, Any]:
    _raise_refusal(answer, "HTTP {0.status}")
    body = answer.json
    assert isinstance(body["jsonrpc"], str)
    assert isinstance(body["result"], dict), "a cast to Map, beside an error too"
    assert isinstance(body["id"], str), "a cast to String"
    _error(body)
    result: dict[str, Any] = body["result"]
    return result


def dotnet_read(answer: Answer) -> dict[str, Any]:
    if answer.status == 401:
        raise Failed("Unauthorized")
    body = answer.json  # whatever the status
    assert isinstance(body["result"], dict)
    assert isinstance(body["id"], str)
    _error(body)
    result: dict[str, Any] = body["result"]
    return result


# How each loads a document


def strict_load(answer: Answer) -> Any:
    """Load as TypeScript and Dart do: a schema with a reference, or with values of another type, is no document."""
    data = answer.json
    if "functions" not in data:
        return None
    try:
        _check_document(data)
    except (AssertionError, KeyError):
        return None
    return data


def java_load(answer: Answer) -> Any:
    text = answer.body.decode().strip()
    return None if text in ("", "{}") else _check_document(json.loads(text))


def dotnet_load(answer: Answer) -> Any:
    data = answer.json
    return _check_document(data) if "functions" in data else {"opentool": None, "info": None, "functions": None}


_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}


def _check_document(data: Any) -> Any:
    assert isinstance(data["opentool"], str)
    assert isinstance(data["info"]["title"], str)
    assert isinstance(data["info"]["version"], str)
    for function in data["functions"]:
        assert isinstance(function["name"], str)
        assert isinstance(function["description"], str)
        for parameter in function["parameters"]:
            assert isinstance(parameter["required"], bool)
            _check_schema(parameter["schema"])
        if function.get("return") is not None:
            _check_schema(function["return"]["schema"])
    return data


def _check_schema(schema: Any) -> None:
    kind = _TYPES[schema["type"]]
    assert all(isinstance(value, kind) for value in schema.get("enum", ()))
    for member in schema.get("properties", {}).values():
        _check_schema(member)
    if "items" in schema:
        _check_schema(schema["items"])


TYPESCRIPT = Sdk(
    "TypeScript", typescript_call, typescript_read, strict_load, accept="application/json, text/plain, */*"
)
JAVA = Sdk("Java", java_call, java_read, java_load, content_type="application/json; charset=utf-8")
DART = Sdk("Dart", usual_call, dart_read, strict_load)
DOTNET = Sdk(".NET 8", usual_call, dotnet_read, dotnet_load, content_type="application/json; charset=utf-8")
NETFX = Sdk(".NET Framework", usual_call, dotnet_read, dotnet_load, content_type="application/json; charset=utf-8")
SDKS = [TYPESCRIPT, JAVA, DART, DOTNET, NETFX]
