"""No public call leaves the person out."""

from __future__ import annotations

import inspect

import pytest

import toolwire
from toolwire import Kind, Problem, Toolkit
from toolwire.client import Remote, SyncRemote
from toolwire.client.connection.connection import Connection
from toolwire.client.connection.options import ConnectOptions
from toolwire.client.connection.remote_core import RemoteCore
from toolwire.testing.loopback import background

CALLING = {"call", "run", "start"}


@pytest.mark.requirement("XL-057")
@pytest.mark.parametrize("remote", [Remote, SyncRemote])
def test_every_public_call_method_of_a_remote_uses_the_call_pipeline(remote: type) -> None:
    public = {name: inspect.getattr_static(remote, name) for name in dir(remote) if not name.startswith("_")}
    for name, member in public.items():
        source = inspect.getsource(member.fget if isinstance(member, property) else member)
        if name in CALLING:
            assert any(way in source for way in ("self._call(", "self._run_now("))
        else:
            assert "_transport" not in source
    assert "self._run(" in inspect.getsource(RemoteCore._call)
    assert "self._run(" in inspect.getsource(Remote._run_now)
    assert "connection.run(" in inspect.getsource(RemoteCore._run)


@pytest.mark.requirement("XL-057")
def test_no_option_disables_approval() -> None:
    words = ("skip", "trust", "unsafe", "force", "auto", "bypass", "without", "no_", "yes")
    names = [*inspect.signature(toolwire.connect).parameters, *inspect.signature(ConnectOptions).parameters]
    assert [name for name in names if any(word in name for word in words)] == []
    public = [getattr(Connection, name) for name in dir(Connection) if not name.startswith("_")]
    flows = [one for one in public if callable(one) and "Flow" in str(inspect.signature(one).return_annotation)]
    # "follow" and "list_long_calls" only read calls that were made, or cancel one (LC-05).
    assert [one.__name__ for one in flows] == ["follow", "list_long_calls", "run"]


@pytest.mark.requirement("XL-057", "XL-053")
def test_every_call_method_is_denied_without_an_approver() -> None:
    kit, ran = Toolkit("Kit"), []

    @kit.tool(approval="per-call")
    def act() -> None:
        """Do something."""
        ran.append(1)

    with background(toolwire.asgi(kit)) as url, toolwire.connect_sync(url) as remote:
        for name in sorted(CALLING & set(dir(remote))):
            result = getattr(remote, name)("act")
            assert isinstance(result, Problem)
            message = {"denied": True, "reason": "no approver is configured, so no user was asked"}  # FU-53
            assert (result.kind, result.details) == (Kind.DENIED, message)
    assert ran == []
