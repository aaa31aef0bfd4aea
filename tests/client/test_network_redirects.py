"""Where the client lets itself be sent: along the same origin, a few times, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolwire import Selection, Value, connect_sync
from toolwire.core.http import Request
from toolwire.core.model import Kind, Secret


def credentials(origin: str) -> dict[str, tuple[tuple[str, Secret], ...]]:
    return {origin: (("authorization", Secret("Bearer tops3cret")), ("x-api-key", Secret("tops3cret")))}


def port(seen: Any) -> str:
    """Return the port the request was sent to."""
    return str(seen.headers["host"].rpartition(":")[2])


def first_then(redirect: bytes, last: bytes) -> Any:
    return lambda seen: [redirect if seen.line.split()[1] == "/" else last]


@pytest.mark.requirement("D-08", "XL-011", "C-13", "AC-11")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_redirect_to_another_origin_is_named_and_not_followed(
    listen: Any, open_network: Any, encode_response: Any, status: int, method: str
) -> None:
    other = listen()
    mine = listen(encode_response(b"", f"location: {other.origin}/steal?key=hidden", status=f"{status} Go"))
    answer = open_network(credentials=credentials(mine.origin)).send(Request(method, mine.origin))
    assert answer.kind is Kind.UNREACHABLE
    there = f"{other.origin}/steal"
    assert answer.details == {"reason": "redirect", "sent": True, "origin": other.origin, "url": there}
    assert other.origin in answer.message
    assert mine.origin in answer.message
    assert "hidden" not in repr(answer)
    assert other.connections == 0


@pytest.mark.requirement("D-05", "D-08", "XL-011")
@pytest.mark.parametrize(
    "location",
    [
        "http://localhost:{port}/",
        "https://127.0.0.1:{port}/",
        "//127.0.0.2:{port}/",
        "//127.1.1.1:{port}",
        "/\\127.0.0.2:{port}/",
        "\\\\127.0.0.2:{port}",
        "http://2130706434:{port}/",
        "http://127.0.0.1:{port}@127.0.0.2:{port}/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:127.0.0.1]:{port}/",
        "ftp://127.0.0.1/",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:application/json,{{}}",
        "http://[",
        "http://127.0.0.1:99999/",
    ],
)
def test_no_location_leads_off_the_origin(listen: Any, open_network: Any, encode_response: Any, location: str) -> None:
    mine = listen(lambda seen: [encode_response(b"", f"location: {location.format(port=port(seen))}", status="307 Go")])
    answer = open_network(resolve=lambda host, port: ["127.0.0.1"]).send(Request("GET", mine.origin))
    assert answer.details["reason"] == "redirect"
    assert len(mine.requests) == 1


def test_user_info_in_a_location_is_dropped(listen: Any, open_network: Any, encode_response: Any) -> None:
    mine = listen(
        lambda seen: [encode_response(b"", f"location: http://user:pass@127.0.0.1:{port(seen)}/", status="307 Go")]
    )
    answer = open_network().send(Request("GET", mine.origin))
    assert answer.kind is Kind.MALFORMED
    assert len(mine.requests) == 1


@pytest.mark.requirement("C-13", "XL-011")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "location", ["/tools/", "tools/", "http://127.0.0.1:{port}/tools/", "//127.0.0.1:{port}/tools/"]
)
def test_get_follows_a_redirect_on_its_origin_with_credentials(
    listen: Any, open_network: Any, encode_response: Any, status: int, location: str
) -> None:
    def answer(seen: Any) -> list[bytes]:
        redirect = encode_response(b"", f"location: {location.format(port=port(seen))}", status=f"{status} Go")
        return [redirect if seen.line == "GET / HTTP/1.1" else encode_response(b"there")]

    mine = listen(answer)
    got = open_network(credentials=credentials(mine.origin)).send(Request("GET", mine.origin))
    assert got.body == b"there"
    assert [seen.line for seen in mine.requests] == ["GET / HTTP/1.1", "GET /tools/ HTTP/1.1"]
    assert all(seen.headers["x-api-key"] == "tops3cret" for seen in mine.requests)


@pytest.mark.requirement("C-13")
@pytest.mark.parametrize("status", [307, 308])
def test_post_is_repeated_unchanged_after_a_redirect(
    listen: Any, open_network: Any, encode_response: Any, status: int
) -> None:
    mine = listen(first_then(encode_response(b"", "location: /call/", status=f"{status} Go"), encode_response(b"done")))
    assert open_network().send(Request("POST", mine.origin, (), b'{"a":1}')).body == b"done"
    assert [(seen.line, seen.body) for seen in mine.requests] == [
        ("POST / HTTP/1.1", b'{"a":1}'),
        ("POST /call/ HTTP/1.1", b'{"a":1}'),
    ]


@pytest.mark.parametrize("status", [301, 302, 303])
def test_post_is_never_changed_to_another_method_by_a_redirect(
    listen: Any, open_network: Any, encode_response: Any, status: int
) -> None:
    mine = listen(encode_response(b"", "location: /call/", status=f"{status} Go"))
    answer = open_network().send(Request("POST", mine.origin, (), b"{}"))
    assert answer.kind is Kind.BAD_ANSWER
    assert answer.details["reason"] == "redirect"
    assert len(mine.requests) == 1


@pytest.mark.requirement("XL-011")
@pytest.mark.parametrize(("hops", "arrives"), [(3, True), (4, False)])
def test_three_redirects_are_followed_but_not_a_fourth(
    listen: Any, open_network: Any, encode_response: Any, hops: int, arrives: bool
) -> None:
    def answer(seen: Any) -> list[bytes]:
        number = int(seen.line.split()[1].strip("/") or 0)
        return [
            encode_response(b"", f"location: /{number + 1}", status="302 Go")
            if number < hops
            else encode_response(b"there")
        ]

    mine = listen(answer)
    got = open_network().send(Request("GET", mine.origin))
    assert got.ok is False if not arrives else got.body == b"there"
    assert len(mine.requests) == 4


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_other_3xx_statuses_are_returned(listen: Any, open_network: Any, encode_response: Any, status: int) -> None:
    mine = listen(encode_response(b"", "location: http://127.0.0.2/", status=f"{status} So"))
    assert open_network().send(Request("GET", mine.origin)).status == status


def test_redirect_without_a_location_is_returned(listen: Any, open_network: Any, encode_response: Any) -> None:
    assert open_network().send(Request("GET", listen(encode_response(b"", status="302 Go")).origin)).status == 302


LOGIN_BOX = b"<html><form><input name=p type=password></form><h1>Saved</h1></html>"


def call_page(listen: Any, said: Any, method: str, path: str, status: int, location: str, **page: Any) -> Any:
    """Return the result of a call of ``path``, which redirects to ``location``, an HTML page."""
    operation = {"operationId": "run", "x-llm": {"approval": "auto"}, "responses": {"200": {"description": "ok"}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {path: {method.lower(): operation}},
    }

    def answer(seen: Any) -> list[bytes]:
        asked, _, wanted = seen.line.partition(" ")
        wanted = wanted.partition(" ")[0]
        if wanted == "/openapi.json":
            return [said(json.dumps(document).encode(), "content-type: application/json")]
        if wanted == path and asked == method:
            return [said(b"", f"location: {location}", status=f"{status} Go")]
        if wanted == location:
            return [
                said(LOGIN_BOX, f"content-type: {page.get('kind', 'text/html; charset=utf-8')}", *page.get("more", ()))
            ]
        return [said(b"", status="404 Not Found")]

    site = listen(answer)
    with connect_sync(
        f"{site.origin}/openapi.json", approve=lambda _: True, selection=Selection(include="all")
    ) as remote:
        return remote.call("run", {})


@pytest.mark.requirement("FU-30", "O-33")
@pytest.mark.parametrize(
    ("method", "path", "status", "location"),
    [
        ("POST", "/profile", 308, "/profile/"),
        ("POST", "/login", 307, "/login/"),
        ("GET", "/users", 307, "/users/"),
        ("GET", "/login", 307, "/login/"),
        ("GET", "/sign-in", 302, "/sign-in?page=1"),
        ("GET", "/latest", 302, "/reports/sign-in-statistics"),
        ("GET", "/latest", 302, "/how-to-login"),
        ("GET", "/latest", 302, "/login/attempts"),
    ],
)
def test_page_of_a_call_that_ran_is_its_result(
    listen: Any, encode_response: Any, method: str, path: str, status: int, location: str
) -> None:
    result = call_page(listen, encode_response, method, path, status, location)
    assert isinstance(result, Value), result
    assert result.value == LOGIN_BOX.decode()


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("there", ["/accounts/login/", "/users/sign_in", "/auth/login", "/Account/LogIn", "/signin"])
def test_redirect_of_a_read_to_a_sign_in_page_is_a_refusal(listen: Any, encode_response: Any, there: str) -> None:
    result = call_page(listen, encode_response, "GET", "/mine", 302, there)
    assert result.kind is Kind.FORBIDDEN
    assert f"redirected this call to its sign-in page, {there}." in result.message
    data = call_page(listen, encode_response, "GET", "/mine", 302, there, kind="text/plain")
    assert isinstance(data, Value)


@pytest.mark.requirement("FU-30")
def test_server_cannot_claim_to_have_redirected(listen: Any, encode_response: Any) -> None:
    more = ("Sign-In-Page: /login", "sign-in-page: /login", "toolwire-redirected-to: /login")
    result = call_page(listen, encode_response, "GET", "/mine", 302, "/news", more=more)
    assert isinstance(result, Value), result


@pytest.mark.requirement("FU-30")
@pytest.mark.parametrize("status", [302, 303])
def test_redirect_of_a_write_to_a_sign_in_page_is_no_result(listen: Any, encode_response: Any, status: int) -> None:
    result = call_page(listen, encode_response, "POST", "/mine", status, "/accounts/login/")
    assert result.kind is Kind.BAD_ANSWER
    assert result.details["reason"] == "redirect"
