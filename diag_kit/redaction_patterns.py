"""What a secret or a name of somebody looks like in text: pure functions from a text to spans.

Written for logs, command lines, environments and the output of system tools, where "token" is mostly a number of a language
model and 12.4.5.8 a library version: a pattern that would damage such a line is narrowed until it does not.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from diag_kit.redaction_words import NEUTRAL_HOSTS, SYSTEM_USERS, TOP_DOMAINS

KINDS = ("secret", "email", "ip", "mac", "gpu_uuid", "serial", "user", "host")


class Span(NamedTuple):
    """``text[start:end]`` is a value of that kind."""

    kind: str
    start: int
    end: int


# Keys whose value is a secret whatever it looks like, and keys whose value is one only if it looks like one.
_SURE = (
    r"passw(?:or)?d|passphrase|secret|credentials?|connection[_-]?string"
    r"|(?:api|access|private|auth|account|encryption|signing|secret|service|storage|wandb|deploy)[_-]?key"
)
_UNSURE = r"token|pass|pwd|cookie"
_TAIL = r"(?:[_-]?(?:key|id|value|hash|b64|base64|[0-9]{1,3})){0,3}"
_KEY = re.compile(rf"(?:(?P<sure>{_SURE})|(?P<unsure>{_UNSURE})){_TAIL}\Z", re.I)
_MODEL_TOKEN = re.compile(
    r"(?:pad|eos|bos|unk|mask|cls|sep|image|video|audio|special|stop|start|end|additional|next|first|last|new|per|num|"
    r"max|min|begin|user|assistant|system|tool|vision|speech|each|every|forward|backward|by|sub|com|tres|low|high)[_.-]?\Z",
    re.I,
)
_KEY_VALUE = re.compile(
    rf"""(?:{_SURE}|{_UNSURE}){_TAIL}
    (?P<sep>\\*["']?\]?[ \t]{{0,8}}(?:=>|:=|==?|:)[ \t]{{0,8}}       # key=v, key: v, "key": "v", os.environ["key"] = "v"
      |["']?(?:\x00|[ \t]{{1,8}}|["'],[ \t]{{0,4}}))                   # --key v, also NUL-separated and as a JSON list
    (?:"(?P<double>(?:[^"\\\n]|\\.)+)|\\+"(?P<escaped>(?:[^"\\\n]|\\[^"\n])+)|\\*'(?P<single>(?:[^'\\\n]|\\[^'\n])+)|(?P<bare>[^\s"'\\,;&<>|(){{}}\[\]\x00]+))""",
    re.I | re.X,
)
_KEY_HEAD = re.compile(r"[A-Za-z0-9_.-]*\Z")
_NOT_A_VALUE = re.compile(
    r"(?:none|null|true|false|yes|no|nil|undefined|str|int|bool|bytes|any|optional|secretstr|string|self|required|hidden|"
    r"redacted|\*+|x{3,}|\.{3}|-+|secret-\d+|\$.*|%.*|<.*|\{.*|\[.*)\Z",
    re.I,
)
_NUMBER = re.compile(r"[-+]?[\d.,_]+(?:e[-+]?\d+)?[%a-z/]{0,8}\Z", re.I)
_REPLACED = re.compile(r"(?<![A-Za-z0-9])(?:(?:secret-|user|host|serial|person)\d{1,6}(?![A-Za-z0-9])|2001:db8:)")
_REPLACED_AT_END = re.compile(r"secret-\d+\Z")  # "secret-1: message" is a message after a secret
_DIGITS_ALIKE = str.maketrans("0123456789", "1111111111")
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\Z")

_TOKENS = re.compile(
    r"(?<![A-Za-z0-9_])(?:"
    r"eyJ[\w-]{6,}\.[\w-]{6,}(?:\.[\w-]*)?"  # JSON Web Token
    r"|hf_[A-Za-z0-9]{10,}|api_org_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{12,}|github_pat_\w{12,}|glpat-[\w-]{12,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{12,}|sk-[\w-]{16,}|xox[a-z]-[\w-]{8,}|AIza[\w-]{30,}|nvapi-[\w-]{16,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[\w-]{40,}|wandb_v\d_\w{16,})"
)
_TOKEN_HINTS = ("eyJ", "hf_", "api_org_", "gh", "glpat-", "AKIA", "ASIA", "sk-", "xox", "AIza", "nvapi-", "npm_", "pypi-",
                "wandb_v")  # fmt: skip
