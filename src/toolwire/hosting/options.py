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
        raise ValueError(f"{text[:80]!r} is not NAME=private or NAME=untrusted, such as read_mail=private")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """How a server elsewhere is reached, and which of its tools are used, as it is written.

    Files stay paths and secrets stay names of variables, so that a worker process can read them again.
    """

    key: str | None = define_option(
        None,
        CommandOption(
            name="key", default=None, metavar="KEY", help="the server's API key; it is sent only to that server"
        ),
        is_secret=True,
    )
    key_env: str | None = define_option(
        None,
        CommandOption(
            name="key-env",
            default=None,
            metavar="NAME",
            help="the environment variable that holds the API key",
            in_settings=True,
            subject="target",
        ),
    )
    header: Sequence[str] = define_option(
        (),
        CommandOption(
            name="header",
            default=[],
            metavar="'NAME: VALUE'",
            help="add this header to every request to the server; repeat for more",
            in_settings=True,
            subject="target",
        ),
        is_secret=True,
    )
    header_env: Sequence[str] = define_option(
        (),
        CommandOption(
            name="header-env",
            default=[],
            metavar="NAME=VARIABLE",
            help="a header whose value is in an environment variable; repeat for more",
            in_settings=True,
            subject="target",
        ),
    )
    allow_private: Sequence[str] = define_option(
        (),
        CommandOption(
            name="allow-private",
            default=[],
            metavar="ORIGIN",
            help="allow this HTTPS origin to have a private address; such as https://nas.lan. Repeat for more",
            in_settings=True,
            subject="urls",
        ),
    )
    allow_http: Sequence[str] = define_option(
        (),
        CommandOption(
            name="allow-http",
            default=[],
            metavar="ORIGIN",
            help="allow plain HTTP to this private origin; the network can read keys and arguments",
            in_settings=True,
            subject="urls",
        ),
    )
    ca_file: str | None = define_option(
        None,
        CommandOption(
            name="ca-file",
            default=None,
            metavar="FILE",
            help="also trust the certificates in this file (PEM)",
            in_settings=True,
            subject="urls",
            is_path=True,
        ),
    )
    protocol: str | None = define_option(
        None,
        CommandOption(
            name="protocol",
            default=None,
            metavar="P",
            help="use only this protocol; openapi, opentool, otc or mcp (URLs only)",
            in_settings=True,
            subject="urls",
            is_harmless=True,
        ),
    )
    include: str = define_option(
        "declared",
        CommandOption(
            name="include",
            default="declared",
            choices=("declared", "all"),
            help="all: include operations without x-llm; default: declared",
            in_settings=True,
            subject="urls",
        ),
    )
    tag: Sequence[str] = define_option(
        (),
        CommandOption(
            name="tag",
            default=[],
            metavar="TAG",
            help="only tools with this tag; repeat for more",
            in_settings=True,
            subject="urls",
            is_harmless=True,
        ),
    )
    path: Sequence[str] = define_option(
        (),
        CommandOption(
            name="path",
            default=[],
            metavar="GLOB",
            help="only operations whose path matches",
            in_settings=True,
            subject="urls",
            is_harmless=True,
        ),
    )
    method: Sequence[str] = define_option(
        (),
        CommandOption(
            name="method",
            default=[],
            metavar="M",
            help="only operations with this HTTP method",
            in_settings=True,
            subject="urls",
            is_harmless=True,
        ),
    )
    match: Sequence[str] = define_option(
        (),
        CommandOption(
            name="match",
            default=[],
            metavar="GLOB",
            help="only tools whose name matches",
            in_settings=True,
            subject="urls",
            is_harmless=True,
        ),
    )
    safe_only: bool = define_option(
        False,
        CommandOption(
            name="safe-only",
            default=False,
            help="only tools that do not change anything",
            in_settings=True,
            subject="urls",
            strict=True,
        ),
    )
    no_deprecated: bool = define_option(
        False,
        CommandOption(
            name="no-deprecated",
            default=False,
            help="leave out deprecated tools",
            in_settings=True,
            subject="urls",
            strict=True,
        ),
    )
    server: str | None = define_option(
        None,
        CommandOption(
            name="server",
            default=None,
            metavar="URL",
            help="call this URL instead of the server in the document",
            in_settings=True,
            subject="target",
        ),
    )
    overlay: str | None = define_option(
        None,
        CommandOption(
            name="overlay",
            default=None,
            metavar="FILE",
            help="apply this OpenAPI Overlay to the document first",
            in_settings=True,
            subject="target",
            is_path=True,
        ),
    )
    follow: bool = define_option(
        False,
        CommandOption(
            name="follow",
            default=False,
            help="fetch the other documents that this one refers to",
            in_settings=True,
            subject="urls",
        ),
    )
    any_version: bool = define_option(
        False,
        CommandOption(
            name="any-version",
            default=False,
            help="accept a later major version of x-llm and ask before each call",
            in_settings=True,
            subject="urls",
        ),
    )
    document_bytes: int = define_option(
        DOCUMENT_BYTES,
        CommandOption(
            name="document-bytes",
            default=DOCUMENT_BYTES,
            metavar="N",
            read=_read_bytes,
            help=f"the largest document to read, in bytes ({DOCUMENT_BYTES})",
            in_settings=True,
            subject="urls",
        ),
    )
    include_site_description: bool = define_option(
        False,
        CommandOption(
            name="include-site-description",
            default=False,
            help="pass the server's description of itself to models",
            in_settings=True,
            subject="urls",
        ),
    )
    timeout: int = define_option(
        UPSTREAM_S,
        CommandOption(
            name="timeout",
            default=UPSTREAM_S,
            metavar="SECONDS",
            read=read_seconds,
            help="time limit of one call to an upstream, in seconds",
            in_settings=True,
            subject="urls",
            is_harmless=True,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenOptions:
    """Which signed tokens of callers are accepted: paths and URLs, no secret."""

    jwt_secret_file: str | None = define_option(
        None,
        CommandOption(
            name="jwt-secret-file",
            default=None,
            metavar="FILE",
            help="accept JWTs signed with this secret (HS256)",
            in_settings=True,
            is_path=True,
        ),
    )
    jwks: str | None = define_option(
        None,
        CommandOption(
            name="jwks",
            default=None,
            metavar="URL|FILE",
            help="accept JWTs signed with these public keys; RS256, ES256 or EdDSA",
            in_settings=True,
            is_path=True,
        ),
    )
    jwt_issuer: str = define_option(
        "",
        CommandOption(name="jwt-issuer", metavar="ISSUER", help="the issuer that tokens must name", in_settings=True),
    )
    jwt_audience: str = define_option(
        "",
        CommandOption(
            name="jwt-audience", metavar="AUDIENCE", help="the audience that tokens must name", in_settings=True
        ),
    )

    def __bool__(self) -> bool:
        return self.jwt_secret_file is not None or self.jwks is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where a server listens, with how many processes, and behind which proxies."""

    host: str = define_option(
        HOST,
        CommandOption(
            name="host",
            default=HOST,
            help=f"the address to listen at ({HOST}); unix:PATH for a Unix socket",
            in_settings=True,
        ),
    )
    port: int = define_option(
        PORT,
        CommandOption(
            name="port",
            default=PORT,
            read=read_port,
            help=f"the port to listen at; 0 takes a free one ({PORT})",
            in_settings=True,
            is_harmless=True,
        ),
    )
    tls_cert: str | None = define_option(
        None,
        CommandOption(
            name="tls-cert",
            default=None,
            metavar="FILE",
            help="serve HTTPS with this certificate chain (PEM); needs --tls-key",
            in_settings=True,
            is_path=True,
        ),
    )
    tls_key: str | None = define_option(
        None,
        CommandOption(
            name="tls-key",
            default=None,
            metavar="FILE",
            help="the private key of the certificate; PEM, no password",
            in_settings=True,
            is_path=True,
        ),
    )
    root_path: str = define_option(
        "",
        CommandOption(
            name="root-path",
            metavar="PATH",
            help="the path prefix that your proxy strips",
            in_settings=True,
        ),
    )
    trusted_proxies: Sequence[str] = define_option(
        (),
        CommandOption(
            name="trusted-proxies",
            default=[],
            metavar="ADDRESS",
            help="trust Forwarded headers from this address; such as 10.0.0.0/8, or unix. Repeat for more",
            in_settings=True,
        ),
    )
    workers: int = define_option(
        1,
        CommandOption(
            name="workers",
            default=1,
            metavar="N",
            read=read_processes,
            help="the number of processes (1)",
            in_settings=True,
        ),
    )
    access_log: bool = define_option(
        False,
        CommandOption(
            name="access-log",
            default=False,
            help="print a line for each request",
            in_settings=True,
            is_harmless=True,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What is served, and to whom, beside the options of the server and those of its targets."""

    api_key_file: str | None = define_option(
        None,
        CommandOption(
            name="api-key-file",
            default=None,
            metavar="FILE",
            help="a file of API keys that callers can use; one per line: KEY, or KEY NAME SCOPE... (TOOLWIRE_API_KEYS"
            " holds keys too, separated by commas)",
            in_settings=True,
            is_path=True,
        ),
    )
    document: str | None = define_option(
        None,
        CommandOption(
            name="document",
            default=None,
            metavar="FILE",
            help="the OpenTool document of a class: file.py:Class or package.module:Class",
        ),
    )
    works: bool = define_option(
        True,
        CommandOption(name="no-work", default=True, help="leave all long calls to `toolwire work`; needs --wake"),
    )
    metrics_address: str = define_option(
        "",
        CommandOption(
            name="metrics-address",
            metavar="HOST:PORT",
            help="serve Prometheus metrics at http://HOST:PORT/metrics; such as 127.0.0.1:9464",
        ),
    )
    otlp: str = define_option(
        "",
        CommandOption(
            name="otlp",
            metavar="URL",
            help="send spans and metrics by OTLP over HTTP to this collector, such as http://127.0.0.1:4318",
        ),
    )
    agree: bool = define_option(
        False,
        CommandOption(
            name="agree",
            default=False,
            help="trust a server's read-only tools; they run without a question for 30 days or until a definition"
            " changes. `toolwire approvals` lists and revokes this",
        ),
    )
    returns: Sequence[str] = define_option(
        (),
        CommandOption(
            name="returns",
            default=[],
            metavar="NAME=WHAT",
            help="what a tool or server returns: private data, or untrusted text that anyone may have written; such as"
            " read_mail=private, or *=untrusted for all. After both, a call that can send data out asks. Repeat for"
            " more",
            read=_read_return,
            in_settings=True,
            is_harmless=True,
        ),
    )
    log: str = define_option(
        "text",
        CommandOption(
            name="log",
            default="text",
            choices=("text", "json"),
            help="the log format; json logs one line per call (text)",
            in_settings=True,
            is_harmless=True,
        ),
    )


SERVE_RECORDS: Final = (ServerOptions, TokenOptions, ListenOptions, ServeOptions, RemoteOptions)
"""The records whose options `toolwire serve` has."""


def list_serve_options() -> Iterator[CommandOption]:
    """Yield all options of what is served; no field is in two records."""
    for record in SERVE_RECORDS:
        yield from list_command_options(record)
