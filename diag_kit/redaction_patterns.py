"""What a secret or a name of somebody looks like in text: pure functions from a text to spans.

Written for logs, command lines, environments and the output of system tools, where "token" is mostly a number of a language
model and 12.4.5.8 a library version: a pattern that would damage such a line is narrowed until it does not.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from diag_kit.redaction_secrets import REPLACED, SECRETS_ACROSS_LINES, SECRETS_IN_LINE, URL_LOGIN, is_login
from diag_kit.redaction_spans import Finders, Span, simple
from diag_kit.redaction_words import NEUTRAL_HOSTS, SYSTEM_USERS, TOP_DOMAINS

_DIGITS_ALIKE = str.maketrans("0123456789", "1111111111")
_EMAIL = re.compile(
    r"(?<![\w.+%-])[A-Za-z0-9_][\w.+%-]*@(?P<domain>(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)+(?P<top>[A-Za-z]{2,12}))"
    r"(?![\w-])"
)
_ALGORITHMS = frozenset(("openssh.com", "libssh.org"))  # aes128-gcm@openssh.com is the name of a cipher
_GPU_UUID = re.compile(r"(?<![A-Za-z0-9])(?:GPU|MIG)-(?P<value>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![\w-])", re.I)
_MAC = re.compile(
    r"(?<![\w:.-])(?:(?:[0-9A-F]{2}:){19}|(?:[0-9A-F]{2}:){7}|(?:[0-9A-F]{2}:){5}|(?=[0-9-]*[A-F])(?:[0-9A-F]{2}-){5})"
    r"[0-9A-F]{2}(?![\w:-])",
    re.I,
)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]*\d)(?!\w)")
_VERSION_BEFORE = re.compile(r"(?:[=<>~!]=|[A-Za-z0-9][-_]|\w/|version\W{0,6}|-cu\d\d\W{1,40}|\bnvidia-[\w-]+\W{1,40})\Z", re.I)
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-F:]*:[0-9A-F:]*:)[0-9A-F:]{3,39}(?![\w:]|\.\d)", re.I)
_SERIAL = re.compile(
    r"(?:\bserial(?:[ _-]?(?:number|no))?\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?|<serial>)"
    r"(?P<value>(?=[A-Za-z-]*\d)[A-Za-z0-9-]{6,40})\b",
    re.I,
)
_SERIAL_COLUMN = re.compile(r"[ \t]*(?:gpu_)?serial[ \t]*\Z")
_HOME = re.compile(r"(?:/(?:home|homes|Users|users)/|\\{1,4}Users\\{1,4})(?P<value>[A-Za-z0-9_][\w.@-]*[\w-]|[A-Za-z0-9_])")
_USER_VARIABLE = re.compile(
    r"(?<![A-Za-z0-9_])(?:USER|LOGNAME|SUDO_USER|SLURM_JOB_USER|PBS_O_LOGNAME"
    r"|(?:[A-Z][A-Z0-9_]{0,60}_)?USERNAME|(?<=[,( \t])username)=(?P<value>[A-Za-z_][\w.-]*)"
)
_HOST = re.compile(
    r"^Linux (?:\S+ \((?P<iostat>[\w.-]+)\)[ \t]|(?P<uname>[\w.-]+) \d+\.\d+)"
    r"|[\"'](?:nodename|hostname)[\"']:[ \t]*[\"'](?P<json>[\w.-]+)"
    r"|(?<![A-Za-z0-9_])(?:HOSTNAME|SLURMD_NODENAME|MASTER_ADDR)=(?P<variable>[A-Za-z][\w.-]*)"
    r"|(?<![A-Za-z0-9_])SLURM_(?:JOB_|STEP_)?NODELIST="
    r"(?:(?P<node>[A-Za-z][\w.-]*(?=[\s\x00]|\Z))|(?P<nodes>(?!host\d+\[)[A-Za-z][\w.-]*[A-Za-z-](?=\d*\[)))"
    r"|(?<![\w./:-])(?P<mounted>[A-Za-z][\w.-]*):/\S{0,300}[ \t]+(?:on[ \t]+)?/\S{0,300}"
    r"[ \t]+(?:type[ \t]+)?(?:nfs\d?|ceph|fuse)\b"
    r"|(?<![\w.:-])(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL "
    r"|^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<syslog>[A-Za-z][\w.-]*) (?=[\w.-]+(?:\[\d+\])?:)"
    r"|(?<![\w-])(?P<dashed>ip-\d{1,3}(?:-\d{1,3}){3}(?:\.[a-z0-9-]+)*)(?![\w-])",
    re.M,
)
_HOST_HINTS = (
    "Linux ", "nodename", "hostname", "HOSTNAME=", "_NODENAME=", "MASTER_ADDR=", "_NODELIST=", ":/",
    " NCCL ", "ip-", "]: ", "kernel: ",
)  # fmt: skip


def find(text: str) -> Iterator[Span]:
    """All spans by pattern; they may overlap, and of two in one line the more telling pattern comes first.

    A log is the same few lines with other numbers, so each form of a line (its digits made alike) is searched once, and
    only lines of a form with a hit are searched themselves.
    """
    yield from _search(text, _ACROSS_LINES)
    one_ending = text.replace("\r", "\n")  # progress bars rewrite their line; no offset moves
    hit: dict[str, bool] = {}
    at = 0
    for line, form in zip(one_ending.split("\n"), one_ending.translate(_DIGITS_ALIKE).split("\n"), strict=True):
        if form not in hit:
            hit[form] = any(True for _ in _search(form, _IN_LINE))
        if hit[form]:
            for span in _search(line, _IN_LINE):
                yield Span(span.kind, at + span.start, at + span.end)
        at += len(line) + 1


def _search(text: str, finders: Finders) -> Iterator[Span]:
    lowered = text.lower()
    for hints, finder in finders:
        if any(hint in lowered for hint in hints):
            yield from finder(text)


def _url_user(text: str, match: re.Match[str]) -> bool:
    login = match["value"]
    if is_login(text, match) or REPLACED.match(login):
        return False
    return bool(re.fullmatch(r"[\w.+-]+", login)) and login not in SYSTEM_USERS and login != "git"


def _email(text: str, match: re.Match[str]) -> bool:
    top = match["top"].lower()
    domain = match["domain"].lower()
    known = top in TOP_DOMAINS or (len(top) == 2 and top != "py")
    if text.endswith("://", 0, match.start()):  # the user of a URL
        return False
    return (
        known
        and not match.group().startswith(("git@", "secret-"))
        and not domain.startswith("self.")
        and domain not in _ALGORITHMS
    )


def _ipv4(text: str, match: re.Match[str]) -> bool:
    parts = [int(part) for part in match.group().split(".")]
    if max(parts) > 255 or parts[0] in (0, 127, 255) or any(len(p) > 1 and p[0] == "0" for p in match.group().split(".")):
        return False
    return not _VERSION_BEFORE.search(text, max(0, match.start() - 60), match.start())


def _ipv6(text: str, match: re.Match[str]) -> bool:
    value = match.group()
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return False
    groups = [group for group in value.split(":") if group]
    routable = re.match(r"(?:[0-9][0-9a-f]{3}|f[cd][0-9a-f]{2}|fe[89ab][0-9a-f]):", value, re.I)
    return not (address.is_loopback or address.is_unspecified) and (len(groups) >= 3 or bool(routable))


def _mac(text: str, match: re.Match[str]) -> bool:
    digits = set(re.sub(r"[:-]", "", match.group().lower()))
    return digits not in ({"0"}, {"f"})


def _serial(text: str, match: re.Match[str]) -> bool:
    return not re.match(r"(?:secret-|person|user|host)\d", match["value"])


def _home_user(text: str, match: re.Match[str]) -> bool:
    return match["value"] not in SYSTEM_USERS


def _host(text: str, match: re.Match[str]) -> bool:
    return match[match.lastgroup or 0].lower() not in NEUTRAL_HOSTS


def _serial_columns(text: str) -> Iterator[Span]:
    """The cells under a CSV header ``serial``, until a line of another width."""
    column, width, at = -1, 0, 0
    for line in text.splitlines(keepends=True):
        cells = line.rstrip("\r\n").split(",")
        named = [number for number, cell in enumerate(cells) if _SERIAL_COLUMN.match(cell)]
        if named and len(cells) > 1:
            column, width = named[0], len(cells)
        elif column >= 0 and len(cells) == width:
            start = at + sum(len(cell) + 1 for cell in cells[:column])
            value = cells[column].strip()
            if any(c.isdigit() for c in value):
                start += cells[column].index(value)
                yield Span("serial", start, start + len(value))
        else:
            column = -1
        at += len(line)


# Each with what must be in the lowered text for it to be worth a search; the order is the precedence.
_ACROSS_LINES: Finders = (
    *SECRETS_ACROSS_LINES,
    (("serial",), _serial_columns),
)
_IN_LINE: Finders = (
    *SECRETS_IN_LINE,
    (("://",), simple("user", URL_LOGIN, _url_user)),
    (("@",), simple("email", _EMAIL, _email)),
    (("gpu-", "mig-"), simple("gpu_uuid", _GPU_UUID)),
    ((":", "-"), simple("mac", _MAC, _mac)),
    ((".",), simple("ip", _IPV4, _ipv4)),
    ((":",), simple("ip", _IPV6, _ipv6)),
    (("serial",), simple("serial", _SERIAL, _serial)),
    (("/home", "/users/", "\\users\\"), simple("user", _HOME, _home_user)),
    (("user=", "logname=", "username="), simple("user", _USER_VARIABLE, _home_user)),
    (tuple(hint.lower() for hint in _HOST_HINTS), simple("host", _HOST, _host)),
)
