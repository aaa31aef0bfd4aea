"""A toolkit: what ``@tool`` makes of a function and of its options, and what it refuses."""

import functools
import subprocess
import sys
from typing import Any

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Approval, Cost, RateLimit, Requirements, Tool
from toolwire.define import Toolkit


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def tool(**options: Any) -> Tool:
    return Toolkit("Calculator").add(add, **options).tool


def refusal(function: Any, **options: Any) -> str:
    with pytest.raises(DefinitionError) as caught:
        Toolkit("Calculator").add(function, **options)
    return str(caught.value)


def test_decorator_returns_the_original_function() -> None:
    kit = Toolkit("Calculator")
    assert kit.tool(add) is add
    assert kit.tool(name="plus")(add) is add
    assert [function.tool.name for function in kit.functions] == ["add", "plus"]


@pytest.mark.requirement("OTC-001")
def test_a_tool_is_called_by_its_toolkit_name_and_version() -> None:
    kit = Toolkit("My small tools!", version="2.1.0")
    assert kit.add(add).tool.id == "My_small_tools.add@2.1.0"


def test_toolkit_keeps_functions_in_the_order_they_were_added() -> None:
    kit = Toolkit("Calculator")
    for name in ("b", "a", "c"):
        kit.add(add, name=name)
    assert [function.tool.name for function in kit.functions] == ["b", "a", "c"]


def test_the_catalog_is_the_same_object_until_a_tool_is_added() -> None:
    kit = Toolkit("Calculator", version="1.2.0", description="Arithmetic.")
    kit.tool(add)
    before = kit.catalog()
    assert kit.catalog() is before
    kit.add(add, name="plus")
    assert [tool.name for tool in kit.catalog().tools] == ["add", "plus"]
    assert (before.title, before.version, before.description) == ("Calculator", "1.2.0", "Arithmetic.")


@pytest.mark.requirement("OTC-006")
def test_two_versions_of_one_tool_can_coexist() -> None:
    kit = Toolkit("Calculator")
    kit.add(add)
    kit.add(add, version="2.0.0")
    assert [tool.version for tool in kit.catalog().tools] == ["1.0.0", "2.0.0"]


@pytest.mark.requirement("OTC-002")
@pytest.mark.parametrize("second", ["add_up", "add-up"])
def test_a_second_tool_with_the_same_id_is_refused(second: str) -> None:
    kit = Toolkit("Calculator")
    kit.add(add, name="add_up")
    with pytest.raises(DefinitionError, match=r"the ID Calculator\.add_up@1\.0\.0\. Give it another name or version"):
        kit.add(add, name=second)
    assert len(kit.functions) == 1


@pytest.mark.requirement("OTC-003", "OT-011")
@pytest.mark.parametrize("name", ["", "a" * 65, "a b", "a.b", "añb", "add\n"])
def test_an_illegal_name_is_refused(name: str) -> None:
    assert "Invalid tool name" in refusal(add, name=name)


@pytest.mark.requirement("OTC-003", "OT-011")
@pytest.mark.parametrize("name", ["a", "a" * 64, "A-b_9"])
def test_legal_name_is_accepted(name: str) -> None:
    assert tool(name=name).name == name


@pytest.mark.requirement("OTC-005", "SE-01")
@pytest.mark.parametrize("version", ["1.0.0-beta.1", "1.0.0+build", "1.0.0-rc.1+exp.sha-5114f85", "0.0.0--"])
def test_a_semantic_version_is_accepted(version: str) -> None:
    assert tool(version=version).version == version


@pytest.mark.requirement("OTC-005", "SE-01")
@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "1.0.0-01", "1.0.0-", "1.0.0+", "01.0.0", "1.0.0\n", ""])
def test_an_illegal_version_is_refused(version: str) -> None:
    assert ". Write a semantic version, such as 1.0.0 or 1.0.0-beta.1" in refusal(add, version=version)


@pytest.mark.requirement("OTC-005")
def test_a_tool_has_the_version_of_its_toolkit() -> None:
    assert Toolkit("Calculator", version="3.2.1").add(add).tool.version == "3.2.1"


