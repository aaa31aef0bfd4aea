"""Print a table: drawn to the width of a terminal, plain aligned text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from .screen import has_colours

_GAP = "  "


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Print ``rows`` below the names of the ``columns``. The texts must be escaped already."""
    if not stream.isatty() or not _print_drawn(columns, rows, stream):
        _print_plain(columns, rows, stream)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    lines = [[column.upper() for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        print(_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip(), file=stream)


def _print_drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> bool:
    try:
        from rich.console import Console  # 40 ms, and only the extra brings it
        from rich.table import Table  # likewise
        from rich.text import Text  # likewise
    except ImportError:  # the extra "cli" is not installed
        return False
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(Text(column.upper()), overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))  # Text, so that nothing in it is read as markup
    console = Console(
        file=stream,
        color_system="auto" if has_colours(stream) else None,  # rich's own no_color would still write bold
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(table)
    return True
