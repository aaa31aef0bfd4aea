"""Open a gateway from Python: the application that ``toolwire gateway run`` serves, from its file or a record."""
# GW-01

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolwire.client.transport.server_command import PREFIX
from toolwire.core.command_option import CommandOption
from toolwire.core.errors import UsageError

from .build_settings import build_gateway_settings
from .gateway_file import NO_FILE, GatewayFile, parse_gateway_file
from .options import list_serve_options
from .serve_app import open_app
from .serve_settings import ServeSettings, UpstreamSettings
from .targets.target import move_target
from .toml_file import read_bytes

if TYPE_CHECKING:
    from toolwire.client.connection.options import ApproveCommand
    from toolwire.server import App

_PATHS: Mapping[str, CommandOption] = {option.field: option for option in list_serve_options() if option.is_path}


def open_gateway(source: Path | str | ServeSettings, *, approve_command: ApproveCommand | None = None) -> App:
    """Return the ASGI application of the gateway in ``source``: a ``toolwire.toml``, or a settings record.

    ``toolwire gateway run`` serves the same application. The upstreams are opened now. If one does not answer within
    five seconds, it is retried while the others are served. The application's lifespan closes them. Relative paths in
    the file start at the file's folder. Settings about listening (``host``, ``port``, ``workers``, TLS and proxies) are
    ignored, because the ASGI server decides them.

    ``approve_command`` is called with the command of an upstream that runs as a program. It returns whether the command
    may run. Without it, only commands that this user has already approved can run.

    Raises:
        ToolwireError: the file or the record is not valid, or an upstream cannot be opened. The message says why.
    """
    return open_app(source if isinstance(source, ServeSettings) else _read(Path(source)), approve_command)


def _read(path: Path) -> ServeSettings:
    """Return the settings in the file at ``path``. Their paths do not depend on the working folder."""
    folder = path.resolve().parent
    file = parse_gateway_file(read_bytes(path, NO_FILE), path.name)
    return build_gateway_settings(file if folder == Path.cwd() else _move(file, folder))


def _move(file: GatewayFile, folder: Path) -> GatewayFile:
    def move(path: str) -> str:
        return path if "://" in path or path in ("", "memory") else str(folder / path)

    def move_paths(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: move(value) if name in _PATHS and value else value for name, value in values.items()}

    def move_upstream(upstream: UpstreamSettings) -> UpstreamSettings:
        if upstream.target.startswith(PREFIX) or ".json:" in upstream.target:
            text = "is a program, which runs in the folder of the file: start Python there"
            raise UsageError(f"The upstream {upstream.name} {text}, in {folder}.")
        remote = upstream.remote
        moved = move_paths({name: getattr(remote, name) for name in ("overlay", "ca_file")})
        beside = folder / upstream.target
        target = str(beside) if "://" not in upstream.target and beside.exists() else move_target(upstream.target, move)
        return replace(upstream, target=target, remote=replace(remote, **moved))

    return replace(
        file,
        arguments=Namespace(**move_paths(vars(file.arguments))),
        upstreams=tuple(move_upstream(one) for one in file.upstreams),
        key_file=move(file.key_file),
    )