_AUTHORIZATION = re.compile(
    r"(?:authorization\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?:(?:basic|token|digest|bearer|negotiate)[ \t]+)?|\bbearer[ \t]+)"
    r"(?P<value>[^\s\"'\\,]{8,})",
    re.I,
)
_LOGIN = re.compile(
    r"\blogin[ \t]+\S+[ \t\n]+password[ \t]+(?P<netrc>\S+)|\bsshpass[ \t\0]+-p[ \t\0]*(?P<sshpass>[^\s\0]+)"
    r"|\bcurl\b[^\n]{0,400}?[ \t\0](?:-u|--user)[ \t=\0]*[\"']?(?P<curl>[^\s:\0\"']+:[^\s\0\"']+)"
)
_SIGNED_URL = re.compile(
    r"[?&;](?:sig|signature|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential))="
    r"(?P<value>[^&\s\"'<>\\]+)",
    re.I,
)
_URL_LOGIN = re.compile(r"[a-z][a-z0-9+.-]{1,20}://(?P<value>[^\s/\"'<>\\]{1,256})@", re.I)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----"
    r"(?:(?:(?!-----)[\s\S]){0,20000}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----"
    r"|(?:(?:\s|\\n|\\r)+[A-Za-z0-9+/=]{16,})*)"
)
_ENVIRONMENT_KEY = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_ENVIRONMENT_END = re.compile(r"[\x00\n]")

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
    r"(?:\bserial(?:[ _-]?(?:number|no))?\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?|<serial>)(?P<value>[A-Za-z0-9-]{6,40})\b", re.I
)
_SERIAL_COLUMN = re.compile(r"[ \t]*(?:gpu_)?serial[ \t]*\Z")
_HOME = re.compile(r"/(?:home|homes|Users|users)/(?P<value>[A-Za-z0-9_][\w.@-]*[\w-]|[A-Za-z0-9_])")
_USER_VARIABLE = re.compile(r"(?<![A-Za-z0-9_])(?:USER|LOGNAME|SUDO_USER|SLURM_JOB_USER)=(?P<value>[A-Za-z_][\w.-]*)")
_HOST = re.compile(
    r"^Linux (?:\S+ \((?P<iostat>[\w.-]+)\)[ \t]|(?P<uname>[\w.-]+) \d+\.\d+)"
    r"|[\"'](?:nodename|hostname)[\"']:[ \t]*[\"'](?P<json>[\w.-]+)"
    r"|(?<![A-Za-z0-9_])(?:HOSTNAME|SLURMD_NODENAME|MASTER_ADDR)=(?P<variable>[A-Za-z][\w.-]*)"
    r"|(?<![\w.:-])(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[\d+\] NCCL "
    r"|^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<syslog>[A-Za-z][\w.-]*) (?=[\w.-]+(?:\[\d+\])?:)"
    r"|(?<![\w-])(?P<dashed>ip-\d{1,3}(?:-\d{1,3}){3}(?:\.[a-z0-9-]+)*)(?![\w-])",
    re.M,
)
_HOST_HINTS = ("Linux ", "nodename", "hostname", "HOSTNAME=", "_NODENAME=", "MASTER_ADDR=", " NCCL ", "ip-", "]: ", "kernel: ")


def secret_key(name: str) -> str:
    """``sure`` or ``unsure`` if a variable, option or column of that name holds a secret, else empty."""
    found = _KEY.search(name) if len(name) <= 120 else None
    if not found or _REPLACED_AT_END.search(name):
        return ""
    if found["sure"]:
        return "sure"
    head = name[: found.start()]
    inside_a_word = not found.group().lower().startswith("token") and head[-1:].isalnum()  # bypass, compass
    return "" if inside_a_word or _MODEL_TOKEN.search(head) else "unsure"


def looks_secret(value: str) -> bool:
    """Long, of mixed characters, and neither number, path, placeholder nor expression."""
    return (
        len(value) >= 8
        and any(c.isalpha() for c in value)
        and (any(c.isdigit() for c in value) or len(value) >= 20)
        and not _NUMBER.match(value)
        and not value.startswith(("/", "~", ".", "<", "[", "{", "$"))
        and not _NOT_A_VALUE.match(value)
        and not _CODE.match(value)
        and not _REPLACED.search(value)
    )


def is_secret_value(certainty: str, value: str, following: str = "") -> bool:
    """Whether the value of a secret-ish key is one; ``following`` is the text after it (``load(`` is code)."""
    if certainty != "sure":
        return looks_secret(value)
    if _NOT_A_VALUE.match(value) or not any(c.isalnum() for c in value):
        return False
    code = _CODE.match(value) or value.isidentifier()
    return not (code and (following[:1] in ("(", "[") or secret_key(value.rpartition(".")[2])))


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


def _search(text: str, finders: Iterable[tuple[tuple[str, ...], Callable[[str], Iterator[Span]]]]) -> Iterator[Span]:
    lowered = text.lower()
    for hints, finder in finders:
        if any(hint in lowered for hint in hints):
            yield from finder(text)


