"""Build the browser chat of this user: for ``toolwire chat --browser``, and as a page of ``toolwire console``."""
# CO-03

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from toolwire.client.login.saved_credentials import open_credentials
from toolwire.console import ConsoleSource
from toolwire.console.app import PageGroup
from toolwire.console.chat import Conversation, ModelChoice, ModelSettings, ModelStore, build_chat_group
from toolwire.core.model import Secret
from toolwire.stores.consent.open import is_in_database
from toolwire.stores.paths import find_state_folder

from .terminal.terminal_approver import open_session


class BrowserChat(NamedTuple):
    """A chat, and its pages."""

    conversation: Conversation
    group: PageGroup


def build_browser_chat(
    source: ConsoleSource, *, given: ModelSettings | None = None, given_key: Secret | None = None
) -> BrowserChat:
    """Return the chat of this user over the stores of ``source``; ``given`` is the model of the command line.

    Raises:
        DefinitionError: another user of the machine can write where the settings are.
    """
    credentials = open_credentials()
    # Which model one talks to is a setting of this machine, also if decisions are in a database.
    folder = find_state_folder() if is_in_database(source.place) else Path(source.place)
    choice = ModelChoice(ModelStore(folder, credentials), given=given, given_key=given_key)
    session = open_session()
    conversation = Conversation(choice.make_model, session=session, credentials=credentials)
    return BrowserChat(conversation, build_chat_group(conversation, source, choice))
