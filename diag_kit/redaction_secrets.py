"""What a secret looks like: keys with values, headers, tokens of known form, private keys.

"token" is mostly a number of a language model, "pass" mostly forward: such keys need a value that looks like a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from diag_kit.redaction_spans import Finders, Span, simple

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
REPLACED = re.compile(r"secret-\d|(?<![A-Za-z0-9])(?:(?:user|host|serial|person)\d{1,6}(?![A-Za-z0-9])|2001:db8:)")
_REPLACED_AT_END = re.compile(r"secret-\d+\Z")  # "secret-1: message" is a message after a secret
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
    r"|\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]{0,400}?[ \t\0]-p(?P<mysql>[^\s\0]+)"
    r"|\b(?:docker|podman|nerdctl|skopeo|buildah)[ \t\0]+login\b[^\n]{0,400}?[ \t\0]-p[ \t\0=]*(?P<registry>[^\s\0]+)"
    r"|\b(?:smbclient|rpcclient)\b[^\n]{0,400}?[ \t\0](?:-U|--user)[ \t\0=]*[\"']?[^\s%\0\"']{1,80}%(?P<samba>[^\s\0\"']+)"
    r"|\bwandb[ \t\0]+login[ \t\0]+(?:--?[a-z]+[ \t\0]+)?(?P<wandb>[A-Za-z0-9_-]{30,})"
)
_WEBHOOK = re.compile(
    r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<slack>[\w/+-]{8,})|/api/webhooks/(?P<discord>\d+/[\w-]{16,})"
    r"|api\.telegram\.org/(?:file/)?bot(?P<telegram>\d+:[\w-]{16,})|\.webhook\.office\.com/(?P<teams>[\w/@-]{16,})",
    re.I,
)
"""Addresses to which whoever knows them may post: the path is the secret (Slack, Discord, Telegram, Teams)."""
_NAMED_KEY = re.compile(r"(?<![A-Za-z0-9_])[A-Z][A-Z0-9_]{0,60}_KEY=[\"']?(?P<value>[^\s\"'\\,;&<>|\x00]{16,})")
"""``OPENAI_KEY=...``: a variable of an environment that is some key; only a value that looks like a secret counts."""
_SIGNED_URL = re.compile(
    r"[?&;](?:sig|signature|x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential))="
    r"(?P<value>[^&\s\"'<>\\]+)",
    re.I,
)
URL_LOGIN = re.compile(r"[a-z][a-z0-9+.-]{1,20}://(?P<value>[^\s/\"'<>\\]{1,256})@", re.I)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----"
    r"(?:(?:(?!-----)[\s\S]){0,20000}?-----END [A-Z0-9 ]{0,30}PRIVATE KEY[A-Z ]{0,10}-----"
    r"|(?:(?:\s|\\n|\\r)+[A-Za-z0-9+/=]{16,})*)"
)
_ENVIRONMENT_KEY = re.compile(r"[A-Z][A-Z0-9_]*\Z")
_ENVIRONMENT_END = re.compile(r"[\x00\n]")


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
        and not REPLACED.search(value)
    )


def is_secret_value(certainty: str, value: str, following: str = "") -> bool:
    """Whether the value of a secret-ish key is one; ``following`` is the text after it (``load(`` is code)."""
    if certainty != "sure":
        return looks_secret(value)
    if _NOT_A_VALUE.match(value) or not any(c.isalnum() for c in value):
        return False
    code = _CODE.match(value) or value.isidentifier()
    return not (code and (following[:1] in ("(", "[") or secret_key(value.rpartition(".")[2])))


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


def _token(text: str, match: re.Match[str]) -> bool:
    body = match.group().partition("_" if match.group().startswith("hf_") else "-")[2]
    if match.group().startswith("hf_"):
        return len(body) >= 20 or any(c.isdigit() or c.isupper() for c in body)
    return not match.group().startswith("sk-") or any(c.isdigit() for c in body)


def _authorization(text: str, match: re.Match[str]) -> bool:
    value = match["value"]
    return looks_secret(value) if match.group()[0] in "bB" else not (_NOT_A_VALUE.match(value) or value.endswith("("))


def _named_key(text: str, match: re.Match[str]) -> bool:
    return looks_secret(match["value"])


def is_login(text: str, match: re.Match[str]) -> bool:
    login = match["value"]
    return not re.fullmatch(r"secret-\d+", login) and (":" in login.rstrip(":") or looks_secret(login))


SECRETS_ACROSS_LINES: Finders = (
    (("private key",), simple("secret", _PRIVATE_KEY)),
    (
        ("password", "sshpass", "curl", "mysql", "mariadb", " login", "\0login", "smbclient", "rpcclient"),
        simple("secret", _LOGIN),
    ),
)
SECRETS_IN_LINE: Finders = (
    (("pass", "secret", "credential", "connection", "key", "token", "pwd", "cookie"), _key_values),
    (("bearer", "authorization"), simple("secret", _AUTHORIZATION, _authorization)),
    (("hooks.slack.com", "/api/webhooks/", "api.telegram.org", ".webhook.office.com"), simple("secret", _WEBHOOK)),
    (("_key=",), simple("secret", _NAMED_KEY, _named_key)),
    (("sig=", "signature=", "x-amz-", "x-goog-"), simple("secret", _SIGNED_URL)),
    (("@",), simple("secret", URL_LOGIN, is_login)),
    (tuple(hint.lower() for hint in _TOKEN_HINTS), simple("secret", _TOKENS, _token)),
)
