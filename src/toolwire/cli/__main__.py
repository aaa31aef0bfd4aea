"""``python -m toolwire.cli``."""

import sys

from .program import main

if __name__ == "__main__":
    sys.exit(main())
