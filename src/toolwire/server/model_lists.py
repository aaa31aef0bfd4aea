"""Decide which lists give a model three tools to find the others by, and make these lists."""
# FI-01

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from toolwire.core.catalog import Catalog
from toolwire.core.model import Approval
from toolwire.framing.list_size import fits_budget

from .options import ServerOptions


class ModelLists(NamedTuple):
    """The lists of a server with ``find="auto"``, for clients that give them to a model as they are.

    ``pins`` are listed beside the three tools. ``asks_all``: the server itself asks about each call that needs consent.
    ``asks_by_form``: it asks where its client shows forms.
    """

    pins: tuple[str, ...]
    asks_all: bool
    asks_by_form: bool

    def needs_short(self, catalog: Catalog, *, shows_forms: bool) -> bool:
        """Return whether ``catalog`` is too long for the model of a client that searches none by itself.

        A client that is trusted to ask its user does so by the hints of each tool, and remembers the answer for it. In
        a short list these would be the hints of ``call``, so that one answer would hold for all tools.
        """
        if fits_budget(catalog):
            return False
        return self.asks_all or (self.asks_by_form and shows_forms) or not _needs_consent(catalog)

    def shorten(self, catalog: Catalog) -> Catalog:
        """Return the short list of ``catalog``."""
        return shorten_list(catalog, self.pins)


def shorten_list(catalog: Catalog, pins: tuple[str, ...]) -> Catalog:
    """Return the list of ``find``, ``describe``, ``call`` and ``pins`` that stands for ``catalog``."""
    from toolwire.find import short_list  # a server that lists all its tools pays nothing for it

    return short_list.shorten_list(catalog, pins)


def open_model_lists(options: ServerOptions, *, needs_receipts: bool) -> ModelLists | None:
    """Return the lists of ``options``, or None if all clients get the same one."""
    if options.find != "auto":
        return None
    asks_all = options.consent != "hints" or needs_receipts
    return ModelLists(tuple(options.pins), asks_all, asks_by_form=options.ask_hosts)


def build_shortener(options: ServerOptions) -> Callable[[Catalog], Catalog]:
    """Return what makes the list of every protocol."""
    pins = tuple(options.pins)
    return partial(shorten_list, pins=pins) if options.find == "always" else lambda catalog: catalog


def _needs_consent(catalog: Catalog) -> bool:
    from toolwire.consent import effective_level  # brings all of consent, which few servers need

    return any(effective_level(tool) is not Approval.AUTO for tool in catalog.tools)
