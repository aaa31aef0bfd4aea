"""What people wrote about a function reaches whoever reads the tool; nothing is made up where nobody wrote."""

from typing import Annotated, Any

import pytest
from pydantic import Field

from toolwire.core.catalog import Catalog
from toolwire.core.model import Tool
from toolwire.define import Toolkit
from toolwire.protocols.opentool import document as opentool
from toolwire.protocols.otc import definition


def tool(function: Any, **options: Any) -> Tool:
    return Toolkit("Kit").add(function, **options).tool


def google(city: str, days: int = 1) -> str:
    """Forecast the weather.

    Rain and sun,
    day by day.

    Args:
        city: Where,
            in plain words.
        days (int): How long.

    Returns:
        One line a day.

    Raises:
        KeyError: no such city.
    """
    return city * days


def numpy(city: str, days: int = 1) -> str:
    """Forecast the weather.

    Rain and sun,
    day by day.

    Parameters
    ----------
    city : str
        Where,
        in plain words.
    days : int
        How long.

    Returns
    -------
    str
        One line a day.
    """
    return city * days


def rest(city: str, days: int = 1) -> str:
    """Forecast the weather.

    Rain and sun,
    day by day.

    :param city: Where,
        in plain words.
    :param int days: How long.
    :returns: One line a day.
    """
    return city * days


@pytest.mark.requirement("OTC-004", "OTC-011", "OT-012", "OT-016")
@pytest.mark.parametrize("function", [google, numpy, rest])
def test_three_styles_of_docstring_say_the_same(function: Any) -> None:
    made = tool(function)
    assert made.description == "Forecast the weather.\n\nRain and sun,\nday by day."
    assert {name: schema["description"] for name, schema in made.parameters.items()} == {
        "city": "Where, in plain words.",
        "days": "How long.",
    }
    assert made.output_schema == {"type": "string", "description": "One line a day."}


def test_numpy_may_describe_two_parameters_at_once() -> None:
    def area(width: int, height: int) -> int:
        """Measure.

        Parameters
        ----------
        width, height : int
            In metres.
        """
        return width * height

    assert [schema["description"] for schema in tool(area).parameters.values()] == ["In metres.", "In metres."]


@pytest.mark.requirement("OTC-004", "OTC-011", "OT-012", "FU-06")
def test_missing_docstring_gives_no_description_unless_a_protocol_requires_one() -> None:
    def search_web_pages(max_results: int, _: str) -> Any: ...

    made = tool(search_web_pages)
    assert made.description == ""
    assert not any("description" in schema for schema in made.parameters.values())
    (function,) = opentool.write(Catalog(tools=(made,)))["functions"]
    assert function["description"]
    defined = definition.write(made, made.name)
    assert defined["description"]
    assert all(schema["description"] for schema in defined["input_schema"]["properties"].values())


def test_an_option_wins_over_the_docstring() -> None:
    assert tool(google, description=" Tells the weather. ").description == "Tells the weather."


def test_empty_description_option_keeps_the_docstring() -> None:
    assert tool(google, description="  ").description.startswith("Forecast")


def test_a_field_wins_over_the_docstring() -> None:
    def greet(name: Annotated[str, Field(description="Whom.")], mood: Annotated[str, Field(description="")]) -> Any:
        """Greet.

        Args:
            name: Somebody.
            mood: How.
        """

    assert [schema["description"] for schema in tool(greet).parameters.values()] == ["Whom.", "How."]


def test_unparsable_docstring_becomes_the_whole_description() -> None:
    def odd() -> None: ...

    odd.__doc__ = "Odd:\n:   : text"
    assert tool(odd).description == "Odd:\n:   : text"


def test_result_of_type_any_has_an_empty_schema_despite_the_docstring() -> None:
    def page() -> Any:
        """Get it.

        Returns:
            The page.
        """

    assert tool(page).output_schema == {}
