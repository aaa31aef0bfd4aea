"""An account at the sample RecipeApp."""

from __future__ import annotations

from typing import Any


def sign_up(page: Any, site: str, name: str) -> None:
    page.goto(site)
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("link", name="Make an account").click()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill("correct horse")
    page.get_by_role("button", name="Make the account").click()
    page.get_by_role("heading", name="Your recipes").wait_for()
