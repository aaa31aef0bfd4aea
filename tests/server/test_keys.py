"""Callers told apart by API keys."""

import asyncio
import sys
from typing import Any

import pytest

from toolwire.core.errors import DefinitionError
from toolwire.core.model import Kind, Problem, Secret
from toolwire.server.access.api_keys import ApiKey, ApiKeyCallers
from toolwire.server.access.callers import ANONYMOUS_CALLER, Caller


@pytest.mark.requirement("OXP-012")
def test_every_caller_is_anonymous_without_keys() -> None:
    keys = ApiKeyCallers(())
    assert not keys.needs_credentials
    assert keys.find_caller({b"authorization": b"Bearer whatever"}) is ANONYMOUS_CALLER


@pytest.mark.requirement("OXP-012")
@pytest.mark.parametrize("key", [b"K", b"other"])
def test_verify_returns_the_same_caller_as_find_caller(key: bytes) -> None:
    keys = ApiKeyCallers(["K"])
    known = keys.find_caller({b"x-api-key": key})
    assert asyncio.run(keys.verify({b"x-api-key": key})) == known
    assert isinstance(known, Caller) is (key == b"K")


@pytest.mark.requirement("S-7")
@pytest.mark.parametrize(
    "fields",
    [
        {b"authorization": b"Bearer K1"},
        {b"authorization": b"bearer  K1 "},
        {b"authorization": b"K1"},
        {b"x-api-key": b"K1"},
        {b"oxp-api-key": b"K1"},
    ],
)
def test_api_key_is_read_from_each_usual_header(fields: dict[bytes, bytes]) -> None:
    caller = ApiKeyCallers(["K0", "K1"]).find_caller(fields)
    assert isinstance(caller, Caller)
    assert caller.name.startswith("key-")
    assert "K1" not in caller.name


@pytest.mark.requirement("S-7", "D-27")
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"authorization": b""},
        {b"authorization": b"Bearer "},
        {b"authorization": b"Bearer K2"},
        {b"authorization": b"Basic K1"},
        {b"authorization": b"Bearer K1 K1"},
        {b"x-api-key": b"k1"},
        {b"x-api-key": b""},
        {b"x-api-key": b"\xff"},
        {b"authorization": b"wrong", b"x-api-key": b"K1"},
    ],
)
def test_missing_or_wrong_key_is_refused_without_repeating_it(fields: dict[bytes, bytes]) -> None:
    keys = ApiKeyCallers(["K1"])
    problem = keys.find_caller(fields)
    assert isinstance(problem, Problem)
    assert problem.kind is Kind.UNAUTHORIZED
    assert "K2" not in problem.message
    assert "K1" not in repr(vars(keys))


@pytest.mark.requirement("S-7")
def test_caller_without_a_key_is_told_how_to_send_one() -> None:
    keys = ApiKeyCallers(["K1"])
    missing, wrong = keys.find_caller({}), keys.find_caller({b"x-api-key": b"K2"})
    assert isinstance(missing, Problem)
    assert isinstance(wrong, Problem)
    assert "X-API-Key" in missing.message
    assert "does not accept" in wrong.message


def test_different_keys_are_different_principals() -> None:
    keys = ApiKeyCallers(["K1", "K2"])
    assert keys.find_caller({b"x-api-key": b"K1"}) != keys.find_caller({b"x-api-key": b"K2"})


@pytest.mark.requirement("P-08")
def test_a_key_among_many_is_found_in_as_many_steps_as_among_few() -> None:
    def count_calls(number: int) -> int:
        keys = ApiKeyCallers([f"K{n}" for n in range(number)])
        fields = {b"x-api-key": b"K%d" % (number - 1)}
        counted = 0

        def count(_frame: object, event: str, _arg: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            found = keys.find_caller(fields)
        finally:
            sys.setprofile(None)
        assert isinstance(found, Caller)
        return counted

    assert count_calls(10_000) == count_calls(10)


@pytest.mark.parametrize("keys", ["secret-word", b"secret-word", Secret("secret-word"), ApiKey(key=Secret("a"))])
def test_one_key_in_place_of_a_list_is_refused_and_not_repeated(keys: Any) -> None:
    with pytest.raises(DefinitionError) as refused:
        ApiKeyCallers(keys)
    assert str(refused.value) == "Server keys must be a list: write api_keys=[KEY]."


@pytest.mark.parametrize("keys", [[""], ["good", " "], [None], [b"secret-word"]])
def test_key_that_opens_nothing_or_everything_is_refused(keys: Any) -> None:
    with pytest.raises(DefinitionError) as refused:
        ApiKeyCallers(keys)
    assert str(refused.value) == "A server key must be a non-empty string or an ApiKey."
