"""``toolwire serve``: tools on every protocol at once, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, TypedDict

from toolwire.cli.exits import OK
from toolwire.cli.interruption import open_temporary_folder
from toolwire.cli.terminal.command_prompt import confirm_command
from toolwire.cli.terminal.screen import apply_style, drop_unwritable, escaped, print_warning
from toolwire.core.catalog import Catalog
from toolwire.core.command_option import list_command_options
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.long_call import is_long
from toolwire.core.toolbox import Toolbox
from toolwire.core.write_names import suspects_write
from toolwire.hosting.open_upstreams import add_callers, count_asking_tools, open_toolboxes
from toolwire.hosting.options import UPSTREAM_S
from toolwire.hosting.serve_app import FACTORY, build_app, build_served_app
from toolwire.hosting.serve_settings import (
    SETTINGS,
    CallerSettings,
    ServeSettings,
    UpstreamSettings,
    choose_lasting_state,
    list_remote_options,
)
from toolwire.hosting.targets.load_code import find_import_folder
from toolwire.hosting.targets.target import Target, UrlTarget, read_target
from toolwire.hosting.targets.url_options import UrlOptions, read_url_options
from toolwire.hosting.token_options import TokenOptions
from toolwire.opentool.keys import read_keys
from toolwire.protocols import BUILTIN
from toolwire.server.app import App
from toolwire.server.asking.host_consent import count_own_asking_tools, describe_host_consent
from toolwire.server.http.deadlines import Deadlines
from toolwire.server.http.trusted_proxies import TrustedProxies
from toolwire.server.limit_options import read_deadlines
from toolwire.server.options import ServerOptions
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.server.stdio import run_stdio, take_output
from toolwire.stores.paths import WAKE_VARIABLE, find_state_places

if TYPE_CHECKING:
    from toolwire.console.front import ConsoleFront
    from toolwire.gateway.gateway_app import GatewayApp
    from toolwire.server.http.process import TlsFiles

_NAMED: Final = 8
_LONGEST_ROOT_PATH: Final = 200
_READ_LATER: Final = ("api_keys", "limits", "consent")
"""The options of a server that ``ServeSettings`` has as they are written."""
NO_CALLERS: Final[Mapping[str, CallerSettings]] = {}


class ListenAddress(TypedDict):
    """Where and how to listen, whatever serves."""

    host: str
    port: int
    announce: Callable[[str], object]
    access_log: bool
    tls: TlsFiles | None
    root_path: str
    trusted_proxies: Sequence[str]
    deadlines: Deadlines


def run(arguments: argparse.Namespace) -> int:
    """Serve the targets until a signal ends it."""
    if arguments.reload and arguments.workers > 1:
        raise UsageError("--reload serves from one process: leave out --workers.")
    if arguments.metrics_address and arguments.stdio:
        raise UsageError("--stdio serves one host: leave out --metrics-address.")
    if arguments.stdio and (arguments.reload or arguments.workers > 1 or arguments.tls_cert):
        raise UsageError("--stdio serves one host from one process: leave out --reload, --workers and --tls-cert.")
    # One process is the server itself: there is nothing that could take the settings anew while it serves.
    renew = partial(build_settings, arguments) if arguments.workers > 1 else None
    return serve_arguments(arguments, renew=renew)


def serve_arguments(arguments: argparse.Namespace, *, renew: Callable[[], ServeSettings] | None = None) -> int:
    """Serve what ``arguments`` name until a signal ends it.

    With ``renew``, the settings are those that it returns, with its upstreams, and SIGHUP takes them anew. Calls that
    run then are finished by the process that has them.

    Raises:
        ToolwireError: it cannot be served; the text says why.
    """
    received: list[int] = []
    if renew is not None and not arguments.stdio:  # it may come while the upstreams are still read
        signal.signal(signal.SIGHUP, lambda number, _: received.append(number))
    with ExitStack() as stack:
        output = stack.enter_context(take_output()) if arguments.stdio else None
        confirmations = find_state_places(arguments.state).confirmations
        if not confirmations and (arguments.workers > 1 or renew is not None):
            # A caller confirms a call with a word of one worker, and sends it to any worker.
            confirmations = f"{stack.enter_context(open_temporary_folder())}/confirmations"
        return _serve(arguments, renew, received, output, confirmations=confirmations)


def build_settings(
    arguments: argparse.Namespace,
    upstreams: Sequence[UpstreamSettings] = (),
    callers: Mapping[str, CallerSettings] = NO_CALLERS,
) -> ServeSettings:
    """Return what ``arguments`` say about the targets, or about ``upstreams``, and about their ``callers``.

    Raises:
        ToolwireError: an option is not valid, or there is nothing to serve.
    """
    if not arguments.targets and not upstreams:
        raise UsageError("There is nothing to serve: name a target.")
    # MC-10: the next request of a session may come to another worker.
    shares_sessions = arguments.workers == 1 or bool(find_state_places(arguments.state).sessions)
    if not shares_sessions and arguments.sessions not in ("", "none"):
        text = "In memory, a session is kept by one process: name a folder with --state, leave out --workers,"
        raise UsageError(f"{text} or choose --sessions none.")
    urls = [text for text in arguments.targets if isinstance(read_target(text), UrlTarget)]
    has_url_options = arguments.timeout != UPSTREAM_S or read_url_options(arguments, urls) != UrlOptions()
    if not urls and not upstreams and has_url_options:
        raise UsageError("--key, --protocol, --timeout and the selection are for URLs, and no target is one.")
    if not upstreams:  # the address of a gateway is in its file
        _require_audience(arguments)
    read: dict[str, Any] = {one.field: getattr(arguments, one.field) for one in list_command_options(ServerOptions)}
    for name in _READ_LATER:
        del read[name]
    read |= {
        "rates_replicas": arguments.rates_replicas or arguments.workers,
        "wake": arguments.wake or os.environ.get(WAKE_VARIABLE, ""),
        "private": arguments.private or bool(upstreams),  # GW-01: callers of a gateway see their own tools alone
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
        tokens=TokenOptions(
            secret_file=arguments.jwt_secret_file,
            jwks=arguments.jwks,
            issuer=arguments.jwt_issuer,
            audience=arguments.jwt_audience,
        ),
        log=arguments.log,
        metrics_address=arguments.metrics_address,
        agree=arguments.agree,
        remote=list_remote_options(arguments),
        is_one_process=arguments.workers == 1,
    )


def _require_audience(arguments: argparse.Namespace) -> None:
    # AT-34: a receipt for the server of somebody else would count here.
    is_known = arguments.receipt_audience or arguments.hosts or arguments.stdio or _is_loopback(arguments.host)
    if arguments.receipts and not is_known:
        text = "signed for one server: name the host and port by which clients call it, --receipt-audience HOST:PORT."
        raise UsageError(f"Receipts are {text}")


def _serve(
    arguments: argparse.Namespace,
    renew: Callable[[], ServeSettings] | None,
    received: Iterable[int],
    output: BinaryIO | None,
    *,
    confirmations: str,
) -> int:
    tls = _read_listening(arguments)
    read_settings = partial(build_settings, arguments) if renew is None else renew
    settings, boxes, app = _prepare(_share_words(read_settings(), confirmations), stdio=arguments.stdio)
    targets = [read_target(text) for text in settings.targets]
    _warn(arguments.host, settings, count_asking_tools(boxes))
    _warn_of_writes(boxes)
    places = find_state_places(settings.server.state)
    if arguments.workers > 1 and settings.server.ledger is None and places.ledger is None:
        print_warning(
            "Each worker remembers its own calls alone; with --state FOLDER a call that is sent again runs once."
        )
    if arguments.workers > 1 and not settings.server.rates and not places.rates and _has_rate_limits(boxes):
        print_warning(
            "Each worker counts calls alone; with --state FOLDER the limits of tools hold for all of them together."
        )
    note = describe_host_consent(count_own_asking_tools(boxes), settings.consent, settings.server.receipts)
    if output is not None and isinstance(app, App):  # a gateway with pages speaks HTTP alone
        if note:
            print(note, file=sys.stderr, flush=True)
        run_stdio(app, output)
        return OK
    from toolwire.server.http.process import serve, serve_reloading, serve_workers  # RE-04: --stdio needs no uvicorn

    announce = _build_announcer([box.catalog() for box in boxes], keys=_describe_keys(settings), note=note)
    place: ListenAddress = {
        "host": arguments.host,
        "port": arguments.port,
        "announce": announce,
        "access_log": arguments.access_log,
        "tls": tls,
        "root_path": _read_root_path(arguments.root_path),
        "trusted_proxies": arguments.trusted_proxies,
        "deadlines": read_deadlines(arguments.limits),
    }
    if not arguments.reload and arguments.workers == 1 and renew is None:
        serve(app, **place)
        return OK
    with _set_environment(settings):
        if arguments.reload:
            serve_reloading(FACTORY, directories=_list_folders(targets), announce_reload=_print_reload, **place)
        else:
            may_renew = renew and partial(_renew_settings, renew, confirmations)
            serve_workers(FACTORY, workers=arguments.workers, may_renew=may_renew, received=received, **place)
    return OK


def _share_words(settings: ServeSettings, folder: str) -> ServeSettings:
    """Return ``settings`` with the folder in which all processes keep the words of confirmations."""
    return replace(settings, server=replace(settings.server, confirmations=folder))


class _Prepared(NamedTuple):
    """What is served: the settings with a state that lasts as long as the tools need it, the toolboxes, the app."""

    settings: ServeSettings
    boxes: Sequence[Toolbox]
    app: App | GatewayApp | ConsoleFront


def _prepare(settings: ServeSettings, *, stdio: bool = False) -> _Prepared:
    # Made here even if other processes serve: what is wrong with it is said before anything listens, or is renewed.
    if settings.server.receipts:
        settings = choose_lasting_state(settings)
    boxes = open_toolboxes(settings, confirm_command)
    if any(is_long(tool) for box in boxes for tool in box.catalog().tools):
        settings = choose_lasting_state(settings)
    # Pages are for HTTP alone.
    return _Prepared(settings, boxes, build_served_app(settings, boxes, None) if stdio else build_app(settings, boxes))


def check_server(arguments: argparse.Namespace, settings: ServeSettings, opened: Sequence[Toolbox]) -> None:
    """Check all that ``arguments`` and ``settings`` say about the server of ``opened``, one for each upstream.

    Raises:
        ToolwireError: a server would not begin with them.
    """
    _read_listening(arguments)
    build_app(settings, add_callers(settings, opened))


def _renew_settings(renew: Callable[[], ServeSettings], confirmations: str) -> bool:
    """Give new workers the settings as they are now, and return True; if they cannot be served, say why."""
    try:
        settings = _prepare(_share_words(renew(), confirmations)).settings
    except ToolwireError as error:
        print_warning(f"The settings are not taken, and all goes on as before. {error}")
        return False
    os.environ[SETTINGS] = settings.to_json()
    _print_reload("Reloaded: new requests go to processes with the new settings.")
    return True


def _print_reload(sentence: str) -> None:
    print(f"toolwire: {escaped(sentence)}", file=sys.stderr, flush=True)


@contextmanager
def _set_environment(settings: ServeSettings) -> Generator[None, None, None]:
    os.environ[SETTINGS] = settings.to_json()
    try:
        yield
    finally:
        del os.environ[SETTINGS]


def _list_folders(targets: Iterable[Target]) -> Sequence[Path]:
    local = [target for target in targets if not isinstance(target, UrlTarget)]
    if not local:
        raise UsageError("--reload watches files, and no target is one.")
    return [find_import_folder(target) for target in local]


def _read_listening(arguments: argparse.Namespace) -> TlsFiles | None:
    """Return the files for TLS, if any, after a check of all that says how the server listens."""
    if arguments.metrics_address and arguments.workers > 1:
        raise UsageError("Each worker counts alone, and one has the address: --metrics-address goes with one worker.")
    _read_root_path(arguments.root_path)
    TrustedProxies(arguments.trusted_proxies)
    if arguments.tls_cert is None and arguments.tls_key is None:
        return None
    if arguments.tls_cert is None or arguments.tls_key is None:
        raise UsageError("--tls-cert and --tls-key belong together: give both.")
    from toolwire.server.http.process import TlsFiles  # loads uvicorn

    tls = TlsFiles(arguments.tls_cert, arguments.tls_key)
    tls.check()
    return tls


def _read_root_path(text: str) -> str:
    """Return the path in ``text`` without a slash at its end.

    Raises:
        UsageError: it is no path.
    """
    if not text.strip("/"):
        return ""
    if re.fullmatch(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?", text) is None or len(text) > _LONGEST_ROOT_PATH:
        raise UsageError(f"--root-path is a path such as /tools, of letters, digits and -._~, not {text[:80]!r}.")
    return text.rstrip("/")


def _warn(host: str, settings: ServeSettings, asking: int) -> None:
    if not settings.api_keys and not settings.tokens and settings.sign_in is None and not _is_loopback(host):
        print_warning(
            f"Anyone who can reach {host} can call these tools: ask for a key with --api-key-file or TOOLWIRE_API_KEYS."
        )
    if asking:
        some = "1 tool from elsewhere needs" if asking == 1 else f"{asking} tools from elsewhere need"
        print_warning(f"{some} consent: each call of them runs once its caller has confirmed it.")
        if settings.server.receipts:
            print_warning("A caller confirms with a receipt of its user's decision (--receipts required).")
        elif settings.consent == "hints":
            print_warning("An MCP client that cannot be asked is trusted to ask its user by itself (--consent hints).")
        elif settings.consent == "inbox":
            print_warning("For an MCP client that cannot be asked, you decide with `toolwire approvals`.")
        else:
            print_warning("An MCP client that cannot be asked gets none of them: --consent hints leaves that to it.")


def _warn_of_writes(boxes: Iterable[Toolbox]) -> None:
    """Warn of tools of the author's own code that look like writes and are declared as reads without a question."""
    # FU-52
    for function in (one for box in boxes if isinstance(box, FunctionToolbox) for one in box.functions):
        if not function.says_safe and (why := suspects_write(function.tool)):
            print_warning(
                f"{function.tool.name} is declared as a read that needs no question, and {why}:"
                " write safe=True if it only reads, else safe=False or another approval."
            )


