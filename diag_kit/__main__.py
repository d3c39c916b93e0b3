"""The command line: ``python -m diag_kit diagnose|record|report|score|probes``. Exit 0 ran, 1 could not observe, 2 usage."""

from __future__ import annotations

import sys

from diag_kit.cli import main

if __name__ == "__main__":
    sys.exit(main())
