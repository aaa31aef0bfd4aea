"""Results as responses, and back: a bare JSON value, or a problem."""

from __future__ import annotations

from toolwire.core.http import JSON, Response, header
from toolwire.core.model import Kind, Problem, Result, Value
from toolwire.framing import jsontext

from . import problems


def write(result: Result, duration_ms: float) -> Response:  # noqa: ARG001 - HTTP has no place for the duration
    """Return the response that says ``result``: 200 and the value alone, or problem+json."""
    if isinstance(result, Value):
        return Response(200, JSON, jsontext.write(result.value))
    return problems.write(result)


def read(response: Response) -> Result:
    """Return what a response means: parsed JSON, text, or what the status says. [XL-100, XL-101]

    Binary data stays out of the result: it is ``{"media_type", "bytes_len"}``.
    """
    if response.status >= 400:
        return problems.read(response)
    if not 200 <= response.status < 300:
        return _bad(f"The server answered {response.status} where a result was expected.")
    if response.status in (204, 205) or not response.body:
        return Value({"ok": True, "status": response.status})
    media_type, _, parameters = header(response.headers, b"content-type").lower().partition(";")
    media_type = media_type.strip()
    if media_type in ("application/json", "text/json", "") or media_type.endswith("+json"):
        return _json(response.body, media_type)
    if media_type.startswith("text/") or media_type.endswith(("/xml", "+xml", "/yaml", "+yaml")):
        return Value(response.body.decode("latin-1" if "8859-1" in parameters else "utf-8", "replace"))
    return _binary(response.body, media_type)


def _json(body: bytes, media_type: str) -> Result:
    data = jsontext.read(body.removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(data, Problem):
        return Value(data)
    if media_type:
        return _bad(f"The server's answer is not the JSON it says it is: {data.message}")
    try:
        return Value(body.decode())
    except UnicodeDecodeError:
        return _binary(body, "application/octet-stream")


def _binary(body: bytes, media_type: str) -> Value:
    return Value({"media_type": media_type[:100], "bytes_len": len(body)})


def _bad(message: str) -> Problem:
    return Problem(kind=Kind.BAD_ANSWER, message=message)