@pytest.mark.requirement("OTRPC-003")
@pytest.mark.parametrize("version", ["1.0", "2024", "x", "", "1.0.0 "])
def test_invalid_toolkit_version_is_refused(version: str) -> None:
    with pytest.raises(DefinitionError, match=r"'Calculator' has the invalid version '.*'. Write a semantic version"):
        Toolkit("Calculator", version=version)


def test_a_lambda_is_refused() -> None:
    assert refusal(lambda: 1) == "A lambda has no name. Use a def, or pass name=."


def test_value_that_is_no_function_is_refused() -> None:
    kit: Any = Toolkit("Calculator")
    with pytest.raises(DefinitionError, match=r"'plus' is not a function\. Pass options by name"):
        kit.tool("plus")


def test_partial_takes_name_and_description_from_its_function() -> None:
    described = Toolkit("Calculator").add(functools.partial(add, 1)).tool
    assert (described.name, described.description, [*described.parameters]) == ("add", "Add two numbers.", ["b"])


def test_callable_object_takes_name_and_description_from_its_class() -> None:
    class Greeter:
        """Greets people."""

        def __call__(self, name: str) -> str:
            return f"Hello {name}"

    function = Toolkit("Calculator").add(Greeter())
    assert (function.tool.name, function.tool.description, [*function.tool.parameters]) == (
        "Greeter",
        "Greets people.",
        ["name"],
    )
    assert function.call(name="Ada") == "Hello Ada"


def test_bound_method_is_a_tool_without_self() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def up(self, by: int = 1) -> int:
            """Count up."""
            self.count += by
            return self.count

    counter = Counter()
    function = Toolkit("Calculator").add(counter.up)
    assert [*function.tool.parameters] == ["by"]
    assert (function.call(by=2), counter.count) == (2, 2)


@pytest.mark.requirement("XL-040")
def test_undeclared_approval_stays_undeclared() -> None:
    assert (tool().approval, tool().safe) == (None, False)


@pytest.mark.parametrize(
    ("options", "safe"),
    [
        ({"approval": "auto"}, True),
        ({"approval": "per-call"}, False),
        ({"approval": "auto", "destructive": True}, False),
        ({"approval": "auto", "safe": False}, False),
        ({"safe": True}, True),
        ({"safe": None, "approval": Approval.AUTO}, True),
    ],
)
def test_tool_is_safe_if_declared_or_if_auto_approved_and_not_destructive(options: dict[str, Any], safe: bool) -> None:
    assert tool(**options).safe is safe


def test_every_option_is_set_on_the_tool() -> None:
    options: dict[str, Any] = {
        "name": "plus",
        "description": "Adds.",
        "version": "1.2.3",
        "approval": Approval.PER_CALL,
        "blanket_allowed": True,
        "destructive": True,
        "idempotent": True,
        "safe": False,
        "hint": "Say the sum.",
        "cost": Cost.PAID,
        "rate_limit": RateLimit(max=3, window="1m"),
        "requirements": Requirements(secrets=("KEY",)),
        "timeout_s": 2.5,
        "deprecated": True,
        "output_name": "sum",
        "hints": {"openapi": {"path": "/plus"}},
    }
    made = tool(**options)
    assert {key: getattr(made, key) for key in options} == options


@pytest.mark.parametrize("limit", ["3/1m", (3, "1m"), {"max": 3, "window": "1m"}, RateLimit(max=3, window="1m")])
def test_rate_limit_option_accepts_four_notations(limit: Any) -> None:
    assert tool(rate_limit=limit).rate_limit == RateLimit(max=3, window="1m")


def test_approval_and_cost_options_accept_text() -> None:
    made = tool(approval="per-call", cost="credits", rate_limit=None, timeout_s=None)
    assert (made.approval, made.cost) == (Approval.PER_CALL, Cost.CREDITS)


