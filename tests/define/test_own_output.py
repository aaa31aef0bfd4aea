"""What a tool returns meets the schema that it declares, for every Python type, as validators with formats judge it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import ipaddress
import json
import pathlib
import re
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NewType, TypedDict

import jsonschema_rs
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolwire import Toolkit, Value
from toolwire.core.model import Tool
from toolwire.protocols.mcp import document, result
from toolwire.protocols.mcp.output_schema import build_output_form

AJV_FORMATS = frozenset(
    {
        *("date", "time", "date-time", "iso-time", "iso-date-time", "duration", "uri", "uri-reference", "uri-template"),
        *("url", "email", "hostname", "ipv4", "ipv6", "regex", "uuid", "json-pointer", "relative-json-pointer"),
        *("json-pointer-uri-fragment", "byte", "int32", "int64", "float", "double", "password", "binary"),
    }
)
"""The formats ajv-formats knows: the TypeScript SDK and the Inspector of MCP check with it, and warn of others."""


class Colour(enum.Enum):
    RED = "red"
    NAVY = "navy"


@dataclasses.dataclass
class Stay:
    begins: dt.datetime
    lasts: dt.timedelta
    wakes: dt.time | None
    at: ipaddress.IPv6Address


class Booking(pydantic.BaseModel):
    key: uuid.UUID
    stays: dict[str, Stay]
    paid: decimal.Decimal
    ticket: bytes


class Row(TypedDict):
    when: dt.datetime
    took: dt.timedelta


Named = NewType("Named", dt.timedelta)

offsets = st.timedeltas(min_value=dt.timedelta(hours=-23), max_value=dt.timedelta(hours=23)).map(dt.timezone)
times = st.times(timezones=st.none() | offsets)
datetimes = st.datetimes(timezones=st.none() | offsets)
durations = st.timedeltas() | st.sampled_from(
    [dt.timedelta(hours=1, seconds=5), dt.timedelta(days=-1, microseconds=1), dt.timedelta(milliseconds=1500)]
)
texts = st.text()
urls = st.sampled_from(["https://a.example/x?q={y}|^`", "http://bücher.example/ü#ä b", "https://a.example"])
stays = st.builds(Stay, datetimes, durations, st.none() | times, st.ip_addresses(v=6))

TYPES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "int": (int, st.integers()),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False)),
    "str": (str, texts),
    "bool": (bool, st.booleans()),
    "nothing": (None, st.none()),
    "any": (Any, st.none() | texts | st.lists(st.integers())),
    "date": (dt.date, st.dates()),
    "datetime": (dt.datetime, datetimes),
    "aware datetime": (pydantic.AwareDatetime, st.datetimes(timezones=offsets)),
    "naive datetime": (pydantic.NaiveDatetime, st.datetimes()),
    "time": (dt.time, times),
    "timedelta": (dt.timedelta, durations),
    "timedelta or nothing": (dt.timedelta | None, durations | st.none()),
    "named timedelta": (Named, durations),
    "times by time": (dict[dt.datetime, dt.timedelta], st.dictionaries(datetimes, durations, max_size=3)),
    "uuid": (uuid.UUID, st.uuids()),
    "uuid4": (pydantic.UUID4, st.uuids(version=4)),
    "decimal": (decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "fraction": (fractions.Fraction, st.fractions()),
    "complex": (complex, st.complex_numbers(allow_nan=False, allow_infinity=False)),
    "bytes": (bytes, st.binary(max_size=40)),
    "short bytes": (Annotated[bytes, pydantic.Field(min_length=1, max_length=3)], st.binary(min_size=1, max_size=3)),
    "ipv4": (ipaddress.IPv4Address, st.ip_addresses(v=4)),
    "ipv6": (ipaddress.IPv6Address, st.ip_addresses(v=6) | st.just(ipaddress.ip_address("fe80::1%eth0"))),
    "ipv4 network": (ipaddress.IPv4Network, st.ip_addresses(v=4).map(ipaddress.ip_network)),
    "ipv6 network": (ipaddress.IPv6Network, st.ip_addresses(v=6).map(ipaddress.ip_network)),
    "ipv4 interface": (ipaddress.IPv4Interface, st.ip_addresses(v=4).map(ipaddress.ip_interface)),
    "ipv6 interface": (ipaddress.IPv6Interface, st.ip_addresses(v=6).map(ipaddress.ip_interface)),
    "path": (pathlib.Path, st.sampled_from(["a/b", "/", "ü.txt"]).map(pathlib.Path)),
    "pattern": (re.Pattern[str], st.sampled_from([r"(?P<a>b)(?P=a)", r"\Ab\Z", "(?i:a)"]).map(re.compile)),
    "url": (pydantic.AnyUrl, urls.map(pydantic.AnyUrl)),
    "http url": (pydantic.HttpUrl, urls.map(pydantic.HttpUrl)),
    "dsn": (pydantic.PostgresDsn, st.just(pydantic.PostgresDsn("postgres://u:p@a:1,b:2/x"))),
    "secret": (pydantic.SecretStr, texts.map(pydantic.SecretStr)),
    "secret bytes": (pydantic.SecretBytes, st.binary().map(pydantic.SecretBytes)),
    "json": (pydantic.Json[list[int]], st.lists(st.integers())),
    "size": (pydantic.ByteSize, st.integers(min_value=0).map(pydantic.ByteSize)),
    "list": (list[dt.timedelta], st.lists(durations, max_size=3)),
    "tuple": (tuple[dt.time, bytes], st.tuples(times, st.binary())),
    "set": (set[int], st.sets(st.integers())),
    "frozenset": (frozenset[uuid.UUID], st.frozensets(st.uuids(), max_size=3)),
    "enum": (Colour, st.sampled_from(Colour)),
    "literal": (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    "union": (dt.timedelta | ipaddress.IPv4Network | int, durations | st.integers()),
    "dataclass": (Stay, stays),
    "typed dict": (Row, st.fixed_dictionaries({"when": datetimes, "took": durations})),
    "model": (
        Booking,
        st.builds(
            Booking,
            key=st.uuids(),
            stays=st.dictionaries(texts, stays, max_size=2),
            paid=st.decimals(allow_nan=False, allow_infinity=False),
            ticket=st.text().map(str.encode),
        ),
    ),
}
PLAIN_TEXTS = frozenset(
    {
        *(
            "str",
            "datetime",
            "naive datetime",
            "time",
            "timedelta",
            "named timedelta",
            "decimal",
            "fraction",
            "complex",
        ),
        *("ipv6", "ipv4 network", "ipv6 network", "ipv4 interface", "ipv6 interface", "path", "pattern"),
    }
)
"""The types whose schema says that a value is a text, and nothing more."""


def formats(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("format"), str):
            yield schema["format"]
        for inner in schema.values():
            yield from formats(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from formats(inner)


def define_returning(annotation: Any) -> Any:
    def give() -> Any: ...

    give.__annotations__["return"] = annotation
    return Toolkit("Types").add(give)


@pytest.mark.requirement("OTC-012", "I-05")
@pytest.mark.parametrize("name", TYPES)
def test_result_matches_the_declared_output_schema(name: str) -> None:
    annotation, values = TYPES[name]
    function = define_returning(annotation)
    tool: Tool = function.tool
    if tool.output_schema is None:
        assert function.write(None) == Value(None)
        return
    (listed,) = document.write(document.Catalog(tools=(tool,)))
    (remote_tool,) = document.read({}, "", [listed]).catalog.tools
    form = build_output_form(tool)
    # What has no more to it than a text is not listed: it goes as text alone.
    is_listed = "outputSchema" in listed
    assert is_listed is not (name in PLAIN_TEXTS)
    schema: Any = listed["outputSchema"] if is_listed else dict(tool.output_schema)
    checks = jsonschema_rs.Draft202012Validator(schema, validate_formats=True)
    assert set(formats(schema)) <= AJV_FORMATS

    @settings(max_examples=60)
    @given(values)
    def meets(value: Any) -> None:
        written = function.write(value)
        assert isinstance(written, Value), written
        sent = json.loads(result.write_value(b"1", form, written.value, b"}}"))["result"]
        assert sent["isError"] is False
        assert ("structuredContent" in sent) is is_listed
        promised = sent["structuredContent"] if is_listed else sent["content"][0]["text"]
        faults = [fault.message for fault in checks.iter_errors(promised)]
        assert not faults, (value, written.value)
        assert result.read(remote_tool, sent) == written

    meets()


@pytest.mark.parametrize("name", TYPES)
def test_input_schema_uses_only_formats_known_to_validators(name: str) -> None:
    def take(value: Any) -> None: ...

    take.__annotations__["value"] = TYPES[name][0]
    assert set(formats(Toolkit("Types").add(take).tool.input_schema)) <= AJV_FORMATS


@pytest.mark.requirement("I-05")
def test_naive_datetime_and_time_have_no_format_in_the_schema() -> None:
    def take(value: pydantic.NaiveDatetime, at: dt.time) -> None: ...

    function = Toolkit("Types").add(take)
    assert set(formats(function.tool.input_schema)) == set()
    assert function.read({"value": "2020-01-01T00:00:00", "at": "10:00"}) == {
        "value": dt.datetime(2020, 1, 1),
        "at": dt.time(10),
    }


@pytest.mark.requirement("I-05", "FU-62")
def test_only_a_result_that_always_has_an_offset_is_a_date_time() -> None:
    def aware() -> pydantic.AwareDatetime: ...
    def either() -> dt.datetime: ...

    kit = Toolkit("Types")
    assert kit.add(aware).tool.output_schema == {"type": "string", "format": "date-time"}
    assert kit.add(either).tool.output_schema == {"type": "string"}


def test_tool_without_docstring_gets_no_generated_description() -> None:
    def nodoc(n: int, when: dt.date) -> int:
        return n

    tool = Toolkit("Types").add(nodoc).tool
    assert tool.description == ""
    assert "description" not in json.dumps(tool.input_schema)
    (listed,) = document.write(document.Catalog(tools=(tool,)))
    assert not listed.get("description")
    assert "title" not in listed["annotations"]
