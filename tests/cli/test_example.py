"""``toolwire example`` writes a file that can be served as it is, and never writes over one unasked."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import read_blocks
from toolwire import asgi, connect_sync
from toolwire.cli import main
from toolwire.cli.parser import EXAMPLES
from toolwire.hosting.targets.load_code import open_code
from toolwire.hosting.targets.target import FileTarget
from toolwire.testing import background

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"

pytestmark = pytest.mark.requirement("FU-10")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["shop", "wallet"])
def test_each_example_is_served_over_every_protocol(
    name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["example", name]) == 0
    assert capsys.readouterr().out == f"{name}.py is written. Serve it: toolwire serve {name}.py\n"
    with background(asgi(open_code(FileTarget(folder / f"{name}.py")))) as url:
        for protocol in ("openapi", "opentool", "otc", "mcp"):
            with connect_sync(url, protocol=protocol) as remote:
                assert len(remote.tools) >= 2


def test_default_example_equals_the_file_of_the_tutorial(folder: Path) -> None:
    assert main(["example"]) == 0
    shops = [block.text for block in read_blocks(TUTORIAL.read_text(encoding="utf-8")) if block.name == "shop.py"]
    assert (folder / "shop.py").read_text(encoding="utf-8").strip() == shops[-1].strip()


@pytest.mark.parametrize("options", [[], ["-o", "other.py"]])
def test_a_file_is_replaced_with_force_alone(
    options: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = folder / (options[-1] if options else "shop.py")
    file.write_text("mine", encoding="utf-8")
    assert main(["example", *options]) == 2
    assert f"{file.name} already exists" in capsys.readouterr().err
    assert file.read_text(encoding="utf-8") == "mine"
    assert main(["example", *options, "--force"]) == 0
    assert "Toolkit(" in file.read_text(encoding="utf-8")


def test_dangling_symlink_is_not_followed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "shop.py").symlink_to(folder / "elsewhere.py")
    assert main(["example"]) == 2
    assert not (folder / "elsewhere.py").exists()


def test_a_folder_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", "-o", "missing/shop.py"]) == 2
    assert capsys.readouterr().err == "toolwire: Cannot write missing/shop.py: the folder missing does not exist.\n"


def test_the_examples_are_listed(toolwire: Callable[..., Any], folder: Path) -> None:
    listed = toolwire("example", "--list")
    assert [line.split()[0] for line in listed.out.splitlines()] == list(EXAMPLES)
    assert list(folder.iterdir()) == []


@pytest.mark.requirement("AT-54")
def test_a_link_in_place_of_an_example_is_replaced_and_not_followed(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "mine.py").write_text("mine")
    (folder / "shop.py").symlink_to(outside / "mine.py")
    (folder / "sub").symlink_to(outside)
    assert main(["example"]) == 2
    assert main(["example", "--force"]) == 0
    assert not (folder / "shop.py").is_symlink()
    assert main(["example", "-o", "sub/mine.py", "--force"]) == 2
    assert ", which is outside this folder. Name that folder" in capsys.readouterr().err
    assert (outside / "mine.py").read_text() == "mine"


@pytest.mark.requirement("FD-08", "AT-54")
def test_sample_product_is_a_folder_with_its_scripted_model(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["example", "recipes"]) == 0
    reply = "Run it: python -m recipes, and its model: python -m recipes.model"
    assert capsys.readouterr().out == f"recipes is written. {reply}\n"
    names = {one.name for one in (folder / "recipes").iterdir()}
    assert names == {"__init__.py", "__main__.py", "app.py", "book.py", "model.py", "pages.py"}
    (folder / "recipes" / "app.py").write_text("mine")
    (folder / "recipes" / "book.py").unlink()
    assert main(["example", "recipes"]) == 2  # nothing is written if one file is there
    assert ((folder / "recipes" / "app.py").read_text(), (folder / "recipes" / "book.py").exists()) == ("mine", False)
    assert main(["example", "recipes", "--force"]) == 0
    assert "FastAPI" in (folder / "recipes" / "app.py").read_text()
    (folder / "away").symlink_to(tmp_path_factory.mktemp("outside"))
    assert [main(["example", "recipes", "-o", name]) for name in ("away", "-", "no/such")] == [2, 2, 2]


@pytest.mark.requirement("FU-59", "FD-08")
def test_model_is_a_program_for_the_tutorials_of_a_chat(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["example", "model"]) == 0
    assert capsys.readouterr().out == "model.py is written. Run it: python model.py\n"
    program = runpy.run_path(str(folder / "model.py"))
    choose = program["choose_turn"]
    [call] = choose([{"role": "user", "content": "Order tea"}])["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])["item"]) == ("order", "tea")
    assert choose([{"role": "tool", "content": '{"result": 2}'}]) == {"content": "The shop says: 2."}
    assert choose([{"role": "tool", "content": '{"error": {}}'}]) == {"content": "Nothing was done."}
    [call] = choose([{"role": "user", "content": "a pasta recipe"}])["tool_calls"]
    assert call["function"]["name"] == "searchRecipes"
    listed = {"role": "tool", "content": '{"result": [{"id": "r1", "name": "Lasagne"}]}'}
    assert choose([listed]) == {"content": "1. Lasagne. Shall I save one?"}
    [call] = choose([listed, {"role": "user", "content": "The first one"}])["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {"recipeId": "r1"}
    for page in ("chat.md", "browser-chat.md"):
        text = (TUTORIAL.parent / "how-to" / page).read_text(encoding="utf-8")
        assert ("python -m examples" in text, "toolwire example model" in text) == (False, True)
