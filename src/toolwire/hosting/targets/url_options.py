"""Read how the servers of targets are reached: their keys, header fields and networks, and which tools are selected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolwire.client.discovery.overlays import read_overlay
from toolwire.client.transport.network import NetworkAccess
from toolwire.client.transport.request_headers import read_site_headers
from toolwire.client.transport.server_command import read_server_command
from toolwire.client.transport.tls import check_ca_file
from toolwire.client.transport.url_policy import allow_origins_in_private_networks, read_url
from toolwire.consent import DefinitionLock, Preferences, read_lock
from toolwire.core.errors import DefinitionError, UsageError
from toolwire.core.model import ANONYMOUS, Approval, Context, Problem, Secret, Tool
from toolwire.core.resources import DEFAULT_RESULT_LIMITS, ResultLimits
from toolwire.core.selection import DEFAULT_SELECTION, Selection
from toolwire.core.url_display import show_url
from toolwire.core.url_origin import complete_url, get_origin
from toolwire.hosting.options import READING_S, RETURNS, TOTAL_S, RemoteOptions

if TYPE_CHECKING:  # signing in is rare, and a lot of code
    from toolwire.client.login import SignInOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlOptions:
    """How to reach a URL: the key of its server, the one protocol to look for, the lock, which tools and networks."""

    key: Secret | None = None
    account: str = ""
    protocol: str | None = None
    locked: DefinitionLock | None = None
    selection: Selection = DEFAULT_SELECTION
    agree: Callable[[tuple[Tool, ...]], bool] | None = field(default=None, compare=False)
    sign_in: SignInOptions | None = None
    context: Context = field(default=ANONYMOUS, compare=False)
    access: NetworkAccess = field(default_factory=NetworkAccess, compare=False)
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    result_limits: ResultLimits = field(default=DEFAULT_RESULT_LIMITS, compare=False)
    include_site_description: bool = field(default=False, compare=False)
    approval: Approval | None = None
    timeout_s: float = TOTAL_S
    discovery_s: float = READING_S
    offline: bool = field(default=False, compare=False)

    def list_connect_options(self) -> dict[str, Any]:
        """Return the options of ``connect`` that say the same."""
        return {
            "api_key": self.key,
            "account": self.account,
            "protocol": self.protocol,
            "locked": self.locked,
            "selection": self.selection,
            "agree": self.agree,
            "sign_in": self.sign_in,
            "context": self.context,
            "headers": self.headers,
            "caps": self.result_limits,
            "include_site_description": self.include_site_description,
            "preferences": Preferences(everything=self.approval),
            "timeout_s": self.timeout_s,
            "discovery_s": self.discovery_s,
            **self.access,
        }


def read_selection(remote: RemoteOptions) -> Selection:
    """Return the selection of tools by the options.

    Raises:
        UsageError: there is no such overlay, or it is none.
    """
    try:
        laid = None if remote.overlay is None else read_overlay(remote.overlay)
    except ValueError as error:
        raise UsageError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return Selection(
        include=remote.include,
        tags=tuple(remote.tag),
        paths=tuple(remote.path),
        methods=tuple(remote.method),
        names=tuple(remote.match),
        safe_only=remote.safe_only,
        deprecated=not remote.no_deprecated,
        server=remote.server or "",
        elsewhere=remote.follow,
        overlay=laid,
        any_version=remote.any_version,
        document_bytes=remote.document_bytes,
    )


def read_url_options(
    remote: RemoteOptions, urls: Sequence[str], *, discovery_s: float = READING_S, offline: bool = False
) -> UrlOptions:
    """Return the key, the protocol and the selection of the options, which hold for each of ``urls``.

    ``discovery_s`` is how long finding each server may take. With ``offline``, only what is stored is used.

    Raises:
        UsageError: an option is not valid, or is for one site and there are several.
    """
    key = read_key(remote.key, remote.key_env)
    if key is not None and len(urls) > 1:
        raise UsageError("A key is for one server. With several servers, sign in to each with `toolwire login` first.")
    if len(urls) > 1 and (remote.overlay is not None or remote.server):
        raise UsageError("--overlay and --server are for one server, but several are given.")
    headers = read_headers(remote)
    if headers and len(urls) > 1:
        raise UsageError("--header and --header-env are for one server, but several are given.")
    return UrlOptions(
        key=key,
        account=remote.account,
        protocol=remote.protocol,
        selection=read_selection(remote),
        access=read_access(remote),
        headers=headers,
        include_site_description=remote.include_site_description,
        discovery_s=discovery_s,
        offline=offline,
    )


def read_headers(remote: RemoteOptions) -> dict[str, str | Secret]:
    """Return the header fields of the options; those of ``--header-env`` are secrets.

    Raises:
        UsageError: one of them cannot be sent, or the environment has no such variable.
    """
    # XL-089
    pairs: list[tuple[str, str | Secret]] = []
    for text in remote.header:
        name, colon, value = text.partition(":")
        if not colon:
            raise UsageError(f"Write --header as NAME: VALUE, not {name!r}.")
        pairs.append((name.strip(), value.strip()))
    for text in remote.header_env:
        name, _, variable = text.partition("=")
        found = os.environ.get(variable)
        if found is None:
            raise UsageError(f"The environment variable {variable!r} is not set. Write --header-env as NAME=VARIABLE.")
        pairs.append((name.strip(), Secret(found.strip())))
    names = [name.lower() for name, _ in pairs]
    if len(set(names)) < len(names):
        raise UsageError("A header is given twice.")
    try:
        read_site_headers(dict(pairs))
    except ValueError as error:
        raise UsageError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return dict(pairs)


def read_access(remote: RemoteOptions) -> NetworkAccess:
    """Return what the options allow beyond the public internet.

    Raises:
        UsageError: one of them is no origin, or the CA file cannot be used.
    """
    allow_private, allow_http, ca_file = remote.allow_private, remote.allow_http, remote.ca_file
    try:
        allow_origins_in_private_networks(allow_private, allow_http)
        check_ca_file(ca_file)
    except ValueError as error:
        raise UsageError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error
    return NetworkAccess(allow_private=allow_private, allow_http=allow_http, ca_file=ca_file)


def read_approval(level: str | None) -> Approval | None:
    """Return the level that the user wants for every call, if there is one: per-call or deny."""
    return None if level is None else Approval(level)


def read_returns(texts: Iterable[str]) -> Preferences:
    """Return what ``texts``, such as ``read_mail=private``, say that tools return, as a user's preferences."""
    # QF-06
    named = [text.rpartition("=") for text in texts]
    private, untrusted = (frozenset(name for name, _, what in named if what == each) for each in RETURNS)
    return Preferences(private=private, untrusted=untrusted)


