"""The character set a body claims: JSON is UTF-8, and a body that says otherwise is not read as if it were."""

import pytest

from toolwire.core.http import Request
from toolwire.core.model import Kind, Problem
from toolwire.framing import jsontext


def read(content_type: bytes) -> object:
    return jsontext.read_object(Request("POST", "/", ((b"content-type", content_type),), b"{}"))


@pytest.mark.parametrize("content_type", [b"application/json; charset=utf-8", b'Application/JSON;charset="UTF-8"'])
def test_charset_utf_8_is_accepted(content_type: bytes) -> None:
    assert read(content_type) == {}


@pytest.mark.parametrize("content_type", [b"application/json;charset=utf-16", b"application/json; charset=latin-1"])
def test_other_charsets_are_refused(content_type: bytes) -> None:
    problem = read(content_type)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.UNSUPPORTED_TYPE
