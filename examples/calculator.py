"""The smallest tool there is: ``toolwire serve examples/calculator.py``."""

from toolwire import Toolkit

calculator = Toolkit("Calculator", version="1.0.0", description="Arithmetic.")


@calculator.tool(approval="auto")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
