"""Define the plan of an operation: made once when a document is read, followed for each call.

Rules:
- ``tools`` makes plans; ``request`` and ``response`` only follow them.
- No argument can choose the server: its variables are fixed here.
"""
# D-07

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from toolwire.core.model import Json
from toolwire.core.url_origin import get_origin

ACCEPT = "application/json, */*;q=0.1"


class Place(StrEnum):
    """The place of a parameter in a request. ``QUERYSTRING`` is the complete query as one value (OpenAPI 3.2)."""

    PATH = "path"
    QUERY = "query"
    HEADER = "header"
    COOKIE = "cookie"
    QUERYSTRING = "querystring"


class Parameter(NamedTuple):
    """How one parameter is written. ``style`` is one of OpenAPI's, or ``content`` for JSON and ``text`` for text.

    ``media_type`` is that of a parameter with ``content``; if not empty, it decides. ``encodings`` describe the
    properties of a parameter that is a form. ``separators`` of Swagger 2.0 are those between items, one for each level
    of nested arrays; ``""`` repeats the name instead. ``is_required`` is true of headers that a call must have.
    """

    name: str
    place: Place
    style: str
    explode: bool = False
    reserved: bool = False
    media_type: str = ""
    encodings: Mapping[str, Encoding] | None = None
    separators: tuple[str, ...] = ()
    is_required: bool = False


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
"""The encoding of a property without declared encoding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One security scheme that an operation requires, with its scopes.

    ``kind`` is OpenAPI's type: apiKey, http, oauth2, openIdConnect, mutualTLS. ``place`` and ``name`` are those of
    an API key; ``scheme`` is that of http, in lower case if it is basic or bearer.
    """

    id: str
    kind: str
    place: Place | None = None
    name: str = ""
    scheme: str = ""
    scopes: tuple[str, ...] = ()


class WriteOnlyRemover(Protocol):
    """Removes from a result what its schema declares writeOnly."""

    def remove(self, data: Json, schema: Json) -> bool:
        """Remove it from ``data``, and return whether there was any."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one tool is called.

    ``base`` is the server URL with its variables filled in and without a slash at the end. If it is on another origin
    than the document, it is called only if the user allowed that origin. ``path`` is the declared template,
    ``fixed_query`` the part after its question mark. ``server`` and ``server_variables`` are the source of ``base``.

    ``parameters`` maps arguments to parameters. There is no body if ``media_type`` is None. Else the body is the
    argument ``whole_body``, or it has the ``properties`` (argument to body property), encoded by ``encodings`` (by
    property; forms and multipart only). ``binary``: the complete body is a file.

    With ``takes_more``, an argument with any other name is a property of the body; else it is refused. ``names`` are
    the names of all declared arguments, and ``origin`` is that of ``base``.

    ``idempotency`` is the header that gets the call's id if no argument fills it. ``security`` is a list of
    alternatives, each a set of schemes that apply together; the alternative ``()`` needs no credential.

    ``responses`` is what the document declares: status (``200``, ``2XX``, ``default``) to media type to schema as
    it stands in the document; None where it declares nothing. ``streams`` says that a success may be SSE, JSON Lines
    or a JSON sequence. ``write_only`` removes from a result what the document declares writeOnly. ``content`` is
    ``image``, ``audio`` or ``file`` for a tool that returns exactly one, as its bytes.
    """

    # XL-077, CV-09

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
    write_only: WriteOnlyRemover | None = field(default=None, repr=False, compare=False)
    content: str = ""
    names: frozenset[str] = field(init=False, repr=False)
    origin: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = {name for name, _ in (*self.parameters, *self.properties)}
        # Computed once for all calls. The class is frozen, so the fields are set through object.
        object.__setattr__(self, "origin", get_origin(self.base))
        object.__setattr__(self, "names", frozenset(names | ({self.whole_body} if self.whole_body else set())))
