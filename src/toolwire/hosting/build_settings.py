"""Read what to serve, from a command line or a gateway's file."""

from __future__ import annotations

import os
import re
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from toolwire.core.command_option import build_record, list_command_options
from toolwire.core.errors import UsageError
from toolwire.opentool.keys import read_keys
from toolwire.server.http.trusted_proxies import UNIX_PREFIX
from toolwire.server.options import ServerOptions
from toolwire.stores.paths import WAKE_VARIABLE, find_state_places

from .deployment_faults import check_trusted_proxies
from .gateway_file import GatewayFile, require_address
from .gateway_sign_in import check_sign_in
from .options import UPSTREAM_S, RemoteOptions, TokenOptions
from .serve_settings import CallerSettings, ServeSettings, UpstreamSettings
from .targets.target import UrlTarget, read_target
from .targets.url_options import UrlOptions, read_url_options

if TYPE_CHECKING:
    from toolwire.server.http.process import TlsFiles

_MAX_ROOT_PATH_LENGTH: Final = 200
_READ_LATER: Final = ("api_keys", "limits", "consent")
"""The server options that ``ServeSettings`` stores as written."""
NO_CALLERS: Final[Mapping[str, CallerSettings]] = {}


def build_settings(
    arguments: Namespace,
    upstreams: Sequence[UpstreamSettings] = (),
    callers: Mapping[str, CallerSettings] = NO_CALLERS,
) -> ServeSettings:
    """Return the settings in ``arguments``, for the targets or else for ``upstreams``, and for their ``callers``.

    Raises:
        ToolwireError: an option is not valid, or there is nothing to serve.
    """
    if not arguments.targets and not upstreams:
        raise UsageError("Name what to serve: a file, a module or a URL.")
    # MC-10: a session's next request can reach a different worker.
    shares_sessions = arguments.workers == 1 or bool(find_state_places(arguments.state).sessions)
    if not shares_sessions and arguments.sessions not in ("", "none"):
        text = "In memory, a session is kept by one process: name a folder with --state, leave out --workers,"
        raise UsageError(f"{text} or choose --sessions none.")
    remote = build_record(RemoteOptions, vars(arguments))
    urls = [text for text in arguments.targets if isinstance(read_target(text), UrlTarget)]
    has_url_options = arguments.timeout != UPSTREAM_S or read_url_options(remote, urls) != UrlOptions()
    if not urls and not upstreams and (has_url_options or arguments.returns):
        text = "--key, --protocol, --timeout, --returns and the selection are for URLs, and no target is one."
        raise UsageError(text)
    if not upstreams:  # the address of a gateway is in its file
        _require_audience(arguments)
    read: dict[str, Any] = {one.field: getattr(arguments, one.field) for one in list_command_options(ServerOptions)}
    for name in _READ_LATER:
        del read[name]
    read |= {
        "rates_replicas": arguments.rates_replicas or arguments.workers,
        "wake": arguments.wake or os.environ.get(WAKE_VARIABLE, ""),
        "private": arguments.private or bool(upstreams),  # GW-01: a gateway's callers see only their own tools
        "sessions": arguments.sessions or ("all" if shares_sessions else "none"),
        "debug": arguments.debug,
    }
    return ServeSettings(
        targets=arguments.targets,
        server=ServerOptions(**read),
        upstreams=upstreams,
        callers=callers,
        api_keys=read_keys(arguments.api_keys, arguments.api_key_file),
        limits=arguments.limits,
        consent=arguments.consent,
        document=arguments.document,
        works=arguments.works,
        tokens=build_record(TokenOptions, vars(arguments)),
        log=arguments.log,
        metrics_address=arguments.metrics_address,
        otlp=arguments.otlp,
        agree=arguments.agree,
        returns=arguments.returns,
        remote=remote,
        is_one_process=arguments.workers == 1,
    )


def _require_audience(arguments: Namespace) -> None:
    # AT-34: a receipt for the server of somebody else would count here.
    is_known = arguments.receipt_audience or arguments.hosts or arguments.stdio or _is_loopback_address(arguments.host)
    if arguments.receipts and not is_known:
        text = "signed for one server: name the host and port by which clients call it, --receipt-audience HOST:PORT."
        raise UsageError(f"Receipts are {text}")


def build_gateway_settings(file: GatewayFile) -> ServeSettings:
    """Return the server settings in a gateway's file.

    Raises:
        ToolwireError: an option is not valid.
    """
    settings = build_settings(file.arguments, file.upstreams, file.callers)
    if file.sign_in is not None:
        check_sign_in(file.sign_in, settings.server.state)
    server = replace(settings.server, public_url=file.public_url)
    return require_address(
        replace(
            settings,
            server=server,
            bundles=file.bundles,
            key_file=file.key_file,
            sign_in=file.sign_in,
            webhook=file.webhook,
        )
    )


def read_tls(arguments: Namespace) -> TlsFiles | None:
    """Return the TLS files, if any, after checking all options about how the server listens."""
    read_root_path(arguments.root_path)
    check_trusted_proxies(arguments)
    if arguments.tls_cert is None and arguments.tls_key is None:
        return None
    if arguments.tls_cert is None or arguments.tls_key is None:
        raise UsageError("--tls-cert and --tls-key must be given together.")
    from toolwire.server.http.process import TlsFiles  # loads uvicorn

    tls = TlsFiles(arguments.tls_cert, arguments.tls_key)
    tls.check()
    return tls


def read_root_path(text: str) -> str:
    """Return the path in ``text`` without a slash at its end.

    Raises:
        UsageError: ``text`` is not a path.
    """
    if not text.strip("/"):
        return ""
    if re.fullmatch(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?", text) is None or len(text) > _MAX_ROOT_PATH_LENGTH:
        raise UsageError(f"--root-path must be a path such as /tools, of letters, digits and -._~, not {text[:80]!r}.")
    return text.rstrip("/")


def is_loopback(host: str) -> bool:
    """Return whether a server at ``host`` can be reached only from this machine, such as at a Unix socket."""
    return host.startswith(UNIX_PREFIX) or _is_loopback_address(host)


def _is_loopback_address(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
