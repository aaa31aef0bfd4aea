"""What MCP hosts show their users and do with tools, from their public documentation.

Rules:
- Each fact names the page that states it, and the day on which it was noted. Where no page states it, there is none.
- A profile chooses how a user is asked, never whether: the name of a client is a claim that anybody can make. A server
  goes by what a client declares, and by whether it answers. ``toolwire install`` knows the host that it writes for.
"""
# QF-07

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, NamedTuple

from toolwire.core.resources import DEFAULT_RESULT_LIMITS

YES: Final = "yes"
NO: Final = "no"
_NOTED: Final = "2026-11-27"

_APPS: Final = "https://blog.modelcontextprotocol.io/posts/2026-01-26-mcp-apps/"
_CLAUDE_CODE: Final = "https://code.claude.com/docs/en/mcp"
_CODEX_FORMS: Final = "https://github.com/openai/codex/issues/29344"
_CURSOR: Final = "https://cursor.com/docs/mcp"
_GEMINI: Final = "https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md"
_GEMINI_TOOL: Final = "https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/tools/mcp-tool.ts"
_VSCODE: Final = "https://code.visualstudio.com/api/extension-guides/mcp"
_VSCODE_CLIENT: Final = (
    "https://github.com/microsoft/vscode/blob/main/src/vs/workbench/contrib/mcp/common/mcpServerRequestHandler.ts"
)
_WINDSURF: Final = "https://docs.windsurf.com/windsurf/cascade/mcp"
_ZED: Final = "https://zed.dev/docs/ai/mcp"


class Fact(NamedTuple):
    """What ``page`` states: yes, no, or a few words. ``noted`` is the day on which that was noted here."""

    says: str
    page: str
    noted: str = _NOTED


class HostProfile(NamedTuple):
    """One host: its title, the names by which its clients introduce themselves, and what is known of it.

    ``forms``, ``pages``, ``progress``, ``apps`` and ``changes`` say whether users see forms, pages to open, progress
    and MCP Apps, and whether the host notices changed lists. ``tools`` is what it does with their names and number,
    ``errors`` with ``isError``, and ``results`` the longest result. ``search`` says whether its model searches tools.
    ``characters`` is the longest result that its model is given whole, 0 for every result.
    """

    title: str
    clients: tuple[str, ...]
    characters: int = DEFAULT_RESULT_LIMITS.characters
    forms: Fact | None = None
    pages: Fact | None = None
    progress: Fact | None = None
    apps: Fact | None = None
    changes: Fact | None = None
    tools: Fact | None = None
    errors: Fact | None = None
    search: Fact | None = None
    results: Fact | None = None

    @property
    def shows_forms(self) -> bool:
        """Whether the host says that it shows forms."""
        return self.forms is not None and self.forms.says == YES

    def list_facts(self) -> Mapping[str, Fact | None]:
        """Return each fact by its name."""
        return dict(zip(self._fields[3:], self[3:], strict=True))


HOST_PROFILES: Final[Mapping[str, HostProfile]] = {
    "claude-desktop": HostProfile("Claude Desktop", ("claude-ai",), apps=Fact(YES, _APPS)),
    "claude-code": HostProfile(
        "Claude Code",
        ("claude-code",),
        50_000,  # two characters for a token: no text has more tokens than its limit
        forms=Fact(YES, _CLAUDE_CODE),
        pages=Fact(YES, _CLAUDE_CODE),
        changes=Fact(YES, _CLAUDE_CODE),
        tools=Fact("adds `mcp__SERVER__` before the name", _CLAUDE_CODE),
        search=Fact(YES, _CLAUDE_CODE),
        results=Fact("25,000 tokens", _CLAUDE_CODE),
    ),
    "cursor": HostProfile("Cursor", ("cursor-vscode",), forms=Fact(YES, _CURSOR), apps=Fact(YES, _CURSOR)),
    "vscode": HostProfile(
        "VS Code",
        ("Visual Studio Code", "Visual Studio Code - Insiders"),
        forms=Fact(YES, _VSCODE),
        apps=Fact(YES, _APPS),
        changes=Fact(YES, _VSCODE_CLIENT),
    ),
    "windsurf": HostProfile("Windsurf", ("windsurf-client",), tools=Fact("at most 100 tools", _WINDSURF)),
    "zed": HostProfile("Zed", ("Zed",), forms=Fact(NO, _ZED), pages=Fact(NO, _ZED), changes=Fact(YES, _ZED)),
    # Deep research reads the results of search and fetch by program, in the form that OpenAI defines.
    "chatgpt": HostProfile("ChatGPT", ("openai-mcp",), 0, apps=Fact(YES, _APPS)),
    "codex": HostProfile("Codex", ("codex-mcp-client",), forms=Fact(YES, _CODEX_FORMS), pages=Fact(NO, _CODEX_FORMS)),
    "gemini-cli": HostProfile(
        "Gemini CLI",
        ("gemini-cli-mcp-client",),
        tools=Fact("keeps 63 characters of the name", _GEMINI),
        errors=Fact("tells the model that the tool failed", _GEMINI_TOOL),
    ),
}
"""The profiles by the names that the command line knows the hosts by. ChatGPT starts no programs."""


@cache
def _index_clients() -> Mapping[str, HostProfile]:
    return {client: profile for profile in HOST_PROFILES.values() for client in profile.clients}


def find_profile(client: str) -> HostProfile | None:
    """Return the profile of the host whose clients introduce themselves as ``client``; None if it is unknown."""
    return _index_clients().get(client)
