"""What ``toolwire serve`` serves: the targets as one toolbox, and the app of it; made here in whichever process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from toolwire.client.calls.session import Session
from toolwire.client.connection.connect import unattended
from toolwire.client.connection.remote import Remote
from toolwire.consent import ClientRules
from toolwire.core.toolbox import Toolbox
from toolwire.gateway import CallerConsent, merge_toolboxes
from toolwire.limits import ClientRateLimits
from toolwire.opentool.method_toolbox import MethodToolbox
from toolwire.opentool.object_toolbox import ObjectToolbox
from toolwire.opentool.serve_object import app_of as opentool_app
from toolwire.server import App, asgi
from toolwire.server.access.api_keys import read_key
from toolwire.telemetry.logs import log_json

from .exits import UsageError
from .targets.local_target import code_of
from .targets.target import Target, UrlTarget, read_target
from .token_options import TokenOptions, callers_of

SETTINGS = "TOOLWIRE_SERVE"
_QUESTIONS_A_MINUTE = 1_000_000  # of many callers, each asked by their own client
FACTORY = "toolwire.cli.serve_app:app_of_environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What to serve and to whom. It travels to other processes in the environment: others can read an argv."""

    targets: Sequence[str]
    api_keys: Sequence[str] = field(default=(), repr=False)
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    document: str | None = None
    ledger: str | None = None
    rates: str = ""
    client_document: str = ""
    tokens: TokenOptions = field(default_factory=TokenOptions)
    log: str = "text"
    strict_jsonrpc: bool = False
    agree: bool = False
    debug: bool = False

    def write(self) -> str:
        """Return the settings as a text for ``read_settings``."""
        return json.dumps(asdict(self))


def read_settings(text: str) -> ServeSettings:
    """Return the settings that ``write`` wrote."""
    said: dict[str, Any] = json.loads(text)
    return ServeSettings(tokens=TokenOptions(**said.pop("tokens", {})), **said)


def app_of_environment() -> App:
    """Return the app that the environment asks for; its settings, which hold keys, leave the environment."""
    settings = read_settings(os.environ.pop(SETTINGS))
    return app_of(settings, boxes_of(settings))


def app_of(settings: ServeSettings, boxes: Sequence[Toolbox]) -> App:
    """Return the app that serves all ``boxes`` as one.

    Raises:
        DefinitionError: two of them have a tool of the same id, or the ledger cannot be opened.
    """
    match boxes:
        case [ObjectToolbox() | MethodToolbox()] if settings.client_document:
            raise UsageError("--client-document goes with a toolkit, not with a class alone.")
        case [ObjectToolbox() | MethodToolbox() as box]:
            serve: Callable[..., App] = partial(opentool_app, box)
        case _:
            merged_box = merge_toolboxes(boxes, title=", ".join(box.catalog().title for box in boxes))
            serve = partial(asgi, merged_box, client_document=settings.client_document)
    if settings.log == "json":
        log_json()
    return serve(
        api_keys=[read_key(key) for key in settings.api_keys],
        callers=callers_of(settings.tokens),
        hosts=settings.hosts,
        origins=settings.origins,
        ledger=settings.ledger,
        rates=settings.rates,
        strict_jsonrpc=settings.strict_jsonrpc,
        debug=settings.debug,
    )


def boxes_of(settings: ServeSettings) -> Sequence[Toolbox]:
    """Return the toolbox of each target, in order. See ``box_of`` for what it raises."""
    targets = [read_target(text) for text in settings.targets]
    if settings.document is None:
        return [box_of(target, agree=settings.agree) for target in targets]
    if len(targets) > 1:
        raise UsageError("--document describes one class: serve that alone, or give each class a load().")
    return [box_of(targets[0], Path(settings.document))]


def box_of(target: Target, document: Path | None = None, *, agree: bool = False) -> Toolbox:
    """Return the toolbox that ``target`` names. What needs consent of a remote one, its callers are asked about.

    ``agree`` lets the tools run that a remote site would run unasked by its word alone.

    Raises:
        ConnectError: nothing was found at a URL.
        DefinitionError: a class cannot be served, or does not fit its document.
        UsageError: a file or a module cannot be loaded, or is no class that a document describes.
    """
    if not isinstance(target, UrlTarget):
        return code_of(target, document)
    if document is not None:
        raise UsageError("--document is for a class on this machine; a server describes itself.")
    unlimited = Session(  # callers are many; what the site declares holds
        limits=ClientRateLimits(tool=None, connection=None), rules=ClientRules(questions_a_minute=_QUESTIONS_A_MINUTE)
    )
    return unattended(target.text, unlimited, approve=CallerConsent(), agree=(lambda _: True) if agree else None)


def count_asking_tools(boxes: Sequence[Toolbox]) -> int:
    """Return how many tools of remote ``boxes`` need a consent that their callers give."""
    return sum(box.needs_consent(tool) for box in boxes if isinstance(box, Remote) for tool in box.tools)
