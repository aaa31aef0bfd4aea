"""``toolwire work``: run the long calls that servers of the same state offer, until SIGTERM."""
# ST-03

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Sequence
from dataclasses import replace

from toolwire import __version__
from toolwire.cli.exits import OK
from toolwire.cli.parser import list_commands
from toolwire.cli.terminal.prompt import confirm_command
from toolwire.cli.terminal.screen import escaped
from toolwire.core.errors import UsageError
from toolwire.core.long_call import CallEngine, is_long
from toolwire.engines.local_engine import LocalEngine
from toolwire.hosting.build_settings import build_settings
from toolwire.hosting.open_upstreams import open_toolboxes
from toolwire.hosting.serve_app import build_served_app, open_engine
from toolwire.server import App
from toolwire.server.http.deadlines import DEADLINES
from toolwire.server.limit_options import read_deadlines
from toolwire.stores.paths import find_state_places


def run(arguments: argparse.Namespace) -> int:
    """Run calls until a signal ends it; those that run then go on for the time of grace."""
    # The options of `serve` that a worker does not have keep their defaults.
    defaults = vars(list_commands(__version__)["serve"].parse_args([]))
    settings = replace(build_settings(argparse.Namespace(**{**defaults, **vars(arguments)})), jobs=arguments.jobs)
    if find_state_places(settings.server.state).ledger is None:
        raise UsageError("A worker needs the servers' state. Set it with --state.")
    if read_deadlines(arguments.limits) != DEADLINES:
        raise UsageError("A worker accepts no connections. Give connection limits to `toolwire serve`.")
    boxes = open_toolboxes(settings, confirm_command)
    names = [tool.name for box in boxes for tool in box.catalog().tools if is_long(tool)]
    if not names:
        raise UsageError(
            "These targets define no long tools, so the worker has nothing to run. Servers run all other calls."
        )
    # Without a queue, the worker looks for calls in the state.
    engine = open_engine(settings) or LocalEngine(arguments.jobs)
    asyncio.run(_work(build_served_app(settings, boxes, engine), engine, names, arguments.grace))
    return OK


async def _work(app: App, engine: CallEngine, names: Sequence[str], grace_s: float) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:  # such as after nohup
            continue
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await app.begin()
    print(f"works  {', '.join(map(escaped, names))}\nCtrl-C stops it.", flush=True)
    await stop.wait()
    # ST-03: the calls that run keep their leases meanwhile, because the app goes on until they have ended.
    await engine.end(grace_s)
    await app.end()
