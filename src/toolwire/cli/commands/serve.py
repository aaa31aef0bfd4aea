"""``toolwire serve``: tools on every protocol at once, until Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from toolwire.cli.exits import OK
from toolwire.cli.interruption import open_temporary_folder
from toolwire.cli.terminal.prompt import confirm_command
from toolwire.cli.terminal.screen import apply_style, drop_unwritable, escaped, print_warning, write_count
from toolwire.client.transport.server_program import end_programs
from toolwire.core.catalog import Catalog
from toolwire.core.errors import ToolwireError, UsageError
from toolwire.core.toolbox import Toolbox
from toolwire.hosting.build_settings import build_settings, is_loopback, read_root_path, read_tls
from toolwire.hosting.deployment_faults import list_deployment_faults
from toolwire.hosting.open_upstreams import count_asking_tools
from toolwire.hosting.operators import list_idle_rules
from toolwire.hosting.running_gateway import RunningGateway
from toolwire.hosting.serve_app import FACTORY, prepare
from toolwire.hosting.serve_settings import (
    SETTINGS,
    ServeSettings,
)
from toolwire.hosting.targets.load_code import find_import_folder
from toolwire.hosting.targets.target import Target, UrlTarget, read_target
from toolwire.protocols import BUILTIN
from toolwire.server.app import App
from toolwire.server.asking.host_consent import count_own_asking_tools, describe_host_consent
from toolwire.server.limit_options import read_deadlines
from toolwire.server.run.function_toolbox import FunctionToolbox
from toolwire.server.stdio import run_stdio, take_output
from toolwire.stores.paths import find_state_places
from toolwire.telemetry.logs import is_json_log
from toolwire.testing.tool_checks import check_tools

if TYPE_CHECKING:
    from toolwire.server.http.process import TlsFiles

_NAMED: Final = 8
_KEY_OPTIONS: Final = "--api-key, --api-key-file, --jwks, --jwt-secret-file"


class _Folders(NamedTuple):
    """Where all processes keep the one-time tokens of confirmations, their metrics, and the record of a gateway."""

    confirmations: str
    metrics: str
    gateway: str

    def add_to(self, settings: ServeSettings) -> ServeSettings:
        """Return ``settings`` with these folders."""
        server = replace(settings.server, confirmations=self.confirmations)
        return replace(settings, server=server, metrics_folder=self.metrics, gateway_record=self.gateway)


def run(arguments: argparse.Namespace) -> int:
    """Serve the targets until a signal ends it."""
    if arguments.reload and arguments.workers > 1:
        raise UsageError("--reload runs one process. Leave out --workers.")
    if arguments.stdio:  # what settings say of listening is for other servers
        arguments.workers, arguments.metrics_address, arguments.otlp = 1, "", ""
        arguments.tls_cert = arguments.tls_key = None
    # One process is the server itself: there is nothing that could take the settings anew while it serves.
    renew = partial(build_settings, arguments) if arguments.workers > 1 else None
    return serve_arguments(arguments, renew=renew)


def serve_arguments(
    arguments: argparse.Namespace,
    *,
    renew: Callable[[], ServeSettings] | None = None,
    running: RunningGateway | None = None,
) -> int:
    """Serve what ``arguments`` name until a signal ends it.

    With ``renew``, the settings are those that it returns, with its upstreams, and SIGHUP takes them anew. Calls that
    run then are finished by the process that has them. ``running`` says so to the commands that change the file.

    Raises:
        ToolwireError: it cannot be served; the text says why.
    """
    received: list[int] = []
    if renew is not None and not arguments.stdio:  # it may come while the upstreams are still read
        signal.signal(signal.SIGHUP, lambda number, _: received.append(number))
    with ExitStack() as stack:
        output = stack.enter_context(take_output()) if arguments.stdio else None
        confirmations, metrics, gateway = find_state_places(arguments.state).confirmations, "", ""
        if arguments.workers > 1 or renew is not None:
            folder = stack.enter_context(open_temporary_folder())
            # A caller confirms a call with a word of one worker, and sends it to any worker.
            confirmations = confirmations or f"{folder}/confirmations"
            metrics = f"{folder}/metrics" if arguments.metrics_address else ""  # PL-04: the sums of all workers
            if running is not None:  # PL-08
                running.begin(folder)
                stack.callback(running.end)
                gateway = running.record_path
        shared = _Folders(confirmations, metrics, gateway)
        return _serve(arguments, renew, received, output, shared=shared, running=running)


def _serve(
    arguments: argparse.Namespace,
    renew: Callable[[], ServeSettings] | None,
    received: Iterable[int],
    output: BinaryIO | None,
    *,
    shared: _Folders,
    running: RunningGateway | None,
) -> int:
    tls = read_tls(arguments)
    read_settings = partial(build_settings, arguments) if renew is None else renew
    given = shared.add_to(read_settings())
    if output is not None and (given.api_keys or given.tokens):  # CR-01: else no request of the host is answered
        text = "--stdio serves the program that starts it, which sends no key and no token"
        raise UsageError(f"{text}: leave out {_KEY_OPTIONS} and TOOLWIRE_API_KEYS.")
    settings, boxes, app = prepare(given, confirm_command, stdio=arguments.stdio)
    targets = [read_target(text) for text in settings.targets]
    _warn(arguments.host, settings, count_asking_tools(boxes))
    for fault in (*list_deployment_faults(arguments, settings), *list_idle_rules(settings.upstreams, boxes)):
        print_warning(fault)
    _warn_of_faults(boxes)
    places = find_state_places(settings.server.state)
    if arguments.workers > 1 and settings.server.ledger is None and places.ledger is None:
        print_warning("Each worker remembers only its own calls. With --state FOLDER, a repeated call runs only once.")
    if (
        arguments.workers > 1
        and not settings.server.rates
        and not places.rates
        and any(tool.rate_limit is not None for box in boxes for tool in box.catalog().tools)
    ):
        print_warning(
            "Each worker counts only its own calls. With --state FOLDER, all workers share the tools' limits."
        )
    note = describe_host_consent(count_own_asking_tools(boxes), settings.consent, settings.server.receipts)
    if output is not None and isinstance(app, App):  # a gateway with pages speaks HTTP alone
        if note:
            print(note, file=sys.stderr, flush=True)
        run_stdio(app, output)
        return OK
    # RE-04: --stdio needs no uvicorn
    from toolwire.server.http.process import ListenSettings, serve, serve_reloading, serve_workers

    announce = _build_announcer([box.catalog() for box in boxes], keys=_describe_keys(settings), note=note)
    listen = ListenSettings(
        host=arguments.host,
        port=arguments.port,
        announce=announce,
        access_log=arguments.access_log,
        tls=tls,
        root_path=read_root_path(arguments.root_path),
        trusted_proxies=arguments.trusted_proxies,
        deadlines=read_deadlines(arguments.limits),
    )
    if not arguments.reload and arguments.workers == 1 and renew is None:
        serve(app, listen)
        return OK
    end_programs()  # each process that serves runs its own
    os.environ[SETTINGS] = settings.to_json()
    try:
        if arguments.reload:
            serve_reloading(FACTORY, listen, directories=_list_folders(targets), announce_reload=_print_reload)
        else:
            may_renew = renew and partial(_renew_settings, renew, shared, running, tls)
            serve_workers(FACTORY, listen, workers=arguments.workers, may_renew=may_renew, received=received)
    finally:
        del os.environ[SETTINGS]
    return OK


def _renew_settings(
    renew: Callable[[], ServeSettings], shared: _Folders, running: RunningGateway | None, tls: TlsFiles | None
) -> bool:
    """Give new workers the settings as they are now, and return True; if they cannot be served, say why."""
    try:
        if tls is not None:  # new workers read the files again
            tls.check()
        settings = prepare(shared.add_to(renew()), confirm_command).settings
    except ToolwireError as error:
        print_warning(f"The settings are not taken, and all goes on as before. {error}")
        if running is not None:
            running.record(str(error))
        return False
    finally:
        end_programs()
    os.environ[SETTINGS] = settings.to_json()
    if running is not None:
        running.record()
    _print_reload("Reloaded. New requests go to processes with the new settings.")
    return True


def _print_reload(sentence: str) -> None:
    if is_json_log():
        logging.getLogger("toolwire").info("%s", sentence)
    else:
        print(f"toolwire: {escaped(sentence)}", file=sys.stderr, flush=True)


def _list_folders(targets: Iterable[Target]) -> Sequence[Path]:
    local = [target for target in targets if not isinstance(target, UrlTarget)]
    if not local:
        raise UsageError("--reload needs a target that is a file.")
    return [find_import_folder(target) for target in local]


def _warn(host: str, settings: ServeSettings, asking: int) -> None:
    if not settings.api_keys and not settings.tokens and settings.sign_in is None and not is_loopback(host):
        print_warning(
            f"Anyone who can reach {host} can call these tools. Require a key with --api-key-file or TOOLWIRE_API_KEYS."
        )
    if asking:
        some = "1 tool from elsewhere needs" if asking == 1 else f"{asking} tools from elsewhere need"
        print_warning(f"{some} consent. Each of their calls runs after its caller has confirmed it.")
        if settings.server.receipts:
            print_warning("Callers confirm with a receipt of their user's decision (--receipts required).")
        elif settings.consent == "hints":
            print_warning("MCP clients that cannot be asked are trusted to ask their own users (--consent hints).")
        elif settings.consent == "inbox":
            print_warning("If an MCP client cannot be asked, you decide with `toolwire approvals`.")
        else:
            print_warning(
                "MCP clients that cannot be asked cannot call these tools. --consent hints lets them ask "
                "their own users."
            )


def _warn_of_faults(boxes: Iterable[Toolbox]) -> None:
    """Warn of tools of the author's own code that look like writes and run unasked, and count what else is wrong."""
    # FU-52, FD-05
    faults = [
        fault
        for box in boxes
        if isinstance(box, FunctionToolbox)
        for fault in check_tools(box.functions, measure=False)
    ]
    others = [fault for fault in faults if fault.rule != "unasked-write"]
    for fault in faults:
        if fault not in others:
            print_warning(fault.message)
    if others:
        text = f"{write_count(len(others), 'thing')} could confuse a model: `toolwire check FILE` lists them."
        print_warning(f"{text} {others[0].message}")


