"""``make demo``: the main job from end to end, as somebody who has just cloned the repository sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "examples" / "demo.py"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", str(DEMO), *options],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "FORCE_COLOR": "1"},
    )


@pytest.fixture(scope="module")
def demo() -> subprocess.CompletedProcess[str]:
    return run()


def test_demo_completes_every_step(demo: subprocess.CompletedProcess[str]) -> None:
    assert (demo.returncode, demo.stderr) == (0, "")
    assert "Every step came out as it should" in demo.stdout


def test_demo_shows_the_whole_workflow(demo: subprocess.CompletedProcess[str]) -> None:
    for message in (
        "OpenAPI + x-llm is chosen: it was found first",
        "OXP 1.0; tools: 5",
        "create_task",
        "Allow this call?",
        'the database says: [[1, "Water the plants", "open", "2027-03-01"]]',
        "denied: delete_task was not called",
        "invalid_arguments: Invalid arguments: title:",
        "Model Context Protocol      add(17, 25) = 42",
        'POST /call -> {"call_id": "demo-1", "success": true, "output": {"value": 42}}',
    ):
        assert message in demo.stdout


@pytest.mark.requirement("XL-132", "D-19")
def test_the_user_flow_of_the_proposal_asks_exactly_one_question(demo: subprocess.CompletedProcess[str]) -> None:
    _, _, flow = demo.stdout.partition("you> Find me a good pasta recipe and save it")
    flow = flow.partition("A gateway over two servers")[0]
    assert "-> searchRecipes" in flow.partition("Allow this call?")[0]
    assert flow.count("Allow this call?") == 1
    assert 'recipeId = "r1"' in flow
    assert "model> It is now in your favorites." in flow
    assert "her page says: Your favorites: Cacio e Pepe." in flow


@pytest.mark.requirement("XL-132", "XL-110")
def test_demo_user_signs_up_connects_toolwire_and_revokes_it(demo: subprocess.CompletedProcess[str]) -> None:
    _, _, product = demo.stdout.partition("A product with accounts")
    assert "Ada has an account, and a book of recipes of her own: You have no favorites yet" in product
    assert product.index("searchRecipes") < product.index("She takes it back on the page of connected apps")
    assert "-> denied: The sign-in failed: access_denied." in product.partition("She takes it back")[2]


@pytest.mark.requirement("CC-01", "CC-05")
def test_demo_server_makes_an_unchanged_mcp_client_ask_its_user(demo: subprocess.CompletedProcess[str]) -> None:
    _, _, message = demo.stdout.partition("The official MCP client, unchanged")
    small, large, gone = (part.partition("\n\nWhat does")[0] for part in message.split("-> ")[:3])
    assert "Allow this call?" not in small
    assert "/amount is more than 50" in large
    assert 'Pay 80 to "Ada"?' in large
    assert "Allow this call? [y/N] y" in large
    assert "The server declares that this tool is destructive" in gone
    assert "Allow this call? [y/N] n" in gone
    ended = message.split("-> ")[3].partition("\n")[0]
    assert ended == 'not called; the wallet has: {"1": ["Ada", 20.0], "2": ["Ada", 80.0]}'


@pytest.mark.requirement("CC-03")
def test_demo_bounded_grant_ends_after_its_last_use(demo: subprocess.CompletedProcess[str]) -> None:
    _, _, message = demo.stdout.partition('An "always" within bounds')
    first, second, third, last = (part.partition("\n\n")[0] for part in message.split("pay(to=")[1:5])
    for part, asked, left in (
        (first, True, '/to is "Ada" and /amount is at most 50; 2 more calls'),
        (second, False, '/to is "Ada" and /amount is at most 50; 1 more call'),
        (third, False, "nothing"),
        (last, True, "nothing"),
    ):
        assert ("Allow this call?" in part) is asked
        assert part.rstrip().endswith(f"goes without a question: {left}")
    assert "Call it? [y/N] b, within bounds" in first
    assert "-> 5" in third
    assert "-> denied: pay was not called" in last


@pytest.mark.requirement("GW-01")
def test_demo_gateway_shows_and_asks_each_caller_their_own(demo: subprocess.CompletedProcess[str]) -> None:
    _, _, message = demo.stdout.partition("A gateway over two servers of other makers")
    ann, bob = message.partition("Ann sees: forecast, order")[2].split("Bob sees: forecast\n")
    assert 'article = "tea"' in ann.partition("Call it? [y/N] y")[0]
    assert '-> "ordered: tea"' in ann
    assert 'city = "Oslo"' in bob.partition("Call it? [y/N] y")[0]
    assert '-> "It is sunny in Oslo."' in bob


def test_demo_output_in_a_pipe_has_no_colors(demo: subprocess.CompletedProcess[str]) -> None:
    assert "\x1b" not in demo.stdout


def test_demo_with_questions_requires_a_terminal() -> None:
    asked = run("--ask")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "terminal" in asked.stderr
