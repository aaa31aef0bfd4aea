"""Keys that people paste: sent where the document's scheme says, to its own origin, and nowhere else."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from toolwire import (
    Answer,
    Approval,
    DefinitionLock,
    Preferences,
    Question,
    Secret,
    Session,
    Value,
    connect,
    connect_sync,
)

SCHEMES = {
    "head": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "ask": {"type": "apiKey", "in": "query", "name": "k y"},
    "jar": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "Basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "other": {"type": "http", "scheme": "SharedAccessKey"},
    "empty": {"type": "http", "scheme": ""},
    "odd": {"type": "http", "scheme": "To ken\n x"},
    "oauth": {"type": "oauth2", "flows": {}, "scheme": "Odd"},
    "hash": {"type": "http", "scheme": "Digest"},
    "ticket": {"type": "http", "scheme": "Negotiate"},
}
SECRETS = {name: f"{name}/secret" for name in SCHEMES}
BASIC = "Basic " + b64encode(b"basic/secret").decode()


def document(security: Any, *, server: str = "/") -> bytes:
    operation = {
        "operationId": "ping",
        "parameters": [{"name": "a", "in": "query", "schema": {"type": "string"}}],
        "security": security,
        "x-llm": {"approval": "auto"},
        "responses": {"200": {"description": "ok"}},
    }
    return json.dumps(
        {
            "openapi": "3.1.0",
            "info": {"title": "T", "version": "1"},
            "servers": [{"url": server}],
            "paths": {"/ping": {"get": operation}},
            "components": {"securitySchemes": SCHEMES},
            "x-llm": {"version": "0.1", "name": "T"},
        }
    ).encode()


def send_one_call(listen: Any, said: Callable[..., bytes], security: Any, **options: Any) -> tuple[Any, list[Any]]:
    """Return the one call that arrived, and the questions that were asked before it."""
    asked: list[Question] = []

    def answer(seen: Any) -> Iterable[bytes]:
        path = seen.line.split()[1]
        found = path in ("/openapi.json",) or path.startswith("/ping")
        body = document(security) if path == "/openapi.json" else b'"pong"'
        yield said(body, "content-type: application/json", status="200 OK" if found else "404 Not Found")

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True)

    site = listen(answer)
    with connect_sync(site.origin, approve=approve, **options) as remote:
        assert remote.call("ping", {"a": "1"}) == Value("pong")
    for seen in site.requests[:-1]:
        assert not any("secret" in value for _, value in seen.fields if "api_key" not in options)
        assert "secret" not in seen.line
    return site.requests[-1], asked


@pytest.mark.requirement("XL-112", "XL-118")
@pytest.mark.parametrize(
    ("security", "line", "fields"),
    [
        ([{"head": []}], "/ping?a=1", {"x-key": "head/secret"}),
        ([{"ask": []}], "/ping?a=1&k%20y=ask%2Fsecret", {}),
        ([{"jar": []}], "/ping?a=1", {"cookie": "sid=jar/secret"}),
        ([{"basic": []}], "/ping?a=1", {"authorization": BASIC}),
        ([{"bearer": []}], "/ping?a=1", {"authorization": "Bearer bearer/secret"}),
        ([{"other": []}], "/ping?a=1", {"authorization": "SharedAccessKey other/secret"}),
        ([{"head": [], "jar": []}], "/ping?a=1", {"x-key": "head/secret", "cookie": "sid=jar/secret"}),
        ([{"head": [], "gone": []}, {"jar": []}], "/ping?a=1", {"cookie": "sid=jar/secret"}),
        ([], "/ping?a=1", {}),
    ],
)
def test_every_key_is_sent_where_its_scheme_declares(
    listen: Any, encode_response: Callable[..., bytes], security: Any, line: str, fields: dict[str, str]
) -> None:
    seen, _ = send_one_call(listen, encode_response, security, keys=SECRETS)
    assert seen.line == f"GET {line} HTTP/1.1"
    places = ("x-key", "cookie", "authorization")
    assert {name: seen.headers[name] for name in places if name in seen.headers} == fields


ALL = Preferences(everything=Approval.PER_CALL)


@pytest.mark.requirement("XL-112", "XL-049", "FU-01", "FU-59")
@pytest.mark.parametrize("given", ["api_key", "token"])
@pytest.mark.parametrize(
    ("security", "line", "fields", "shown"),
    [
        ([{"head": []}], "/ping?a=1", {"x-key": "pasted/secret"}, "the key of `head` in the header X-Key"),
        ([{"ask": []}], "/ping?a=1&k%20y=pasted%2Fsecret", {}, "the key of `ask` in the query k y"),
        ([{"jar": []}], "/ping?a=1", {"cookie": "sid=pasted/secret"}, "the key of `jar` in the cookie sid"),
        (
            [{"basic": []}],
            "/ping?a=1",
            {"authorization": "Basic " + b64encode(b"pasted/secret").decode()},
            "the key of `basic` as Basic in the header Authorization",
        ),
        (
            [{"bearer": []}],
            "/ping?a=1",
            {"authorization": "Bearer pasted/secret"},
            "the key of `bearer` as a Bearer token in the header Authorization",
        ),
        (
            [{"bearer": []}, {"head": []}],
            "/ping?a=1",
            {"x-key": "pasted/secret"},
            "the key of `head` in the header X-Key",
        ),
        *(
            (
                security,
                "/ping?a=1",
                {"authorization": "Bearer pasted/secret"},
                "the key of `bearer` as a Bearer token in the header Authorization",
            )
            for security in ([{"bearer": []}, {"jar": []}], [{"jar": []}, {"bearer": []}])
        ),
        ([{"head": [], "jar": []}], "/ping?a=1", {"authorization": "Bearer pasted/secret"}, "bearer key"),
        ([{"gone": []}], "/ping?a=1", {"authorization": "Bearer pasted/secret"}, "bearer key"),
        ([], "/ping?a=1", {"authorization": "Bearer pasted/secret"}, "bearer key"),
    ],
)
def test_unnamed_key_is_sent_once_at_its_declared_place_and_displayed(
    listen: Any,
    encode_response: Callable[..., bytes],
    given: str,
    security: Any,
    line: str,
    fields: dict[str, str],
    shown: str,
) -> None:
    seen, (question,) = send_one_call(listen, encode_response, security, preferences=ALL, **{given: "pasted/secret"})
    assert seen.line == f"GET {line} HTTP/1.1"
    places = ("x-key", "cookie", "authorization")
    assert {name: seen.headers[name] for name in places if name in seen.headers} == fields
    assert question.credential == shown


@pytest.mark.requirement("XL-112", "XL-049")
def test_unnamed_key_is_not_sent_beside_named_keys(listen: Any, encode_response: Callable[..., bytes]) -> None:
    security = [{"head": [], "jar": []}]
    seen, (question,) = send_one_call(
        listen, encode_response, security, preferences=ALL, keys=SECRETS, api_key="pasted/secret"
    )
    assert "authorization" not in seen.headers
    assert "pasted" not in repr(seen)
    assert question.credential == "the key of `head` in the header X-Key, the key of `jar` in the cookie sid"


@pytest.mark.requirement("XL-047", "XL-049", "FU-01")
def test_adding_a_key_is_no_change_of_the_site_definition(listen: Any, encode_response: Callable[..., bytes]) -> None:
    session = Session()
    asked: list[Question] = []
    site = listen(
        lambda seen: [
            encode_response(
                document([{"head": []}]) if seen.line.split()[1] == "/openapi.json" else b'"pong"',
                "content-type: application/json",
            )
            if seen.line.split()[1].startswith(("/openapi.json", "/ping"))
            else encode_response(b"", status="404 Not Found")
        ]
    )
    for options in ({}, {"api_key": "pasted/secret"}):

        def approve(question: Question) -> Answer:
            asked.append(question)
            return Answer(allowed=True)

        with connect_sync(
            site.origin, approve=approve, preferences=ALL, session=session, name="site", **options
        ) as remote:
            assert remote.call("ping", {"a": "1"}) == Value("pong")
    before, after = asked
    assert before.credential == "none"
    assert "You approved this tool with other credentials, or with none." in after.reasons
    assert not [
        reason for reason in after.reasons if "The server has changed this tool since you approved it" in reason
    ]
    assert after.changes == (
        (
            "What signs a call was “none”. Now it is “the key of `head` in the header X-Key”. It might do "
            "more than before."
        ),
    )


@pytest.mark.requirement("FU-01")
def test_lock_made_without_a_key_holds_with_one(listen: Any, encode_response: Callable[..., bytes]) -> None:
    site = listen(
        lambda seen: [
            encode_response(document([{"head": []}]), "content-type: application/json")
            if seen.line.split()[1] == "/openapi.json"
            else encode_response(b'"pong"', "content-type: application/json")
            if seen.line.split()[1].startswith("/ping")
            else encode_response(b"", status="404 Not Found")
        ]
    )
    with connect_sync(site.origin, preferences=ALL) as remote:
        lock = DefinitionLock().with_connection(remote.url, remote.definitions())
    with connect_sync(site.origin, api_key="pasted/secret", locked=lock, approve=lambda _: True) as remote:
        assert lock.find_differences(remote.url, remote.definitions()) == ()
        assert remote.call("ping", {"a": "1"}) == Value("pong")


@pytest.mark.requirement("XL-112", "D-26", "XL-049")
def test_question_displays_the_key_scheme_but_never_the_key(listen: Any, encode_response: Callable[..., bytes]) -> None:
    options = {"keys": {"ask": Secret("ask/secret")}, "preferences": Preferences(everything=Approval.PER_CALL)}
    _, (question,) = send_one_call(listen, encode_response, [{"ask": []}], **options)
    assert question.credential == "the key of `ask` in the query k y"
    assert "ask/secret" not in repr(question)
    assert b"secret" not in repr(question.request).encode()
    assert "ask/secret" not in repr(connect("http://127.0.0.1:1", keys={"ask": "ask/secret"})._factory.options)


@pytest.mark.requirement("XL-112", "D-08")
def test_no_other_origin_is_sent_a_key(listen: Any, encode_response: Callable[..., bytes]) -> None:
    other = listen(encode_response(b'"pong"', "content-type: application/json"))
    home = listen(
        lambda seen: [
            encode_response(document([{"head": []}], server=other.origin), "content-type: application/json")
            if seen.line.split()[1] == "/openapi.json"
            else encode_response(b"", status="404 Not Found")
        ]
    )
    with connect_sync(home.origin, keys=SECRETS, allow_origins=[other.origin], approve=lambda _: True) as remote:
        assert remote.call("ping", {}) == Value("pong")
    assert len(other.requests) == 1
    assert "secret" not in repr(other.requests)


@pytest.mark.requirement("XL-118", "QF-04")
@pytest.mark.parametrize(
    ("security", "options", "is_said"),
    [
        ([{"bearer": []}], {}, True),
        ([{"head": []}, {"basic": [], "ask": []}], {}, True),
        ([{"head": [], "jar": []}], {"keys": SECRETS}, False),
        ([{"bearer": []}, {}], {}, False),
        ([], {}, False),
        ([{"gone": []}], {}, False),
        ([{"bearer": []}], {"api_key": "bearer/secret"}, False),
        ([{"bearer": []}], {"headers": {"Authorization": "Bearer x"}}, False),
    ],
)
def test_question_says_first_that_a_credential_is_missing(
    security: Any, options: dict[str, Any], is_said: bool, listen: Any, encode_response: Callable[..., bytes]
) -> None:
    options = {**options, "preferences": Preferences(everything=Approval.PER_CALL)}
    _, (question,) = send_one_call(listen, encode_response, security, **options)
    said = [reason for reason in question.reasons if "needs a credential" in reason]
    assert len(said) == is_said
    for way in ("--key-env", "api_key=", "key-env", "toolwire login") if is_said else ():
        assert way in said[0]


@pytest.mark.requirement("XL-118")
@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("key", ["", "bearer/secret"])
def test_refused_call_without_a_credential_says_how_to_give_one(
    status: str, key: str, listen: Any, encode_response: Callable[..., bytes]
) -> None:
    def answer(seen: Any) -> Iterable[bytes]:
        path = seen.line.split()[1]
        body = document([{"bearer": []}]) if path == "/openapi.json" else b'{"detail":"Not authenticated"}'
        found = "200 OK" if path == "/openapi.json" else status if path.startswith("/ping") else "404 Not Found"
        yield encode_response(body, "content-type: application/json", status=found)

    options: dict[str, Any] = {"api_key": key} if key else {}
    with connect_sync(listen(answer).origin, approve=lambda _: True, **options) as remote:
        result = remote.call("ping", {"a": "1"})
    assert not result.ok
    assert "Not authenticated" in result.message
    assert ("--key-env NAME" in result.message) == (not key)


@pytest.mark.requirement("XL-118")
@pytest.mark.parametrize("options", [{}, {"api_key": "pasted/secret"}, {"keys": {"head": "head/secret"}}])
def test_question_and_refusal_say_which_credentials_are_needed_together(
    options: dict[str, Any], listen: Any, encode_response: Callable[..., bytes]
) -> None:
    asked: list[Question] = []

    def answer(seen: Any) -> Iterable[bytes]:
        is_document = seen.line.split()[1] == "/openapi.json"
        body = document([{"head": [], "bearer": []}]) if is_document else b"{}"
        status = "200 OK" if is_document else "401 Unauthorized" if "/ping" in seen.line else "404 Not Found"
        yield encode_response(body, "content-type: application/json", status=status)

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(allowed=True)

    with connect_sync(listen(answer).origin, approve=approve, preferences=ALL, **options) as remote:
        result = remote.call("ping", {"a": "1"})
    needed = (
        "the key of `bearer` as a Bearer token in the header Authorization and the key of `head` in the header X-Key"
    )
    assert needed in result.message
    assert any(needed in reason for reason in asked[0].reasons)
    assert "secret" not in result.message


@pytest.mark.requirement("XL-112", "XL-049", "XL-118")
@pytest.mark.parametrize("name", ["empty", "odd", "oauth", "bearer", "other", "basic"])
def test_question_shows_the_word_that_is_sent_before_a_key(
    name: str, listen: Any, encode_response: Callable[..., bytes]
) -> None:
    seen, (question,) = send_one_call(listen, encode_response, [{name: []}], keys=SECRETS, preferences=ALL)
    word = seen.headers["authorization"].partition(" ")[0]
    shown = "a Bearer token" if word == "Bearer" else word
    assert question.credential == f"the key of `{name}` as {shown} in the header Authorization"


@pytest.mark.requirement("XL-112", "XL-118")
@pytest.mark.parametrize("name", ["hash", "ticket"])
def test_no_key_is_sent_for_a_scheme_that_needs_more_than_a_key(
    name: str, listen: Any, encode_response: Callable[..., bytes]
) -> None:
    for given in ({"keys": SECRETS}, {"api_key": "pasted/secret"}):
        seen, (question,) = send_one_call(listen, encode_response, [{name: []}], preferences=ALL, **given)
        assert "secret" not in repr(seen.fields)
        assert question.credential == "none"
        (reason,) = [one for one in question.reasons if "no key can satisfy" in one]
        assert SCHEMES[name]["scheme"].lower() in reason.lower()
    seen, (question,) = send_one_call(
        listen, encode_response, [{name: []}, {"head": []}], keys=SECRETS, preferences=ALL
    )
    assert seen.headers["x-key"] == "head/secret"
    assert not [one for one in question.reasons if "no key can satisfy" in one]
