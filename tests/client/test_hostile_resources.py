"""Lists of resources and prompts from hostile servers: they stay bounded, clean and harmless."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import pytest

from toolwire import Kind, Problem, SkillDefinition, SyncRemote, Value, connect_sync
from toolwire.testing import background

pytestmark = pytest.mark.requirement("MC-08", "D-17")

Answer = Callable[[dict[str, Any]], Any]


def build_server(answers: dict[str, Answer]) -> Any:
    """Return an MCP server that answers each method with a function, and counts the requests in ``asked``."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if scope["method"] != "POST":
            await send({"type": "http.response.start", "status": 405, "headers": [(b"allow", b"POST")]})
            await send({"type": "http.response.body", "body": b""})
            return
        asked = json.loads(body)
        method = asked["method"]
        server.asked.append(method)  # type: ignore[attr-defined]  # a counter on the function
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked.get("id")}
        if method == "server/discover":
            answer["result"] = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {
                    "tools": {},
                    "resources": {},
                    "prompts": {},
                    "extensions": {"io.modelcontextprotocol/skills": {}} if "skills/list" in answers else {},
                },
            }
        elif method == "tools/list":
            answer["result"] = {"tools": []}
        else:
            answer["result"] = answers.get(method, lambda _: {})(asked.get("params", {}))
        text = json.dumps(answer).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": text})

    server = serve
    server.asked = []  # type: ignore[attr-defined]  # a counter on the function
    return server


@contextmanager
def open_connection(server: Any) -> Iterator[SyncRemote]:
    with background(server) as url, connect_sync(f"{url}/mcp", protocol="mcp") as remote:
        yield remote


def test_endless_resource_pages_stop_at_a_limit() -> None:
    numbers = iter(range(1_000_000))

    def answer(_: dict[str, Any]) -> Any:
        number = next(numbers)
        return {"resources": [{"uri": f"a://{number}", "name": "x"}], "nextCursor": f"c{number}"}

    server = build_server({"resources/list": answer, "resources/templates/list": lambda _: {"resourceTemplates": []}})
    with open_connection(server) as remote:
        listed = remote.list_resources()
    assert not isinstance(listed, Problem)
    assert len(listed) == 100
    assert server.asked.count("resources/list") == 100


def test_invalid_entries_are_dropped_and_reported() -> None:
    entries: list[Any] = [
        7,
        {"name": "no uri"},
        {"uri": 7, "name": "x"},
        {"uri": "no scheme", "name": "x"},
        {"uri": "a://b", "name": "good", "description": "visible\u202e\u200b text", "size": -1, "mimeType": 7},
        {"uri": "a://b", "name": "again"},
    ]
    prompts: list[Any] = [
        {"name": "p\u202e"},
        {"name": "x" * 300},
        {"name": "fine", "arguments": [7, {"name": "a", "required": True}, {"name": 8}]},
        {"name": "fine"},
    ]
    server = build_server(
        {
            "resources/list": lambda _: {"resources": entries},
            "resources/templates/list": lambda _: {"resourceTemplates": [{"uriTemplate": "a://x{?q,r}", "name": "t"}]},
            "prompts/list": lambda _: {"prompts": prompts},
        }
    )
    with open_connection(server) as remote:
        listed, offered = remote.list_resources(), remote.list_prompts()
        assert not isinstance(listed, Problem)
        assert not isinstance(offered, Problem)
        assert [(one.uri, one.name, one.description, one.size) for one in listed] == [
            ("a://b", "good", "visible text", None),
            ("a://x{?q,r}", "t", "", None),
        ]
        assert [(one.name, one.arguments[0].name, one.arguments[0].is_required) for one in offered] == [
            ("fine", "a", True)
        ]
        assert len([one for one in remote.findings() if "left out" in one]) == 8


@pytest.mark.parametrize(
    "answer", [{}, {"contents": 7}, {"contents": [7]}, {"contents": [{}] * 101}, {"contents": None}]
)
def test_broken_content_is_a_problem(answer: Any) -> None:
    server = build_server({"resources/read": lambda _: answer})
    with open_connection(server) as remote:
        result = remote.read_resource("a://b")
    assert isinstance(result, Problem)
    assert "contents" in result.message


@pytest.mark.parametrize(
    "messages", [None, [7], [{"role": "system", "content": {"type": "text", "text": "x"}}], [{"role": "user"}]]
)
def test_broken_messages_are_a_problem(messages: Any) -> None:
    server = build_server(
        {"prompts/list": lambda _: {"prompts": [{"name": "p"}]}, "prompts/get": lambda _: {"messages": messages}}
    )
    with open_connection(server) as remote:
        result = remote.get_prompt("p")
    assert isinstance(result, Problem)


def test_invalid_base64_content_is_returned_unchanged() -> None:
    content = {"uri": "a://b", "blob": "%%%", "mimeType": "image/png"}
    server = build_server({"resources/read": lambda _: {"contents": [content]}})
    with open_connection(server) as remote:
        assert remote.read_resource("a://b") == Value({"type": "resource", "resource": content})


def test_server_that_asks_for_input_is_not_answered() -> None:
    server = build_server({"resources/read": lambda _: {"resultType": "input_required", "inputRequests": {}}})
    with open_connection(server) as remote:
        result = remote.read_resource("a://b")
    assert isinstance(result, Problem)
    assert "input" in result.message
    assert server.asked.count("resources/read") == 1


