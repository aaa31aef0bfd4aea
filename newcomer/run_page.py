"""Run the blocks of a page of the documentation with the installed package: ``python -m newcomer.run_page PAGE``."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs.blocks import read_blocks
from tests.docs.page import Page, run_blocks


def main() -> None:
    """Run every block of the page, in an empty folder."""
    with TemporaryDirectory() as folder:
        page = Page(Path(folder))
        try:
            run_blocks(page, read_blocks(Path(sys.argv[1]).read_text(encoding="utf-8")))
        finally:
            page.close()


main()
