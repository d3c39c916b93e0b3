"""Error texts that stand where output should: the tool is missing, or does not know the option. Never data. Pure.

Forms: bash, dash, zsh, fish, PowerShell, Debian's command-not-found, containers' runc, procps, util-linux and busybox.
"""

from __future__ import annotations

import re

_MISSING = (
    re.compile(r"^(?:[\w./-]{1,60}: (?:line )?(?:\d+: )?)?([\w./+-]{1,60}): (?:command )?not found$"),
    re.compile(r"^(?:zsh|bash): command not found: ([\w./+-]{1,60})$"),
    re.compile(r"^fish: Unknown command:? '?([\w./+-]{1,60})'?"),
    re.compile(r"^(?:Command|The program) '([\w./+-]{1,60})' (?:not found|is currently not installed)"),
    re.compile(r"^'?([\w./+-]{1,60}?)'? *: ?(?:The term .*)?is not recognized as"),
    re.compile(r"exec: \"?([\w./+-]{1,60})\"?: executable file not found"),
    re.compile(r"^([\w./+-]{1,60}): applet not found$"),
    re.compile(r"^(?:ba|da|z|k)?sh: (?:\d+: )?([\w./+-]{1,60}): No such file or directory$"),
)
_OPTION = re.compile(
    r"^([\w./-]{1,60}): (?:bad -o argument|(?:unrecognized|invalid|unknown|illegal) option(?: --)?)[ :'\"=-]*([\w%-]{1,40})?"
)
_PROCPS = re.compile(r"^error: ((?:unsupported|unknown|garbage|improper|TTY could)[^\n]{0,120})$")
_DENIED = re.compile(
    r"^([\w./-]{1,60}): (?:cannot [^\n]{1,200}: )?(Permission denied|Operation not permitted|Stale file handle"
    r"|Transport endpoint[^\n]*)$"
)


def _dashed(line: str, option: re.Match[str]) -> str:
    """A short option as one types it: getopt prints its letter only (musl: ``unrecognized option: p``)."""
    return f"-{option[2]}" if len(option[2]) == 1 and "bad -o argument" not in line else option[2]


def tool_errors(text: str, most: int = 10) -> list[str]:
    """One sentence for each error in a text."""
    said: list[str] = []
    for line in text[:20000].split("\n"):
        line = line.strip()[:400]
        if missing := next((found for pattern in _MISSING if (found := pattern.search(line))), None):
            said.append(f"{missing[1]} is not installed there: nothing was observed by it")
        elif option := _OPTION.match(line):
            name = f" {_dashed(line, option)}" if option[2] else ""
            said.append(f"{option[1]} there does not know the option{name}: nothing was observed by it")
        elif line.startswith("BusyBox v"):
            said.append("it is the program of BusyBox, with fewer options")
        elif error := _PROCPS.match(line):
            said.append(f"ps refused: {error[1]}")
        elif denied := _DENIED.match(line):
            said.append(f"{denied[1]} may not or cannot read: {denied[2]}")
    return list(dict.fromkeys(said))[:most]