def read_lock_file(file: Path, *, optional: bool = False) -> DefinitionLock:
    """Return the lock in ``file``; an empty one where it is ``optional`` and is not there.

    Raises:
        UsageError: it cannot be read, or is no lock.
    """
    if optional and not file.exists():
        return DefinitionLock()
    try:
        return read_lock(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"Cannot read the lock file {file}: {why}. `toolwire lock URL` creates one.") from error
    except DefinitionError as error:
        raise UsageError(f"{file}: {error}") from error


def read_key(key: str | None, key_env: str | None) -> Secret | None:
    """Return the key of the options, if there is one.

    Raises:
        UsageError: a header cannot carry it, or the environment has no variable of that name.
    """
    if key_env is not None:
        key = os.environ.get(key_env)
        if key is None:
            raise UsageError(f"The environment variable {key_env} is not set.")
    if key is None:
        return None
    if not (key.isascii() and key.isprintable() and key.strip()):
        raise UsageError("The key is empty or contains an invalid character.")
    return Secret(key.strip())


def find_site(target: str) -> str:
    """Return the origin that stands for ``target``: that of its URL, or of the program that it names.

    Raises:
        UsageError: it is neither.
    """
    command = read_server_command(target)
    return get_origin(complete_url(check_url(target)) if command is None else command.url)


def check_url(url: str) -> str:
    """Return ``url``, which has a scheme or gets https.

    Raises:
        UsageError: it is not an http or https URL.
    """
    if read_server_command(url) is not None:
        raise UsageError("This command needs a server URL, but the target is a program on this machine.")
    found = read_url(complete_url(url))
    if isinstance(found, Problem):
        raise UsageError(f"{show_url(url)}: {found.message}")
    return url
