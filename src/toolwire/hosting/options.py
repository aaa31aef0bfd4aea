"""Define the options of what is served, and of the servers behind it, each once. Importing this loads no server.

``ServerOptions`` has those of a server itself. The command line, the settings and the file of a gateway get the names,
the help and the rules of all of them from these records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from toolwire.core.command_option import CommandOption, define_option, list_command_options, read_whole_number
from toolwire.core.selection import DOCUMENT_BYTES
from toolwire.server.options import ServerOptions

HOST: Final = "127.0.0.1"
PORT: Final = 9627
TOTAL_S: Final = 100
"""The time limit of a call, in seconds."""
READING_S: Final = 15
"""The time limit of finding a server and reading its documents, in seconds."""
UPSTREAM_S: Final = 30
"""The time limit of a call of a server behind this one, in seconds."""

read_seconds: Final = read_whole_number(1, 3_600, "number of seconds")
read_port: Final = read_whole_number(0, 65_535, "port")
read_processes: Final = read_whole_number(1, 1_000, "number of processes")
_read_bytes: Final = read_whole_number(1, 10**18, "number of bytes")
RETURNS: Final = ("private", "untrusted")
"""What the user or the operator can say that tools return."""


def _read_return(text: str) -> str:
    name, _, what = text.rpartition("=")
    if not name or what not in RETURNS:
        raise ValueError(f"{text[:80]!r} is not valid. Write NAME=private or NAME=untrusted, such as read_mail=private")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """How to reach a remote server and which of its tools to use, as written in a file or a command.

    Paths stay paths, and a secret is the name of an environment variable. A worker process can read both again.
    """

    key: str | None = define_option(
        None, metavar="KEY", help="the server's API key; it is sent only to that server", is_secret=True
    )
    key_env: str | None = define_option(
        None, metavar="NAME", help="the environment variable that holds the API key", settings="target"
    )
    header: Sequence[str] = define_option(
        (),
        metavar="'NAME: VALUE'",
        help="add this header to every request to the server; repeat for more",
        settings="target",
        is_secret=True,
    )
    header_env: Sequence[str] = define_option(
        (),
        metavar="NAME=VARIABLE",
        help="a header whose value is in an environment variable; repeat for more",
        settings="target",
    )
    account: str = define_option(
        "",
        metavar="NAME",
        help="the account to use there, if you signed in with `toolwire login --account NAME`",
        settings="urls",
    )
    allow_private: Sequence[str] = define_option(
        (),
        metavar="ORIGIN",
        help="allow this HTTPS origin to have a private address, such as https://nas.lan. Repeat for more",
        settings="urls",
    )
    allow_http: Sequence[str] = define_option(
        (),
        metavar="ORIGIN",
        help="allow plain HTTP to this private origin; the network can read keys and arguments",
        settings="urls",
    )
    ca_file: str | None = define_option(
        None, metavar="FILE", help="also trust the certificates in this file (PEM)", is_path=True, settings="urls"
    )
    protocol: str | None = define_option(
        None,
        metavar="P",
        help="use only this protocol; openapi, opentool, otc or mcp (URLs only)",
        is_harmless=True,
        settings="urls",
    )
    include: str = define_option(
        "declared",
        choices=("declared", "all"),
        help="all: include operations without x-llm; default: declared",
        settings="urls",
    )
    tag: Sequence[str] = define_option(
        (), metavar="TAG", help="only tools with this tag; repeat for more", is_harmless=True, settings="urls"
    )
    path: Sequence[str] = define_option(
        (), metavar="GLOB", help="only operations whose path matches", is_harmless=True, settings="urls"
    )
    method: Sequence[str] = define_option(
        (), metavar="M", help="only operations with this HTTP method", is_harmless=True, settings="urls"
    )
    match: Sequence[str] = define_option(
        (), metavar="GLOB", help="only tools whose name matches", is_harmless=True, settings="urls"
    )
    safe_only: bool = define_option(False, help="only tools that do not change anything", strict=True, settings="urls")
    no_deprecated: bool = define_option(False, help="leave out deprecated tools", strict=True, settings="urls")
    server: str | None = define_option(
        None, metavar="URL", help="call this URL instead of the server in the document", settings="target"
    )
    overlay: str | None = define_option(
        None, metavar="FILE", help="apply this OpenAPI Overlay to the document first", is_path=True, settings="target"
    )
    follow: bool = define_option(False, help="fetch the other documents that this one refers to", settings="urls")
    any_version: bool = define_option(
        False, help="accept a later major version of x-llm and ask before each call", settings="urls"
    )
    document_bytes: int = define_option(
        DOCUMENT_BYTES,
        metavar="N",
        read=_read_bytes,
        help=f"the largest document to read, in bytes ({DOCUMENT_BYTES})",
        settings="urls",
    )
    include_site_description: bool = define_option(
        False, help="pass the server's description of itself to models", settings="urls"
    )
    timeout: int = define_option(
        UPSTREAM_S,
        metavar="SECONDS",
        read=read_seconds,
        help="time limit of one call to an upstream, in seconds",
        is_harmless=True,
        settings="urls",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """Which signed tokens of callers a server accepts. It contains paths and URLs, but no secrets."""

    jwt_secret_file: str | None = define_option(
        None, metavar="FILE", help="accept JWTs signed with this secret (HS256)", is_path=True, settings="program"
    )
    jwks: str | None = define_option(
        None,
        metavar="URL|FILE",
        help="accept JWTs signed with these public keys; RS256, ES256 or EdDSA",
        is_path=True,
        settings="program",
    )
    jwt_issuer: str = define_option("", metavar="ISSUER", help="the issuer that tokens must name", settings="program")
    jwt_audience: str = define_option(
        "", metavar="AUDIENCE", help="the audience that tokens must name", settings="program"
    )

    def __bool__(self) -> bool:
        return self.jwt_secret_file is not None or self.jwks is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where a server listens, with how many processes, and behind which proxies."""

    host: str = define_option(
        HOST,
        read=lambda text: text[1:-1] if text[:1] + text[-1:] == "[]" else text,  # as an IPv6 address is in a URL
        help=f"the address to listen at ({HOST}); unix:PATH for a Unix socket",
        settings="program",
    )
    port: int = define_option(
        PORT,
        read=read_port,
        help=f"the port to listen on; 0 picks a free one ({PORT})",
        is_harmless=True,
        settings="program",
    )
    tls_cert: str | None = define_option(
        None,
        metavar="FILE",
        help="serve HTTPS with this certificate chain (PEM); needs --tls-key",
        is_path=True,
        settings="program",
    )
    tls_key: str | None = define_option(
        None,
        metavar="FILE",
        help="the private key of the certificate; PEM, no password",
        is_path=True,
        settings="program",
    )
    root_path: str = define_option(
        "", metavar="PATH", help="the path prefix that your proxy strips", settings="program"
    )
    trusted_proxies: Sequence[str] = define_option(
        (),
        metavar="ADDRESS",
        help="trust Forwarded headers from this address; such as 10.0.0.0/8, or unix. Repeat for more",
        settings="program",
    )
    workers: int = define_option(
        1, metavar="N", read=read_processes, help="the number of processes (1)", settings="program"
    )
    access_log: bool = define_option(False, help="print a line for each request", is_harmless=True, settings="program")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What is served, and to whom, beside the options of the server and those of its targets."""

    api_key_file: str | None = define_option(
        None,
        metavar="FILE",
        help="a file of API keys that callers can use; one per line: KEY, or KEY NAME SCOPE... (TOOLWIRE_API_KEYS"
        " holds keys too, separated by commas)",
        is_path=True,
        settings="program",
    )
    document: str | None = define_option(
        None, metavar="FILE", help="the OpenTool document of a class: file.py:Class or package.module:Class"
    )
    works: bool = define_option(True, name="no-work", help="leave all long calls to `toolwire work`; needs --wake")
    metrics_address: str = define_option(
        "", metavar="HOST:PORT", help="serve Prometheus metrics at http://HOST:PORT/metrics; such as 127.0.0.1:9464"
    )
    otlp: str = define_option(
        "",
        metavar="URL",
        help="send spans and metrics by OTLP over HTTP to this collector, such as http://127.0.0.1:4318",
    )
    agree: bool = define_option(
        False,
        help="trust a server's read-only tools; they run without a question for 30 days or until a definition"
        " changes. `toolwire approvals` lists and revokes this",
    )
    returns: Sequence[str] = define_option(
        (),
        metavar="NAME=WHAT",
        read=_read_return,
        help="what a tool or server returns: private data, or untrusted text that anyone can write; such as"
        " read_mail=private, or *=untrusted for all. After both, a call that can send data out asks. Repeat for"
        " more",
        is_harmless=True,
        settings="program",
    )
    log: str = define_option(
        "text",
        choices=("text", "json"),
        help="the log format; json logs one line per call (text)",
        is_harmless=True,
        settings="program",
    )


SERVE_RECORDS: Final = (ServerOptions, TokenOptions, ListenOptions, ServeOptions, RemoteOptions)
"""The records whose options `toolwire serve` has."""


def list_serve_options() -> Iterator[CommandOption]:
    """Yield all options of what is served; no field is in two records."""
    for record in SERVE_RECORDS:
        yield from list_command_options(record)
