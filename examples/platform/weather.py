"""An upstream that the gateway knows by a document in a file."""

from __future__ import annotations

from toolwire import Toolkit

weather = Toolkit("Weather")


@weather.tool(safe=True, approval="auto")
def tell_weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"It rains in {city}."
