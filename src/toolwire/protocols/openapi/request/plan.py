"""How one operation is called: worked out once when a document is read, followed for each call.

Rules:
- Whoever reads documents fills a Plan; whoever writes requests and reads responses only follows it.
- No argument can choose the server: its variables are fixed here. [D-07]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from toolwire.core.model import Json

ACCEPT = "application/json, */*;q=0.1"


class Place(StrEnum):
    """Where in a request a parameter goes. ``QUERYSTRING`` is the whole query as one value (OpenAPI 3.2)."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"
    QUERYSTRING = "querystring"


class Parameter(NamedTuple):
    """How one parameter is written. ``style`` is one of OpenAPI's, or ``content`` for JSON and ``text`` for text.

    ``media_type`` is that of a parameter with ``content``; it decides where it is not empty. ``encodings`` say how the
    properties of one that is a form are written. ``separators`` stand between the items of an array and of the arrays
    in it, one for each level, where Swagger 2.0 declares them: ``""`` repeats the name instead.
    """

    name: str
    place: Place
    style: str
    explode: bool = False
    reserved: bool = False
    media_type: str = ""
    encodings: Mapping[str, Encoding] | None = None
    separators: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How one property of a form or multipart body is written: OpenAPI's Encoding Object, read.

    ``media_type`` is its contentType (the first, if a list), empty where none is declared: the value then decides.
    ``style`` is empty unless style, explode or allowReserved are declared. ``binary`` says that the property (or each
    item of it) is a file: base64 text, or a handle of the host. ``headers`` are fields of its part with fixed values
    (const, a single enum member, or default of the declared header). ``separators`` are those of a Parameter.
    """

    media_type: str = ""
    style: str = ""
    explode: bool = True
    reserved: bool = False
    binary: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    separators: tuple[str, ...] = ()


PLAIN = Encoding()
"""The encoding of a property about which nothing is declared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One security scheme that an operation asks for, with the scopes it asks for.

    ``kind`` is OpenAPI's type: apiKey, http, oauth2, openIdConnect, mutualTLS. ``place`` and ``name`` are those of
    an API key; ``scheme`` is that of http, in lower case.
    """

    id: str
    kind: str
    place: Place | None = None
    name: str = ""
    scheme: str = ""
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one tool is called.

    ``base`` is the server URL with its variables filled in and no slash at its end; it may be on another origin than
    the document, and is then called only if the person allowed that origin by name. ``path`` is the template as
    declared, ``fixed_query`` what stood after a question mark in it. ``server`` and ``server_variables`` are what
    ``base`` was made of, to show.

    ``parameters`` go from argument to parameter. The body is nothing where ``media_type`` is None; else it is the
    argument ``whole_body``, or made of ``properties`` (argument to body property), each written by its entry in
    ``encodings`` (by property; form and multipart only). ``binary`` says that the whole body is a file.

    Where ``takes_more`` is true an argument of any other name is a property of the body under that name; else it is
    refused. ``names`` are those of all others.

    ``idempotency`` names the header that gets the call's id where no argument gives it. ``security`` is a list of
    alternatives, each a set of schemes that all apply; ``()`` as an alternative is none at all. [XL-077, CV-09]

    ``responses`` is what the document declares: status (``200``, ``2XX``, ``default``) to media type to schema as
    it stands in the document; None where it declares nothing. ``streams`` says that a success may be SSE, JSON Lines
    or a JSON sequence.
    """

    method: str
    base: str
    path: str
    fixed_query: str = ""
    parameters: tuple[tuple[str, Parameter], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    takes_more: bool = False
    whole_body: str | None = None
    media_type: str | None = None
    body_required: bool = False
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    binary: bool = False
    server: str = ""
    server_variables: Mapping[str, str] = field(default_factory=dict)
    security: tuple[tuple[Scheme, ...], ...] = ()
    accept: str = ACCEPT
    idempotency: str = ""
    responses: Mapping[str, Mapping[str, Json]] | None = None
    streams: bool = False
    names: frozenset[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        names = {name for name, _ in (*self.parameters, *self.properties)}
        object.__setattr__(self, "names", frozenset(names | ({self.whole_body} if self.whole_body else set())))
