"""The command line: ``python -m diag_kit diagnose|record|report|score|probes|facts``.

Exit status: 0 ran, 1 could not observe (or cannot run in this Python), 2 usage, 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import sys


def run() -> int:
    """The command line, or one sentence where this Python is not the one that the kit was installed into."""
    if sys.hexversion < 0x030B0000:
        return _wrong_python(f"diag_kit needs Python 3.11 or newer, and {sys.executable} is {sys.version.split()[0]}")
    try:
        from diag_kit.cli import main

        return main()
    except KeyboardInterrupt:  # while it was still loading
        print("diag_kit: stopped by the user", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        if not error.name or error.name.split(".")[0] == "diag_kit":
            raise
        return _wrong_python(f"{error.name.split('.')[0]} is not installed for {sys.executable}")


def _wrong_python(what: str) -> int:
    print(
        f"diag_kit: {what}\n"
        "next:  .venv/bin/python -m diag_kit ... (make demo makes .venv and installs everything into it), "
        "or: python -m pip install -e . in an environment of your own",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(run())
