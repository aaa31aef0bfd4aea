"""A site that sends on to another origin is followed where the person says so, and everything moves with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from toolwire import Answer, ConnectError, Selection, Session, connect, connect_sync
from toolwire.client.discovery.relocation import Relocation, resolve_relocation

KEY = "correct horse battery staple"
Open = Callable[..., Any]


def document(servers: list[dict[str, str]] | None = None) -> bytes:
    operation = {"operationId": "note", "summary": "Write a note.", "responses": {"200": {"description": "written"}}}
    policy = {"approval": "per-call", "blanketApprovalAllowed": True}
    info = {"title": "Notes", "version": "1.0.0"}
    paths = {"/notes": {"post": {**operation, "x-llm": policy}}}
    data: dict[str, Any] = {"openapi": "3.1.0", "info": info, "x-llm": {}, "paths": paths}
    return json.dumps(data if servers is None else {**data, "servers": servers}).encode()


@pytest.fixture
def site(listen: Any, encode_response: Any) -> Any:
    """Start a site with one document that needs the key, wherever it is told to have it."""

    def start(path: str = "/openapi.json") -> Any:
        def answer(seen: Any) -> list[bytes]:
            asked = seen.line.split()[1]
            if asked == path or asked == "/notes":
                if "authorization" not in seen.headers:
                    return [encode_response(b"{}", status="401 Who")]
                return [
                    encode_response(document() if asked == path else b'{"ok": true}', "content-type: application/json")
                ]
            return [encode_response(b"{}", status="404 None")]

        return listen(answer)

    return start


@pytest.fixture
def start_redirecting_site(listen: Any, encode_response: Any) -> Any:
    """Start a site that sends everybody on to ``there``, on the same path unless another is given."""

    def start(there: Any, path: str = "", status: str = "301 Go") -> Any:
        origin = getattr(there, "origin", there)
        return listen(
            lambda seen: [encode_response(b"", f"location: {origin}{path or seen.line.split()[1]}", status=status)]
        )

    return start


@pytest.fixture(params=["async", "sync"])
def visit(request: pytest.FixtureRequest) -> Open:
    """Connect, call the tool, and return the remote's URL and name with the result."""

    def blocking(url: str, **options: Any) -> Any:
        with connect_sync(url, **options) as remote:
            return remote.url, remote.name, remote.call("note")

    async def visited(url: str, **options: Any) -> Any:
        async with connect(url, **options) as remote:
            return remote.url, remote.name, await remote.call("note")

    return blocking if request.param == "sync" else lambda url, **options: asyncio.run(visited(url, **options))


@pytest.mark.requirement("XL-011", "D-08")
def test_credentials_and_grants_are_bound_to_the_accepted_origin(
    site: Any, start_redirecting_site: Any, visit: Open
) -> None:
    there = site()
    here = start_redirecting_site(there)
    asked: list[tuple[str, str]] = []
    questions: list[Any] = []
    session = Session()

    def moved(first: str, second: str) -> bool:
        asked.append((first, second))
        return True

    def approve(question: Any) -> Answer:
        questions.append(question)
        return Answer(allowed=True, always=True)

    url, _, result = visit(here.origin, approve_relocation=moved, approve=approve, session=session, api_key=KEY)
    assert result.ok
    assert asked == [(here.origin, there.origin)]
    assert url.startswith(there.origin + "/")
    (question,) = questions
    assert question.site == there.origin
    assert [grant.key.origin for grant in session.grants.list_grants()] == [there.origin]
    assert all("authorization" not in seen.headers for seen in here.requests)
    assert there.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in there.requests[0].headers  # it is looked at without a key first, like any site


@pytest.mark.requirement("XL-011", "D-08")
@pytest.mark.parametrize("answer", [None, False, "yes", 1])
def test_other_origin_is_not_contacted_without_approval(
    site: Any, start_redirecting_site: Any, visit: Open, answer: Any
) -> None:
    there = site()
    here = start_redirecting_site(there)
    moved = None if answer is None else lambda *_: answer
    with pytest.raises(ConnectError) as refused:
        visit(here.origin, approve_relocation=moved, api_key=KEY)
    assert there.origin in str(refused.value)
    assert there.connections == 0


@pytest.mark.requirement("XL-011")
def test_each_of_three_relocations_is_asked_about_and_a_fourth_refused(
    site: Any, start_redirecting_site: Any, visit: Open
) -> None:
    for hops, arrives in ((3, True), (4, False)):
        end = there = site()
        for _ in range(hops):
            there = start_redirecting_site(there)
        asked: list[str] = []

        def moved(_: str, second: str, asked: list[str] = asked) -> bool:
            asked.append(second)
            return True

        if arrives:
            assert visit(there.origin, approve_relocation=moved, api_key=KEY, approve=lambda _: True)[2].ok
        else:
            with pytest.raises(ConnectError):
                visit(there.origin, approve_relocation=moved, api_key=KEY)
            assert end.connections == 0
        assert len(asked) == 3