def _key_values(text: str) -> Iterator[Span]:
    at = 0
    while match := _KEY_VALUE.search(text, at):
        at = match.end("sep") if match.end("sep") > match.start() else match.end()
        head = _KEY_HEAD.search(text, max(0, match.start() - 64), match.start())
        before = head.group() if head else ""
        name = before + text[match.start() : match.start("sep")]
        certainty = secret_key(name)
        separator = match["sep"].strip(" \t\"'\\]")
        if not certainty or (separator in ("", "\0", ",") and not before.startswith("-")):
            continue
        group = next(name for name in ("double", "escaped", "single", "bare") if match[name])
        start, end = match.span(group)
        if group == "bare" and separator == "=" and _ENVIRONMENT_KEY.match(name):
            end = _environment_end(text, start, end)
        if is_secret_value(certainty, text[start:end], text[end : end + 1]):
            yield Span("secret", start, end)
            at = end


def _environment_end(text: str, start: int, end: int) -> int:
    """``DB_PASSWORD=a, b`` in /proc/PID/environ goes to the NUL; in a shell line to the next blank."""
    stop = _ENVIRONMENT_END.search(text, start)
    if stop and stop.group() == "\0":
        return stop.start()
    blank = re.compile(r"[\s\"'\x00]").search(text, end)
    return blank.start() if blank else len(text)


def _simple(kind: str, pattern: re.Pattern[str], accept: Callable[[str, re.Match[str]], bool] | None = None) -> Callable[
    [str], Iterator[Span]
]:  # fmt: skip
    """Spans of the first group that took part (or of the whole match)."""

    def finder(text: str) -> Iterator[Span]:
        for match in pattern.finditer(text):
            if accept is None or accept(text, match):
                group = match.lastgroup if match.lastgroup not in (None, "domain", "top") else 0
                yield Span(kind, match.start(group or 0), match.end(group or 0))

    return finder


def _token(text: str, match: re.Match[str]) -> bool:
    body = match.group().partition("_" if match.group().startswith("hf_") else "-")[2]
    if match.group().startswith("hf_"):
        return len(body) >= 20 or any(c.isdigit() or c.isupper() for c in body)
    return not match.group().startswith("sk-") or any(c.isdigit() for c in body)


def _authorization(text: str, match: re.Match[str]) -> bool:
    value = match["value"]
    return looks_secret(value) if match.group()[0] in "bB" else not (_NOT_A_VALUE.match(value) or value.endswith("("))


def _url_login(text: str, match: re.Match[str]) -> bool:
    login = match["value"]
    return not re.fullmatch(r"secret-\d+", login) and (":" in login.rstrip(":") or looks_secret(login))


def _url_user(text: str, match: re.Match[str]) -> bool:
    login = match["value"]
    if _url_login(text, match) or _REPLACED.fullmatch(login):
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
    value = match["value"]
    return any(c.isdigit() for c in value) and not re.match(r"(?:secret-|person|user|host)\d", value)


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
_ACROSS_LINES: tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Span]]], ...] = (
    (("private key",), _simple("secret", _PRIVATE_KEY)),
    (("password", "sshpass", "curl"), _simple("secret", _LOGIN)),
    (("serial",), _serial_columns),
)
_IN_LINE: tuple[tuple[tuple[str, ...], Callable[[str], Iterator[Span]]], ...] = (
    (("pass", "secret", "credential", "connection", "key", "token", "pwd", "cookie"), _key_values),
    (("bearer", "authorization"), _simple("secret", _AUTHORIZATION, _authorization)),
    (("sig=", "signature=", "x-amz-", "x-goog-"), _simple("secret", _SIGNED_URL)),
    (("@",), _simple("secret", _URL_LOGIN, _url_login)),
    (tuple(hint.lower() for hint in _TOKEN_HINTS), _simple("secret", _TOKENS, _token)),
    (("://",), _simple("user", _URL_LOGIN, _url_user)),
    (("@",), _simple("email", _EMAIL, _email)),
    (("gpu-", "mig-"), _simple("gpu_uuid", _GPU_UUID)),
    ((":", "-"), _simple("mac", _MAC, _mac)),
    ((".",), _simple("ip", _IPV4, _ipv4)),
    ((":",), _simple("ip", _IPV6, _ipv6)),
    (("serial",), _simple("serial", _SERIAL, _serial)),
    (("/home", "/users/"), _simple("user", _HOME, _home_user)),
    (("user=", "logname="), _simple("user", _USER_VARIABLE, _home_user)),
    (tuple(hint.lower() for hint in _HOST_HINTS), _simple("host", _HOST, _host)),
)
