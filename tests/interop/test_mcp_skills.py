"""Skills (SEP-2640): a folder of a Toolkit to the official MCP client, through a gateway, and to our own client."""

from __future__ import annotations

import asyncio
import os
import sys
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import BlobResourceContents, Request, Result, TextResourceContents
from pydantic import ConfigDict

from tests.support.upstreams import connect_without_user
from toolwire import (
    ApiKey,
    DefinitionError,
    Kind,
    Problem,
    Secret,
    Session,
    SkillDefinition,
    Toolkit,
    Value,
    asgi,
    connect,
    connect_sync,
    merge_toolboxes,
)
from toolwire.testing import background

pytestmark = pytest.mark.requirement("QF-09")

SKILL = """---
name: {name}
description: Refund a customer.
license: MIT
metadata:
  version: 1.10
---

Read `forms/A b.md`.
"""
LOGO = bytes(range(256))


class _Any(Result):
    model_config = ConfigDict(extra="allow")


class _Ask(Request[dict[str, Any], str]):
    pass


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the skills ``git-workflow`` and, nested in folders of another name, ``refunds``."""
    root = tmp_path / "skills"
    for home in ("git-workflow", "acme/billing/refunds"):
        (root / home / "forms").mkdir(parents=True)
        (root / home / "SKILL.md").write_text(SKILL.format(name=Path(home).name), "utf-8")
        (root / home / "forms" / "A b.md").write_bytes(b"\xef\xbb\xbfline\r\n\xc3\xa9\n")
    (root / "git-workflow" / "logo.png").write_bytes(LOGO)
    (root / "git-workflow" / ".env").write_text("SECRET=1", "utf-8")
    (root / "README.md").write_text("of no skill", "utf-8")
    return root


def build_kit(folder: Path, **options: Any) -> Toolkit:
    kit = Toolkit("Shop")
    kit.add_skills(folder, **options)
    return kit


@pytest.fixture
def shop(folder: Path) -> Iterator[str]:
    with background(asgi(build_kit(folder))) as url:
        yield url


async def ask(client: Client, method: str, **params: Any) -> dict[str, Any]:
    request: Any = _Ask(method=method, params=params)
    return (await client.session.send_request(request, _Any)).model_dump(by_alias=True)


def check_files(entry: dict[str, Any], contents: dict[str, bytes]) -> None:
    assert {one["uri"]: (one["digest"], one["size"]) for one in entry["resources"]} == {
        uri: (f"sha256:{sha256(data).hexdigest()}", len(data)) for uri, data in contents.items()
    }


async def read_all(client: Client, entry: dict[str, Any]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    for one in entry["resources"]:
        (part,) = (await client.read_resource(one["uri"])).contents
        if isinstance(part, BlobResourceContents):
            contents[one["uri"]] = b64decode(part.blob)
        else:
            assert isinstance(part, TextResourceContents)
            contents[one["uri"]] = part.text.encode()
    return contents


def test_official_client_lists_and_reads_each_file_with_its_digest(folder: Path, shop: str) -> None:
    async def use() -> None:
        async with Client(f"{shop}/mcp") as client:
            assert client.server_capabilities.model_dump()["extensions"] == {"io.modelcontextprotocol/skills": {}}
            listed = (await ask(client, "skills/list"))["skills"]
            assert [one["uri"] for one in listed] == [
                "skill://acme/billing/refunds/SKILL.md",
                "skill://git-workflow/SKILL.md",
            ]
            git = listed[1]
            assert git["frontmatter"] == {
                "name": "git-workflow",
                "description": "Refund a customer.",
                "license": "MIT",
                "metadata": {"version": 1.1},
            }
            assert (await ask(client, "skills/get", uri=git["uri"]))["skill"] == git
            contents = await read_all(client, git)
            check_files(git, contents)
            assert contents["skill://git-workflow/logo.png"] == LOGO
            assert len(contents) == 3
            main = next(one for one in (await client.list_resources()).resources if str(one.uri) == git["uri"])
            assert (main.name, main.description, main.mime_type) == (
                "git-workflow",
                "Refund a customer.",
                "text/markdown",
            )

    anyio.run(use)


@pytest.mark.parametrize("uri", ["skill://nobody/SKILL.md", "skill://git-workflow", "skill://git-workflow/logo.png", 7])
def test_what_is_no_skill_is_an_error_of_the_parameters(shop: str, uri: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "skills/get", "params": {"uri": uri}}
    answer = httpx2.post(f"{shop}/mcp", json=message).json()
    assert answer["error"]["code"] == -32602


@pytest.mark.parametrize(
    "path", ["../README.md", "git-workflow/.env", "git-workflow/../README.md", "git-workflow/%2e%2e/README.md"]
)
def test_nothing_beside_the_files_of_a_skill_is_read(shop: str, path: str) -> None:
    with connect_sync(shop, protocol="mcp") as remote:
        assert isinstance(remote.read_resource(f"skill://{path}"), Problem)
        assert isinstance(remote.read_resource("skill://git-workflow/SKILL.md"), Value)


def test_gateway_passes_skills_on_under_the_names_of_its_servers(folder: Path, shop: str) -> None:
    upstreams = [connect_without_user(shop, Session(), protocol="mcp", agree=lambda _: True) for _ in range(2)]
    merged = merge_toolboxes(upstreams, names={0: "east", 1: "west"})

    async def use(url: str) -> None:
        async with Client(f"{url}/mcp") as client:
            listed = (await ask(client, "skills/list"))["skills"]
            assert len(listed) == 4
            west = listed[3]
            assert west["uri"] == "west+skill://git-workflow/SKILL.md"
            assert (await ask(client, "skills/get", uri=west["uri"]))["skill"] == west
            check_files(west, await read_all(client, west))
        async with connect(url, protocol="mcp") as remote:
            skills = await remote.list_skills()
            assert not isinstance(skills, Problem)
            read = await remote.read_skill(skills[3], "forms/A b.md")
            assert read == Value("\ufeffline\r\n\u00e9\n")
            outside = await remote.read_resource("west+skill://git-workflow/%2e%2e/README.md")
            assert isinstance(outside, Problem)

    with background(asgi(merged)) as url:
        anyio.run(use, url)


def test_our_client_reads_skills_and_refuses_what_changed(folder: Path) -> None:
    kit = build_kit(folder)
    with background(asgi(kit)) as url, connect_sync(url, protocol="mcp") as remote:
        skills = remote.list_skills()
        assert not isinstance(skills, Problem)
        git = skills[1]
        assert (git.name, git.description) == ("git-workflow", "Refund a customer.")
        found = remote.get_skill(git.uri)
        assert isinstance(found, SkillDefinition)
        assert found.entry == git.entry
        text = remote.read_skill(git)
        assert isinstance(text, Value)
        assert text.value == SKILL.format(name="git-workflow")
        missing = remote.read_skill(git, "../README.md")
        assert isinstance(missing, Problem)
        assert missing.kind is Kind.NOT_FOUND
    (folder / "git-workflow" / "SKILL.md").write_text(SKILL.format(name="git-workflow") + "Then pay.\n", "utf-8")
    with background(asgi(build_kit(folder))) as url, connect_sync(url, protocol="mcp") as remote:
        changed = remote.read_skill(git)
        assert isinstance(changed, Problem)
        assert "digest" in changed.message
        now = remote.get_skill(git.uri)
        assert isinstance(now, SkillDefinition)
        assert isinstance(remote.read_skill(now), Value)


def test_caller_without_the_scope_sees_no_skill(folder: Path) -> None:
    kit = build_kit(folder, scopes=["ops"])
    keys = (
        ApiKey(key=Secret("a" * 32), name="guest", scopes=frozenset()),
        ApiKey(key=Secret("b" * 32), name="operator", scopes=frozenset({"ops"})),
    )
    with background(asgi(kit, api_keys=keys)) as url:
        for key, count in (("a" * 32, 0), ("b" * 32, 2)):
            with connect_sync(url, protocol="mcp", api_key=key) as remote:
                skills = remote.list_skills()
                assert not isinstance(skills, Problem)
                assert len(skills) == count
                assert isinstance(remote.read_resource("skill://git-workflow/logo.png"), Value if count else Problem)


def test_serve_offers_the_skills_of_a_file_over_stdio(folder: Path) -> None:
    file = folder.parent / "shop.py"
    file.write_text(
        "from pathlib import Path\nfrom toolwire import Toolkit\n"
        "kit = Toolkit('Shop')\nkit.add_skills(Path(__file__).with_name('skills'))\n",
        "utf-8",
    )
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "toolwire", "serve", "--stdio", str(file)], env=dict(os.environ)
    )

    async def use() -> None:
        async with Client(stdio_client(command)) as client:
            assert len((await ask(client, "skills/list"))["skills"]) == 2

    anyio.run(use)


def test_other_protocols_have_no_skills(shop: str) -> None:
    with connect_sync(shop, protocol="otc") as remote:
        assert remote.list_skills() == ()
        assert isinstance(remote.get_skill("skill://git-workflow/SKILL.md"), Problem)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no frontmatter", "does not begin with frontmatter"),
        ("---\nname: git-workflow\n---\n", "needs description"),
        ("---\nname: other\ndescription: x\n---\n", "the folder's name"),
        ("---\n- 1\n---\n", "not a mapping"),
        ("---\nname: [\n---\n", "cannot be read"),
        ("---\nname: git-workflow\ndescription: ' '\n---\n", "1 to 1,024 characters"),
        (f"---\nname: git-workflow\ndescription: {'x' * 70_000}\n---\n", "longer than 64 KiB"),
    ],
)
def test_bad_frontmatter_is_one_sentence(folder: Path, text: str, why: str) -> None:
    (folder / "git-workflow" / "SKILL.md").write_text(text, "utf-8")
    with pytest.raises(DefinitionError, match=why) as raised:
        build_kit(folder)
    assert "git-workflow" in str(raised.value)


def test_links_and_large_skills_are_refused(folder: Path) -> None:
    home = folder / "git-workflow"
    for target in (folder / "README.md", folder.parent, folder.parent / "nowhere"):
        (home / "link").symlink_to(target)
        with pytest.raises(DefinitionError, match="is a link or a device"):
            build_kit(folder)
        (home / "link").unlink()
    os.mkfifo(home / "pipe")
    with pytest.raises(DefinitionError, match="is a link or a device"):
        build_kit(folder)
    (home / "pipe").unlink()
    with (home / "large.bin").open("wb") as file:
        file.truncate(16 * 1024**2)
    with pytest.raises(DefinitionError, match="hosts load at most"):
        build_kit(folder)
    (home / "large.bin").unlink()
    for number in range(512):
        (home / f"{number}.txt").touch()
    with pytest.raises(DefinitionError, match="has 515 files"):
        build_kit(folder)


def test_folder_without_a_skill_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="contains no skill"):
        build_kit(tmp_path)
    with pytest.raises(DefinitionError, match="There is no folder"):
        build_kit(tmp_path / "nowhere")


def test_folder_that_is_a_skill_goes_by_its_own_name(folder: Path) -> None:
    kit = build_kit(folder / "git-workflow")
    assert [one.uri for one in kit.catalog().features.skills] == ["skill://git-workflow/SKILL.md"]


def test_upstream_that_changes_a_skill_is_asked_for_its_present_entry(folder: Path) -> None:
    served = {"kit": build_kit(folder)}
    apps: dict[int, Any] = {}

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        kit = served["kit"]
        await apps.setdefault(id(kit), asgi(kit))(scope, receive, send)

    async def use(url: str) -> None:
        upstream = await asyncio.to_thread(
            lambda: connect_without_user(url, Session(), protocol="mcp", agree=lambda _: True)
        )
        merged = merge_toolboxes([upstream], names={0: "east"}, scopes={0: ()})
        with background(asgi(merged)) as gateway:
            async with connect(gateway, protocol="mcp") as remote:
                skills = await remote.list_skills()
                assert not isinstance(skills, Problem)
                (folder / "git-workflow" / "new.md").write_text("new", "utf-8")
                served["kit"] = build_kit(folder)
                now = await remote.get_skill(skills[1].uri)
                assert isinstance(now, SkillDefinition)
                assert await remote.read_skill(now, "new.md") == Value("new")
                assert isinstance(await remote.read_skill(skills[1], "new.md"), Problem)

    with background(serve) as url:
        anyio.run(use, url)
