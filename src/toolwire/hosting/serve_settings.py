"""Define what ``toolwire serve`` and a gateway serve, and to which callers, in a form that worker processes get."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from toolwire.client.transport.limits import DEFAULT_LIMITS
from toolwire.core.condition import read_ask_when
from toolwire.core.errors import DefinitionError
from toolwire.core.model import Json, RateLimit
from toolwire.gateway.upstream import RUNNING
from toolwire.limits import CallerRules, Effect, ToolBound, ToolBundle
from toolwire.server.asking.host_consent import HostConsent
from toolwire.server.options import ServerOptions
from toolwire.stores.paths import STATE_VARIABLE, StatePlaces, find_state_folder, find_state_places

from .gateway_sign_in import ClientSettings, ProviderSettings, SignInSettings
from .options import RemoteOptions, TokenOptions

SETTINGS = "TOOLWIRE_SERVE"

_NO_OPTIONS: Final = ServerOptions()
_READ_FROM_SETTINGS: Final = (
    *("api_keys", "limits", "consent"),
    *("callers", "caller_rules", "bundles", "inbox", "engine"),
)

UpstreamAccount: TypeAlias = Literal["gateway", "caller", "exchange"]
"""Whose credentials an upstream is called with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """One upstream of a gateway: its name, its target, and its options.

    - ``scopes``: the scopes that callers need to see its tools. None uses the scopes that the tools declare.
    - ``rate``, ``running``: its limits for all callers together. ``rate`` is a text such as ``100/1m``, or empty.
    - ``timeout_s``: the time limit of one call, in seconds.
    - ``account``: whose credentials are used: the gateway's, the caller's own (who signs in there), or credentials that
      the caller's token is exchanged for.
    - ``client_id``: the gateway's registration for the caller's sign-in.
    - ``agree``: trust what the server claims about all its tools, or about the named tools.
    - ``run``, ``ask``, ``never``: rules for its tools, as written in the file.
    - ``returns``: whether results are ``private`` data or ``untrusted`` text.
    - ``approvers``: the groups that answer questions, by pattern of tool names. Nobody else can. The first pattern that
      matches counts.
    - ``agreed_command``: the digest of the program that the file approves.
    - ``program_limits``: the program's limits, by the names in ``MAX_PROGRAM_LIMITS``.
    """

    name: str
    target: str
    scopes: Sequence[str] | None = None
    agree: bool | Sequence[str] = False
    run: Sequence[Any] = ()
    ask: Sequence[Any] = ()
    never: Sequence[Any] = ()
    returns: Sequence[str] = ()
    approvers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agreed_command: str = ""
    program_limits: Mapping[str, int] = field(default_factory=dict)
    remote: RemoteOptions = field(default_factory=RemoteOptions, repr=False)
    account: UpstreamAccount = "gateway"
    client_id: str = ""
    client_secret_env: str = ""
    exchange: Mapping[str, Any] = field(default_factory=dict)
    rate: str = ""
    running: int = RUNNING
    timeout_s: float = DEFAULT_LIMITS.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """Where questions are told: ``secret_env`` names the variable with the secret. See ``Webhook``."""

    url: str = field(repr=False)
    secret_env: str
    arguments: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerSettings:
    """A gateway's rules for one caller, as written in its file. ``None`` or ``""`` means no rule.

    - ``tools``, ``effects``, ``arguments``: the most that the caller can use. See ``ToolBound``. Conditions are written
      like those of ``ask_when``.
    - ``member_of``: the group that lists the caller as a member.
    - ``self_approval``: if false, users cannot answer the questions about their own calls.
    """

    scopes: Sequence[str] | None = None
    rate: str = ""
    running: int | None = None
    questions: str = ""
    answered_by: Sequence[str] = ()
    webhook: WebhookSettings | None = None
    claims: Sequence[Json] = ()
    member_of: str = ""
    self_approval: bool = True
    tools: Sequence[str] | None = None
    effects: Sequence[Effect] | None = None
    arguments: Mapping[str, Sequence[Json]] = field(default_factory=dict)

    def build_rules(self) -> CallerRules:
        """Return the rules in the form that a server accepts."""
        scopes = None if self.scopes is None else frozenset(self.scopes)
        rate = RateLimit.parse(self.rate) if self.rate else None
        return CallerRules(
            scopes=scopes,
            rate=rate,
            running=self.running,
            inbox=self.questions == "inbox",
            answered_by=frozenset(self.answered_by),
            claims=read_ask_when(self.claims, "a caller", "claims"),
            member_of=self.member_of,
            self_approval=self.self_approval,
            bound=_build_bound(self.tools, self.effects)._replace(
                arguments=tuple(
                    (pattern, read_ask_when(some, pattern, "arguments")) for pattern, some in self.arguments.items()
                )
            ),
        )