def _has_rate_limits(boxes: Iterable[Toolbox]) -> bool:
    return any(tool.rate_limit is not None for box in boxes for tool in box.catalog().tools)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _describe_keys(settings: ServeSettings) -> str:
    """Return what a caller must bring, in a few words."""
    keys = [f"one of {len(settings.api_keys)}"] if settings.api_keys else []
    tokens = ["a signed token"] if settings.tokens else []
    people = [f"a sign-in at {settings.sign_in.issuer}"] if settings.sign_in is not None else []
    return " or ".join([*keys, *tokens, *people]) or "none asked for"


def _count_offered(catalog: Catalog) -> str:
    """Return how many resources and prompts there are, in words."""
    # MC-08: the other protocols have no word for them, which a user must not find out by looking.
    counts = (("resource", len(catalog.offered.resources)), ("prompt", len(catalog.offered.prompts)))
    return " and ".join(f"{number} {word}{'s' * (number != 1)}" for word, number in counts if number)


def _build_announcer(catalogs: Sequence[Catalog], *, keys: str, note: str) -> Callable[[str], None]:
    def announce(url: str) -> None:
        try:
            show(url)
        except OSError as error:  # to serve is what was asked for; to print is not
            drop_unwritable(sys.stdout)
            print_warning(
                f"Standard output cannot be written: {error.strerror}. The server goes on at {url} without it."
            )

    def show(url: str) -> None:
        for catalog in catalogs:
            title = apply_style(escaped(catalog.title), "bold", sys.stdout)
            print(f"{title} {escaped(catalog.version)}: {_list_names(catalog)}")
            if catalog.offered.readers:
                print(f"also   {_count_offered(catalog)}, over the Model Context Protocol alone")
        print(f"at     {apply_style(url, 'green', sys.stdout)}")
        print(f"wires  {', '.join(codec.title for codec in BUILTIN)}")
        print(f"keys   {keys}")
        if note:
            print(f"asks   {note}")
        print(apply_style("Ctrl-C stops it.", "dim", sys.stdout), flush=True)

    return announce


def _list_names(catalog: Catalog) -> str:
    names = [escaped(name) for name in catalog.names]
    if len(names) <= _NAMED:
        return ", ".join(names) or "no tools"
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
