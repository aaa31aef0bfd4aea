"""A wallet whose server asks before a large payment and before a payment is deleted: ``toolwire serve wallet.py``."""

from toolwire import ToolError, Toolkit

wallet = Toolkit("Wallet", version="1.0.0", description="Payments of one person.")
payments: dict[int, tuple[str, float]] = {}


@wallet.tool(approval="auto")
def list_payments() -> list[str]:
    """List the payments."""
    return [f"{number}: {amount:g} to {to}" for number, (to, amount) in payments.items()]


@wallet.tool(
    approval="auto",
    safe=False,
    blanket_allowed=True,
    ask_when=[("/amount", "gt", 50)],
    question="Pay {/amount} to {/to}?",
)
def pay(to: str, amount: float) -> int:
    """Pay somebody, and return the number of the payment.

    Args:
        to: Who gets the money.
        amount: How much. Above 50, the user is asked.
    """
    number = len(payments) + 1
    payments[number] = (to, amount)
    return number


@wallet.tool(approval="per-call", destructive=True)
def delete_payment(number: int) -> None:
    """Delete a payment.

    Args:
        number: The number of the payment.
    """
    if payments.pop(number, None) is None:
        raise ToolError(f"There is no payment {number}.", additional_prompt_content="Call list_payments first.")
