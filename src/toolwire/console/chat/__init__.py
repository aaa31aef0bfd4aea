"""Talk in a browser to a model that can call the tools of sites, with the user's consent on the same page."""

from .chat_pages import build_chat_group
from .conversation import Conversation
from .model_settings import ModelSettings, ModelStore
from .settings_page import ModelChoice

__all__ = ["Conversation", "ModelChoice", "ModelSettings", "ModelStore", "build_chat_group"]
