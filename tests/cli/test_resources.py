"""``toolwire resources`` and ``toolwire prompts``: of code, of a server, and of an address that has none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolwire import Toolkit, asgi
from toolwire.testing import background

pytestmark = pytest.mark.requirement("MC-08")

KIT = '''
from toolwire import PromptMessage, Toolkit

kit = Toolkit("Shop")


@kit.resource("config://app", media_type="text/plain")
def config() -> str:
    """The settings."""
    return "color = red"


@kit.resource("dot://{size}", media_type="image/png")
def dot(size: int) -> bytes:
    return b"." * size


@kit.prompt
def greet(name: str, how: str = "Hello") -> list[str | PromptMessage]:
    """Greet somebody."""
    return [f"{how}, {name}!", PromptMessage("Hi.", "assistant")]
'''


@pytest.fixture(params=["code", "url"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    file = tmp_path / "shop.py"
    file.write_text(KIT, encoding="utf-8")
    if request.param == "code":
        yield str(file)
        return
    names: dict[str, Any] = {"__name__": "shop"}
    exec(compile(KIT, "shop.py", "exec"), names)
    with background(asgi(names["kit"])) as url:
        yield url


def test_resources_are_listed_and_read(toolwire: Callable[..., Any], target: str, tmp_path: Path) -> None:
    listed = toolwire("resources", target)
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()] == ["URI", "config://app", "dot://{size}"]
    assert "The settings." in listed.out
    facts = json.loads(toolwire("resources", target, "--json").out)
    assert [(one["uri"], one["is_template"]) for one in facts] == [("config://app", False), ("dot://{size}", True)]
    assert toolwire("resources", target, "config://app").out == "color = red\n"
    assert json.loads(toolwire("resources", target, "config://app", "--json").out) == {
        "ok": True,
        "value": "color = red",
    }
    file = tmp_path / "dot.png"
    written = toolwire("resources", target, "dot://7", "--output", file)
    assert (written.code, file.read_bytes()) == (0, b".......")
    assert "a file (image/png, 3 bytes)" in toolwire("resources", target, "dot://3").out


def test_prompts_are_listed_and_filled_in(toolwire: Callable[..., Any], target: str) -> None:
    listed = toolwire("prompts", target)
    assert listed.code == 0
    assert listed.out.splitlines()[1].split()[:3] == ["greet", "name", "[how]"]
    assert json.loads(toolwire("prompts", target, "--json").out)[0]["arguments"][0]["is_required"] is True
    assert toolwire("prompts", target, "greet", "name=Ada").out == "user: Hello, Ada!\nassistant: Hi.\n"
    value = json.loads(toolwire("prompts", target, "greet", "name=Ada", "how=Bye", "--json").out)["value"]
    assert value["messages"][0] == {"role": "user", "content": "Bye, Ada!"}


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("resources", "config://app2"), 2, "config://app"),
        (("resources", "config://app", "--force"), 2, "--output"),
        (("resources", "--output", "x"), 2, "URI"),
        (("prompts", "greet"), 2, "name"),
        (("prompts", "greet", "name"), 2, "KEY=VALUE"),
        (("prompts", "part"), 2, "greet"),
    ],
)
def test_resource_command_failures_are_reported_in_one_sentence(
    toolwire: Callable[..., Any], target: str, words: tuple[str, ...], code: int, sentence: str
) -> None:
    command, *rest = words
    outcome = toolwire(command, target, *rest)
    assert outcome.code == code
    assert sentence in outcome.err
    assert len(outcome.err.splitlines()) == 1


def test_target_without_resources_is_reported(toolwire: Callable[..., Any]) -> None:
    kit = Toolkit("Plain")

    @kit.tool
    def nothing() -> None:
        """Do nothing."""

    with background(asgi(kit)) as url:
        assert toolwire("resources", url).out == "This target has no resources.\n"
        assert toolwire("prompts", url).out == "This server has no prompts.\n"