MAIN = "---\nname: pay\ndescription: Pay.\n---\nPay.\n"


def build_entry(**changes: Any) -> dict[str, Any]:
    """Return the valid entry of a skill, with other members where ``changes`` says so."""
    data = MAIN.encode()
    main = {"uri": "skill://pay/SKILL.md", "digest": f"sha256:{sha256(data).hexdigest()}", "size": len(data)}
    frontmatter = {"name": "pay", "description": "Pay."}
    return {"uri": "skill://pay/SKILL.md", "frontmatter": frontmatter, "resources": [main], **changes}


def list_skills(*entries: Any, **answers: Answer) -> Any:
    methods: dict[str, Answer] = {
        "resources/list": lambda _: {"resources": []},
        "resources/templates/list": lambda _: {"resourceTemplates": []},
        "prompts/list": lambda _: {"prompts": []},
        "skills/list": lambda _: {"skills": list(entries)},
    }
    return build_server({**methods, **{name.replace("_", "/"): answer for name, answer in answers.items()}})


def name_file(uri: str) -> dict[str, Any]:
    return {"uri": uri, "digest": f"sha256:{'0' * 64}", "size": 1}


@pytest.mark.requirement("QF-09")
@pytest.mark.parametrize(
    "changes",
    [
        {"uri": "skill://pay/other.md"},
        {"uri": "skill://pay/../SKILL.md"},
        {"uri": 7},
        {"frontmatter": {"name": "other", "description": "x"}},
        {"frontmatter": {"name": "pay"}},
        {"frontmatter": {"name": "pay", "description": "x", "more": ["y"] * 10_000}},
        {"resources": None},
        {"resources": "static"},
        {"resources": []},
        {"resources": [{"uri": "skill://pay/SKILL.md", "digest": "sha256:0", "size": 1}]},
        {"resources": [{"uri": "skill://pay/SKILL.md", "digest": f"sha256:{'0' * 64}", "size": True}]},
        *(
            {"resources": [*build_entry()["resources"], name_file(uri)]}
            for uri in (
                "skill://pay/SKILL.md",
                "skill://steal/SKILL.md",
                "skill://pay/../steal/SKILL.md",
                "skill://pay/%2e%2e/x",
                "skill://pay/a%2f..%2fx",
                "skill://pay/a?b",
                "file:///etc/passwd",
            )
        ),
        {"resources": [*build_entry()["resources"], *(name_file(f"skill://pay/{n}") for n in range(512))]},
        {"resources": [*build_entry()["resources"], {**name_file("skill://pay/a"), "size": 16 * 1024**2}]},
    ],
)
def test_skill_that_a_host_must_not_load_is_left_out(changes: dict[str, Any]) -> None:
    with open_connection(list_skills(build_entry(**changes))) as remote:
        assert remote.list_skills() == ()
    with open_connection(list_skills(build_entry())) as remote:
        skills = remote.list_skills()
        assert not isinstance(skills, Problem)
        assert [one.name for one in skills] == ["pay"]


@pytest.mark.requirement("QF-09")
@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (MAIN.replace("Pay.\n", "Bay.\n"), {}),
        (MAIN + "x", {}),
        (MAIN, {"frontmatter": {"name": "pay", "description": "Harmless."}}),
        (MAIN, {"frontmatter": {"name": "pay", "description": "Pay.", "allowed-tools": "Bash"}}),
        (MAIN, {"resources": "dynamic", "frontmatter": {"name": "pay", "description": "Harmless."}}),
    ],
)
def test_file_that_is_not_what_its_skill_describes_is_not_read(text: str, changes: dict[str, Any]) -> None:
    server = list_skills(build_entry(**changes), resources_read=lambda asked: {"contents": [{**asked, "text": text}]})
    with open_connection(server) as remote:
        skills = remote.list_skills()
        assert not isinstance(skills, Problem)
        read = remote.read_skill(skills[0])
        assert isinstance(read, Problem)
        assert read.kind is Kind.BAD_ANSWER


@pytest.mark.requirement("QF-09")
def test_generated_skill_is_read_within_its_folder() -> None:
    server = list_skills(
        build_entry(resources="dynamic"), resources_read=lambda asked: {"contents": [{**asked, "text": MAIN}]}
    )
    with open_connection(server) as remote:
        skills = remote.list_skills()
        assert not isinstance(skills, Problem)
        assert remote.read_skill(skills[0]) == Value(MAIN)
        assert isinstance(remote.read_skill(skills[0], "a b.md"), Value)
        for path in ("../x", "a/../../x", "", "a//b", "..\\x"):
            assert isinstance(remote.read_skill(skills[0], path), Problem)


@pytest.mark.requirement("QF-09")
def test_entry_of_another_skill_is_not_taken_for_the_one_asked_for() -> None:
    server = list_skills(skills_get=lambda _: {"skill": build_entry()})
    with open_connection(server) as remote:
        assert isinstance(remote.get_skill("skill://pay/SKILL.md"), SkillDefinition)
        assert isinstance(remote.get_skill("skill://other/SKILL.md"), Problem)
        assert isinstance(remote.get_skill("no uri"), Problem)