def _describe_keys(settings: ServeSettings) -> str:
    """Return what a caller must bring, in a few words."""
    keys = [f"one of {len(settings.api_keys)}"] if settings.api_keys else []
    tokens = ["a signed token"] if settings.tokens else []
    people = [f"a sign-in at {settings.sign_in.issuer}"] if settings.sign_in is not None else []
    return " or ".join([*keys, *tokens, *people]) or "none asked for"


def _count_offered(catalog: Catalog) -> str:
    """Return how many resources, prompts and skills there are, in words."""
    # MC-08: the other protocols have no word for them, which a user must not find out by looking.
    features = catalog.features
    counts = (("resource", len(features.resources)), ("prompt", len(features.prompts)), ("skill", len(features.skills)))
    return " and ".join(write_count(number, word) for word, number in counts if number)


def _build_announcer(catalogs: Sequence[Catalog], *, keys: str, note: str) -> Callable[[str], None]:
    def announce(url: str) -> None:
        try:
            show(url)
        except OSError as error:  # to serve is what was asked for; to print is not
            drop_unwritable(sys.stdout)
            print_warning(
                f"Cannot write to standard output: {error.strerror}. The server continues at {url} without it."
            )

    def show(url: str) -> None:
        for catalog in catalogs:
            title = apply_style(escaped(catalog.title), "bold", sys.stdout)
            print(f"{title} {escaped(catalog.version)}: {_list_names(catalog)}")
            if counts := _count_offered(catalog):
                print(f"also       {counts}, over the Model Context Protocol alone")
        print(f"URL        {apply_style(url, 'green', sys.stdout)}")
        print(f"protocols  {', '.join(codec.title for codec in BUILTIN)}")
        print(f"keys       {keys}")
        if note:
            print(f"consent    {note}")
        print(apply_style("Ctrl-C stops it.", "dim", sys.stdout), flush=True)

    return announce


def _list_names(catalog: Catalog) -> str:
    names = [escaped(name) for name in catalog.names]
    if len(names) <= _NAMED:
        return ", ".join(names) or "no tools"
    return f"{', '.join(names[:_NAMED])} and {len(names) - _NAMED} more"
