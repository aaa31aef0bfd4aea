"""Print a table: drawn to the width of a terminal, plain aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from toolwire.core.model import Json

from .screen import has_colours, json_text

if TYPE_CHECKING:
    from rich.console import Console

_GAP = "  "
_LONG_WORD = 30
"""A longer word, such as a URL, can be broken."""


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    """Print ``rows`` below the names of the ``columns``. The texts must be escaped already."""
    if not stream.isatty() or not _print_drawn(columns, rows, stream):
        _print_plain(columns, rows, stream)


def print_list(
    data: Json, columns: Sequence[str], rows: Sequence[Sequence[str]], nothing: str, *, as_json: bool
) -> None:
    """Print ``data`` as JSON, or ``rows`` as a table on standard output; without any, the sentence ``nothing``."""
    if as_json:
        print(json_text(data, indent=2))
    elif rows:
        print_table(columns, rows, sys.stdout)
    else:
        print(nothing)


def _print_plain(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> None:
    lines = [[column.upper() for column in columns], *rows]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    for line in lines:
        print(_GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip(), file=stream)


def _print_drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO) -> bool:
    try:
        from rich.cells import cell_len  # 40 ms, and only the extra brings it
        from rich.console import Console  # likewise
        from rich.table import Table  # likewise
        from rich.text import Text  # likewise
    except ImportError:  # the extra "cli" is not installed
        return False
    console = Console(
        file=stream,
        color_system="auto" if has_colours(stream) else None,  # rich's own no_color would still write bold
        markup=False,
        emoji=False,
        highlight=False,
    )
    lines = [[column.upper() for column in columns], *rows]
    wanted = [max(map(cell_len, cells)) for cells in zip(*lines, strict=True)]
    widths = [
        max(min(cell_len(word), _LONG_WORD) for cell in cells for word in cell.split() or [""])
        for cells in zip(*lines, strict=True)
    ]
    free = console.width - sum(widths) - len(_GAP) * (len(widths) - 1)
    if free < 0:
        _print_records(columns, rows, console)
        return True
    for _ in range(free):  # the narrowest that wants more: most columns are then on one line
        short = [index for index, width in enumerate(widths) if width < wanted[index]]
        if short:
            widths[min(short, key=widths.__getitem__)] += 1
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(Text(column.upper()), overflow="fold", width=width)
    for row in rows:
        table.add_row(*map(Text, row))  # Text, so that nothing in it is read as markup
    console.print(table)
    return True


def _print_records(columns: Sequence[str], rows: Sequence[Sequence[str]], console: Console) -> None:
    """Print each row as a list, for a terminal so narrow that the words of a table would be broken."""
    # FD-03
    from rich.text import Text  # as above

    for number, row in enumerate(rows):
        console.print(*([""] if number else []), Text(row[0], style="bold"), sep="\n")
        for column, cell in zip(columns[1:], row[1:], strict=True):
            if cell:
                console.print(Text(f"  {column}: {cell}"))