@pytest.mark.requirement("XL-011", "XL-015")
def test_relocation_keeps_the_path_or_follows_a_named_one(site: Any, start_redirecting_site: Any, visit: Open) -> None:
    there = site("/docs/notes.json")
    for here, path in (
        (start_redirecting_site(there), "/docs/notes.json"),
        (start_redirecting_site(there, "/docs/notes.json"), "/old.json"),
    ):
        url, _, result = visit(
            here.origin + path, approve_relocation=lambda *_: True, api_key=KEY, approve=lambda _: True
        )
        assert url == there.origin + "/docs/notes.json"
        assert result.ok


@pytest.mark.requirement("XL-015", "D-07", "D-08")
@pytest.mark.parametrize("agreed", [True, False])
def test_llm_json_can_name_a_document_on_another_origin_only_with_approval(
    listen: Any, encode_response: Any, site: Any, visit: Open, agreed: bool
) -> None:
    there = site("/docs/notes.json")
    named = json.dumps({"openapi": f"{there.origin}/docs/notes.json"}).encode()

    def answer(seen: Any) -> list[bytes]:
        known = seen.line.split()[1] == "/.well-known/llm.json"
        return [
            encode_response(named, "content-type: application/json")
            if known
            else encode_response(b"{}", status="404 None")
        ]

    here = listen(answer)
    asked: list[tuple[str, str]] = []

    def moved(first: str, second: str) -> bool:
        asked.append((first, second))
        return agreed

    options = {"api_key": KEY, "approve": lambda _: True, "approve_relocation": moved}
    if agreed:
        url, _, result = visit(here.origin, **options)
        assert (url, result.ok) == (there.origin + "/docs/notes.json", True)
    else:
        with pytest.raises(ConnectError, match="links to a document on another server"):
            visit(here.origin, **options)
        assert there.connections == 0
    assert asked == [(here.origin, there.origin)]
    with pytest.raises(ConnectError):
        visit(here.origin, api_key=KEY)


@pytest.mark.requirement("XL-011")
def test_document_found_at_its_origin_needs_no_relocation(listen: Any, encode_response: Any, site: Any) -> None:
    other = site()

    def answer(seen: Any) -> list[bytes]:
        if seen.line.split()[1] == "/openapi.json":
            return [encode_response(document(), "content-type: application/json")]
        return [encode_response(b"", f"location: {other.origin}/llm.json", status="302 Go")]

    here = listen(answer)
    with connect_sync(here.origin, approve_relocation=lambda *_: pytest.fail("nobody is to be asked")) as remote:
        assert remote.url.startswith(here.origin)
    assert other.connections == 0


@pytest.mark.requirement("XL-011")
def test_approved_relocation_does_not_redirect_calls(listen: Any, encode_response: Any, site: Any) -> None:
    other = site()

    def answer(seen: Any) -> list[bytes]:
        if seen.line.split()[1] == "/openapi.json":
            return [encode_response(document(), "content-type: application/json")]
        return [encode_response(b"", f"location: {other.origin}/notes", status="307 Go")]

    here = listen(answer)
    with connect_sync(here.origin, approve_relocation=lambda *_: True, approve=lambda _: True) as remote:
        result = remote.call("note")
    assert not result.ok
    assert other.origin in result.message
    assert other.connections == 0


@pytest.mark.requirement("XL-011", "D-05", "XL-010")
@pytest.mark.parametrize(
    ("asked", "there"),
    [
        ("https://recipes.app/llm.json", "http://recipes.app/llm.json"),
        ("https://recipes.app/llm.json", "http://127.0.0.1/llm.json"),
        ("https://recipes.app/llm.json", "https://127.0.0.1/llm.json"),
        ("https://recipes.app/llm.json", "https://localhost/llm.json"),
        ("https://recipes.app/llm.json", "https://[::1]/llm.json"),
        ("https://recipes.app/llm.json", "https://10.0.0.1/llm.json"),
        ("https://recipes.app/llm.json", "https://169.254.169.254/latest"),
        ("https://localhost/llm.json", "http://localhost/llm.json"),
        ("http://localhost/llm.json", "http://recipes.app/llm.json"),
    ],
)
def test_user_cannot_approve_a_forbidden_relocation(asked: str, there: str) -> None:
    assert resolve_relocation("https://recipes.app", Relocation(asked, there), lambda *_: True) == ""


@pytest.mark.requirement("XL-011")
def test_upgrade_to_https_on_one_host_needs_no_approval() -> None:
    move = Relocation("http://localhost:8000/.well-known/llm.json", "https://localhost:8443/.well-known/llm.json")
    assert resolve_relocation("http://localhost:8000/docs?v=1#top", move, None) == "https://localhost:8443/docs?v=1"
    other = Relocation(move.from_url, "https://127.0.0.1:8443/.well-known/llm.json")
    assert resolve_relocation("http://localhost:8000/docs", other, None) == ""


@pytest.mark.requirement("XL-011")
def test_a_move_keeps_the_other_options(site: Any, start_redirecting_site: Any, visit: Open) -> None:
    there = site()
    here = start_redirecting_site(there)
    url, name, result = visit(
        here.origin,
        approve_relocation=lambda *_: True,
        api_key=KEY,
        name="notes",
        selection=Selection(methods=("post",)),
        approve=lambda _: False,
    )
    assert (name, result.kind) == ("notes", "denied")
    assert url.startswith(there.origin)
