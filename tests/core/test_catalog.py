"""Which tool a reference means, and what a catalog refuses to hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolwire.core.catalog import Catalog, build_toolkit_name, make_version_key
from toolwire.core.model import Kind, Problem, Tool


def tool(name: str, version: str = "1.0.0", toolkit: str = "Kit") -> Tool:
    return Tool(name=name, toolkit=toolkit, version=version)


def message(found: Tool | Problem) -> str:
    assert isinstance(found, Problem)
    assert found.kind is Kind.UNKNOWN_TOOL
    return found.message


@pytest.mark.requirement("A-51", "XL-087")
def test_catalog_sorts_tools_by_name_then_by_numeric_version() -> None:
    catalog = Catalog(tools=(tool("b"), tool("a", "10.0.0"), tool("a", "9.0.0"), tool("z", toolkit="Art")))
    assert [each.id for each in catalog.tools] == ["Art.z@1.0.0", "Kit.a@9.0.0", "Kit.a@10.0.0", "Kit.b@1.0.0"]


@pytest.mark.requirement("OXP-007", "OTC-025", "OTC-006", "A-38")
@pytest.mark.parametrize(
    ("reference", "version"),
    [
        ("Kit.a", "10.0.0"),
        ("a", "10.0.0"),
        ("Kit.a@10.0.0", "10.0.0"),
        ("Kit.a@9", "9.0.0"),
        ("a@9", "9.0.0"),
        ("a@9.0.1", "9.0.1"),
    ],
)
def test_a_version_is_exact_or_a_major_or_the_newest(reference: str, version: str) -> None:
    found = Catalog(tools=(tool("a", "9.0.0"), tool("a", "10.0.0"), tool("a", "9.0.1"))).find(reference)
    assert isinstance(found, Tool)
    assert found.version == version


@pytest.mark.requirement("A-38")
@pytest.mark.parametrize("reference", ["a@8", "a@1.0", "a@v9", "a@-1", "a@", "@9", "a@9.0.0@9.0.0", "A", "a ", ""])
def test_lookup_without_a_matching_version_fails(reference: str) -> None:
    assert message(Catalog(tools=(tool("a", "9.0.0"),)).find(reference))


def test_name_shared_by_two_toolkits_is_found_only_with_its_toolkit() -> None:
    catalog = Catalog(tools=(tool("a", toolkit="One"), tool("a", toolkit="Two"), tool("b", toolkit="Two")))
    assert sorted(catalog.names) == ["One_a", "Two_a", "b"]
    assert "One.a@1.0.0, Two.a@1.0.0" in message(catalog.find("a"))
    assert catalog.find("Two_a@1") is catalog.find("Two.a")


def test_lookup_accepts_dash_or_underscore_in_a_name() -> None:
    catalog = Catalog(tools=(tool("get-it"),))
    assert catalog.find("Kit.get_it@1.0.0") is catalog.find("Kit.get-it") is catalog.find("get-it")


@pytest.mark.requirement("OTC-002")
def test_two_tools_cannot_share_an_id() -> None:
    with pytest.raises(ValueError, match=r"Kit\.a_b@1\.0\.0"):
        Catalog(tools=(tool("a_b"), tool("a-b")))


def test_two_tools_cannot_share_a_unique_name() -> None:
    with pytest.raises(ValueError, match="two tools have the name 'A_x'"):
        Catalog(tools=(tool("x", toolkit="A"), tool("x", toolkit="B"), tool("A_x", toolkit="C")))


def test_lookup_of_unknown_tool_lists_the_known_tools() -> None:
    assert message(Catalog(tools=(tool("a"),)).find("b")).endswith("Available tools: a.")
    assert message(Catalog(tools=(tool("a"),)).find("Kit.b")).endswith("Available tools: Kit.a@1.0.0.")
    assert message(Catalog().find("b")).endswith("Available tools: none.")
    many = message(Catalog(tools=tuple(tool(f"t{number}") for number in range(30))).find("b"))
    assert len(many.partition("tools: ")[2].split(", ")) == 20
    assert many.endswith(" and 10 more.")


def test_error_message_shortens_a_long_reference() -> None:
    assert len(message(Catalog().find("x" * 100_000))) < 400


@given(st.text(max_size=40))
def test_lookup_of_any_text_returns_a_tool_or_unknown_tool(reference: str) -> None:
    found = Catalog(tools=(tool("a"), tool("b", "2.0.0"))).find(reference)
    assert isinstance(found, Tool) or found.kind is Kind.UNKNOWN_TOOL


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_version_can_be_compared(one: str, other: str) -> None:
    assert (make_version_key(one) < make_version_key(other)) in (True, False)


def test_a_version_of_thousands_of_digits_is_no_number() -> None:
    assert make_version_key("1." + "9" * 5_000) == make_version_key("1.0")


@pytest.mark.requirement("OXP-006")
@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Calculator", "Calculator"),
        ("My own tools!", "My_own_tools"),
        ("é", "e"),
        ("工具", "Tools_5ca673"),
        ("", "Tools"),
        ("a-b", "a_b"),
    ],
)
def test_a_title_becomes_letters_digits_and_underscores(title: str, name: str) -> None:
    assert build_toolkit_name(title) == name


@pytest.mark.requirement("A-38", "OXP-007", "I-30")
def test_lookup_prefers_the_exact_name_to_the_same_name_with_dashes() -> None:
    tools = (Tool(name="my-tool", toolkit="K", version="3.0.0"), Tool(name="my_tool", toolkit="K", version="2.0.0"))
    catalog = Catalog(tools=tools)
    assert catalog.find("K.my-tool") is tools[0]
    assert catalog.find("K.my_tool") is tools[1]
    assert catalog.find("K.my_tool@3") is tools[0]


@pytest.mark.requirement("SE-01", "OTC-005")
def test_versions_have_the_precedence_of_semver() -> None:
    """The order of the example in section 11 of SemVer 2.0.0."""
    ascending = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2"]
    ascending += ["1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"]
    assert sorted(set(ascending), key=make_version_key) == ascending
    assert make_version_key("1.0.0+a") == make_version_key("1.0.0+b") == make_version_key("1.0.0")
    catalog = Catalog(tools=tuple(tool("add", version) for version in reversed(ascending)))
    assert [one.version for one in catalog.tools] == ascending
    assert message(catalog.find("Kit.add@2")).endswith(
        f"Available versions: {', '.join(one.id for one in catalog.tools)}."
    )
    for reference, version in (("add", "1.0.0"), ("add@1", "1.0.0"), ("Kit.add@1.0.0-beta.2", "1.0.0-beta.2")):
        found = catalog.find(reference)
        assert isinstance(found, Tool)
        assert found.version == version


@pytest.mark.requirement("SE-01")
def test_a_build_is_found_without_its_build_metadata() -> None:
    catalog = Catalog(tools=(tool("add", "1.0.0+build.5"), tool("sub", "1.0.0-rc.1")))
    for reference in ("add@1", "add@1.0.0", "add@1.0.0+build.5"):
        assert catalog.find(reference) is catalog.tools[0]
    assert message(catalog.find("sub@1")).startswith("'sub@1' was not found.")


@pytest.mark.requirement("I-30")
def test_a_tool_with_exactly_the_requested_name_is_found_first() -> None:
    tools = (
        Tool(name="users_list", toolkit="api", version="9.0.0"),
        Tool(name="list", toolkit="K", original_name="api_users_list"),
    )
    assert Catalog(tools=tools).find("api_users_list") is tools[1]
