"""What ``toolwire serve`` serves: the targets as one toolbox, and the app of it; made here in whichever process."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from toolwire.client.discover import discover
from toolwire.client.drive import run
from toolwire.client.network import Network, SyncNetwork
from toolwire.client.remote import Remote, open_connection
from toolwire.consent import NO_PREFERENCES, effective
from toolwire.core.model import Approval
from toolwire.core.toolbox import Toolbox
from toolwire.gateway import merged
from toolwire.server import App, asgi

from .here import code_of
from .targets import Target, Url, read_target

SETTINGS = "TOOLWIRE_SERVE"
FACTORY = "toolwire.cli.serving:app_of_environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to serve and to whom. It travels to other processes in the environment: others can read an argv."""

    targets: Sequence[str]
    api_keys: Sequence[str] = field(default=(), repr=False)
    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()

    def write(self) -> str:
        """Return the settings as a text for ``read_settings``."""
        return json.dumps(asdict(self))


def read_settings(text: str) -> Settings:
    """Return the settings that ``write`` wrote."""
    return Settings(**json.loads(text))


def app_of_environment() -> App:
    """Return the app that the environment asks for; its settings, which hold keys, leave the environment."""
    settings = read_settings(os.environ.pop(SETTINGS))
    return app_of(settings, [box_of(read_target(text)) for text in settings.targets])


def app_of(settings: Settings, boxes: Sequence[Toolbox]) -> App:
    """Return the app that serves all ``boxes`` as one.

    Raises:
        DefinitionError: two of them have a tool of the same id.
    """
    title = ", ".join(box.catalog().title for box in boxes)
    return asgi(merged(boxes, title=title), api_keys=settings.api_keys, hosts=settings.hosts, origins=settings.origins)


def box_of(target: Target) -> Toolbox:
    """Return the toolbox that ``target`` names. A remote one has nobody to ask: what needs consent it denies.

    Raises:
        ConnectError: nothing was found at a URL.
        UsageError: a file or a module cannot be loaded.
    """
    if not isinstance(target, Url):
        return code_of(target)
    looking = SyncNetwork()  # found out blocking, since the app may be made inside a running event loop
    try:
        found = run(discover(target.text), looking, None)
    finally:
        looking.close()
    return Remote(open_connection(found, NO_PREFERENCES), Network(), None)


def denied_tools(boxes: Sequence[Toolbox]) -> int:
    """Return how many tools of remote ``boxes`` need a consent that nobody is there to give."""
    tools = [tool for box in boxes if isinstance(box, Remote) for tool in box.tools]
    return sum(effective(tool) is not Approval.AUTO for tool in tools)