@pytest.mark.parametrize("none", [{"approval": None}, {"cost": None}])
def test_option_with_value_none_stays_undeclared(none: dict[str, None]) -> None:
    assert tool(**none) == tool()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"annotations": {}}, "add() has no option 'annotations'. Write approval='auto' for readOnlyHint"),
        ({"aproval": "auto"}, "add() has no option 'aproval'. Did you mean 'approval'? Options: name, description,"),
        ({"destructive": "yes"}, "add(): the option 'destructive' must be bool, not 'yes'."),
        ({"timeout_s": True}, "add(): the option 'timeout_s' must be int or float, not True."),
        ({"name": 7}, "7(): the option 'name' must be str, not 7."),
        ({"requirements": {}}, "add(): the option 'requirements' must be Requirements, not {}."),
        ({"approval": "always"}, 'add(): approval must be "auto" or "per-call", not \'always\'.'),
        ({"approval": Approval.DENY}, 'add(): approval must be "auto" or "per-call", not \'deny\'.'),
        ({"cost": "cheap"}, 'add(): cost must be "free", "credits" or "paid", not \'cheap\'.'),
        ({"rate_limit": (0, "1m")}, "add(): a rate limit's max must be an integer"),
        ({"rate_limit": (1, "soon")}, "add(): a rate limit's window must be written like"),
        ({"rate_limit": (1,)}, "add(): "),
        ({"rate_limit": (1, 60)}, 'add(): a rate limit must be "60/1m" or (60, "1m"), not'),
        ({"rate_limit": "60"}, 'add(): a rate must be written as calls and a window, such as "60/1m", not'),
        ({"rate_limit": {"max": 1}}, 'add(): a rate limit must be "60/1m" or (60, "1m"), not'),
        ({"rate_limit": {1: 2}}, 'add(): a rate limit must be "60/1m" or (60, "1m"), not'),
        (
            {"scopes": ["read mail"]},
            ("add(): a scope must be a word without spaces, such as \"mail.read\", not 'read mail'."),
        ),
        ({"scopes": [7]}, "add(): a scope must be a word"),
        ({"timeout_s": 0}, "add(): timeout_s must be a number of seconds above 0, not 0."),
        ({"timeout_s": float("inf")}, "add(): timeout_s must be a number of seconds above 0, not inf."),
        ({"output_name": ""}, "add(): the option 'output_name' is empty"),
        ({"safe": True, "destructive": True}, "add() cannot be both safe and destructive"),
    ],
)
def test_invalid_option_is_refused_by_name(options: dict[str, Any], sentence: str) -> None:
    assert refusal(add, **options).startswith(sentence)


def test_a_quick_sync_function_may_be_declared_to_run_inline() -> None:
    assert Toolkit("Calculator").add(add, inline=True).inline
    assert not Toolkit("Calculator").add(add).inline


def test_inline_is_refused_for_an_async_function() -> None:
    async def wait() -> None: ...

    assert refusal(wait, inline=True) == "wait() is async and always runs on the event loop. Leave out inline."


def test_importing_define_loads_neither_pydantic_nor_the_docstring_parser() -> None:
    script = (
        "import sys, toolwire.define; print({'pydantic', 'pydantic_core', 'docstring_parser'} & sys.modules.keys())"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert run.stdout.strip() == "set()"


@pytest.mark.parametrize("said", [{"title": 5}, {"title": "K", "version": 1.0}, {"title": "K", "description": 5}])
def test_toolkit_title_and_description_must_be_text(said: Any) -> None:
    with pytest.raises(DefinitionError, match="of a toolkit must be a string, not"):
        Toolkit(**said)


@pytest.mark.requirement("A-47", "OXP-007")
def test_names_with_the_same_id_spelling_are_refused_in_any_version() -> None:
    kit = Toolkit("K")
    kit.add(lambda: 1, name="my-tool", version="3.0.0")
    kit.add(lambda: 1, name="my-tool", version="4.0.0")
    with pytest.raises(DefinitionError, match=r"would both be K\.my_tool in IDs"):
        kit.add(lambda: 1, name="my_tool", version="2.0.0")
