"""What the project promises: versions, support, and how to report."""

import re
import tomllib

import pytest

from .page import ROOT

pytestmark = pytest.mark.requirement("FD-11")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_of_the_package_is_supported() -> None:
    minor = ".".join(PROJECT["version"].split(".")[:2])
    assert f"| {minor}.x" in (ROOT / "SECURITY.md").read_text()


def test_the_promised_python_is_the_one_of_the_package() -> None:
    least = PROJECT["requires-python"].removeprefix(">=")
    assert f"from {least} on" in (ROOT / "VERSIONING.md").read_text()


def test_the_policy_names_every_topic() -> None:
    headings = re.findall("^## (.+)", (ROOT / "VERSIONING.md").read_text(), re.MULTILINE)
    assert headings == ["Version numbers", "Deprecation", "Support", "Roadmap"]


@pytest.mark.parametrize("name", ["fault", "idea"])
def test_templates_of_issues_have_a_name_and_a_purpose(name: str) -> None:
    _, front, text = (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.md").read_text().split("---\n")
    assert re.fullmatch("name: .+\nabout: .+\n", front)
    assert text.count("**") >= 6


def test_the_template_of_pull_requests_asks_for_a_test_and_the_checks() -> None:
    text = (ROOT / ".github" / "pull_request_template.md").read_text()
    assert "- [ ] A test fails without this change." in text
    assert "make check" in text