def _build_bound(tools: Sequence[str] | None, effects: Sequence[Effect] | None) -> ToolBound:
    return ToolBound(
        tools=None if tools is None else tuple(tools), effects=None if effects is None else frozenset(effects)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSettings:
    """Some of the tools of a gateway, at a URL of their own; see ``ToolBound``."""

    title: str = ""
    tools: Sequence[str] | None = None
    effects: Sequence[Effect] | None = None

    def build_bundle(self, name: str) -> ToolBundle:
        """Return the bundle called ``name`` as a server takes it."""
        return ToolBundle(_build_bound(self.tools, self.effects), self.title or name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """What to serve, and to which callers.

    Workers receive the settings in the environment, because other users can read a command line.

    - ``targets``: what to serve. For a gateway, set ``upstreams`` instead.
    - ``server``: server options that are plain text or numbers.
    - ``api_keys``, ``limits``, ``consent``: further options, as written. ``build_app`` reads them.

    Raises:
        DefinitionError: ``server`` contains an option that is also a field of these settings.
    """

    targets: Sequence[str] = ()
    server: ServerOptions = field(default_factory=ServerOptions)
    api_keys: Sequence[str] = field(default=(), repr=False)
    limits: Sequence[str] = ()
    consent: HostConsent = ""
    document: str | None = None
    works: bool = True
    jobs: int = 10
    tokens: TokenOptions = field(default_factory=TokenOptions)
    log: str = "text"
    metrics_address: str = ""
    metrics_folder: str = ""
    gateway_record: str = ""
    otlp: str = field(default="", repr=False)
    agree: bool = False
    returns: Sequence[str] = ()
    webhook: WebhookSettings | None = None
    remote: RemoteOptions = field(default_factory=RemoteOptions, repr=False)
    upstreams: Sequence[UpstreamSettings] = ()
    callers: Mapping[str, CallerSettings] = field(default_factory=dict)
    bundles: Mapping[str, BundleSettings] = field(default_factory=dict)
    key_file: str = ""
    sign_in: SignInSettings | None = None
    is_one_process: bool = True

    def __post_init__(self) -> None:
        # What the server would be given twice is refused in one of the places, or keys could be lost without a word.
        for name in _READ_FROM_SETTINGS:
            if getattr(self.server, name) != getattr(_NO_OPTIONS, name):
                text = "the settings have it themselves" if hasattr(self, name) else "the settings decide it"
                raise DefinitionError(f"Remove {name} from the server's options: {text}.")

    @property
    def can_wait_for_answers(self) -> bool:
        """Whether a call can wait in this process for its caller's answer. With several workers, it cannot."""
        # MC-09: the answer may come to another worker.
        return self.is_one_process and self.server.sessions != "none"

    @property
    def has_self_approval(self) -> bool:
        """Whether users can answer questions about their own calls."""
        return all(one.self_approval for one in self.callers.values())

    @property
    def has_inbox(self) -> bool:
        """Whether questions go to the inbox, for clients that cannot ask their users or for some callers."""
        is_asked = self.consent == "inbox" or any(one.questions == "inbox" for one in self.callers.values())
        return is_asked or any(one.approvers for one in self.upstreams)

    def to_json(self) -> str:
        """Return the settings as JSON, for ``read_settings``."""
        parts = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "server"}
        given = {one.name: getattr(self.server, one.name) for one in fields(self.server)}
        plain = {name: value for name, value in given.items() if value != getattr(_NO_OPTIONS, name)}
        return json.dumps({**parts, "server": plain}, default=asdict)


def read_settings(text: str) -> ServeSettings:
    """Return the settings that ``to_json`` wrote."""
    data: dict[str, Any] = json.loads(text)
    upstreams = tuple(
        UpstreamSettings(remote=_read_remote(one.pop("remote", {})), **one) for one in data.pop("upstreams", ())
    )
    remote = _read_remote(data.pop("remote", {}))
    callers = {
        name: CallerSettings(webhook=_read_webhook(one.pop("webhook", None)), **one)
        for name, one in data.pop("callers", {}).items()
    }
    data["bundles"] = {name: BundleSettings(**one) for name, one in data.pop("bundles", {}).items()}
    data["webhook"] = _read_webhook(data.pop("webhook", None))
    data["returns"] = tuple(data.pop("returns", ()))
    sign_in = _read_sign_in(data.pop("sign_in", None))
    tokens, server = TokenOptions(**data.pop("tokens", {})), ServerOptions(**data.pop("server", {}))
    return ServeSettings(
        server=server, tokens=tokens, remote=remote, upstreams=upstreams, callers=callers, sign_in=sign_in, **data
    )


def _read_remote(data: dict[str, Any]) -> RemoteOptions:
    # JSON has no tuples, and two records of the same options are equal.
    values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in data.items()}
    return RemoteOptions(**values)


def _read_sign_in(data: dict[str, Any] | None) -> SignInSettings | None:
    if data is None:
        return None
    clients = {name: ClientSettings(**one) for name, one in data.pop("clients").items()}
    provider = data.pop("provider")
    return SignInSettings(**data, clients=clients, provider=None if provider is None else ProviderSettings(**provider))


def _read_webhook(data: dict[str, Any] | None) -> WebhookSettings | None:
    return None if data is None else WebhookSettings(**data)


def list_caller_rules(settings: ServeSettings) -> dict[str, CallerRules]:
    """Return the rules for callers by name."""
    return {name: one.build_rules() for name, one in settings.callers.items()}


def choose_lasting_state(settings: ServeSettings) -> ServeSettings:
    """Return ``settings`` with a folder of this user for the state, if they name none: one for these targets."""
    # ST-01: long calls and receipts must outlive the process. Other calls are then recorded there too.
    if find_state_places(settings.server.state) != StatePlaces():
        return settings
    if settings.server.state or os.environ.get(STATE_VARIABLE):  # "memory" was asked for
        return settings
    folder = Path.cwd()
    named = [str(folder / text) if (folder / text).exists() else text for text in settings.targets]
    name = sha256(json.dumps(named or [one.target for one in settings.upstreams]).encode()).hexdigest()[:16]
    place = str(find_state_folder() / "servers" / name)
    return replace(settings, server=replace(settings.server, state=place))
