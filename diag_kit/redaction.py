"""Taking secrets and names out of everything that is saved, with pseudonyms that stay the same.

``/home/alice/run.log`` becomes ``/home/user1/run.log`` in the raw bytes, in the tables, in the facts and in the command texts
alike, so that charts still join, and a replayed question ("grep that path") still meets its recorded answer. The mapping is
never stored. Two passes: ``learn`` finds the names everywhere first, then each is replaced wherever it stands, also where
nothing marks it as a name (the USER column of ``ps``).
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from diag_kit.errors import BadInput
from diag_kit.redaction_patterns import find
from diag_kit.redaction_pseudonyms import Pseudonyms, is_pseudonym, number_of, same
from diag_kit.redaction_secrets import is_secret_value, secret_key
from diag_kit.redaction_spans import KINDS, Span, join, without_overlaps
from diag_kit.redaction_words import COMMON_WORDS, NEUTRAL_HOSTS, SYSTEM_USERS

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
_TARGET = re.compile(r"(?:(?P<user>[^@\s]+)@)?(?P<host>\[[^\]]+\]|[^@:\s]+)(?P<port>:\d+)?\Z")
_HOST_FIELDS = frozenset(("host", "hosts", "hostname", "node", "nodename"))
_USER_FIELDS = frozenset(("user", "users", "username", "owner"))
# What names parts of the kit itself: never anybody's name, and ids that other records refer to.
_OWN_FIELDS = frozenset(("id", "ids", "inputs", "supersedes", "probe", "cause", "calculator", "next_probe", "error"))


class Redactor:
    """Replaces secrets and names in text, bytes, tables, commands and records, and counts what it replaced.

    ``hosts`` and ``users`` are names that are known beforehand; more are found by ``learn``. ``keep`` lists kinds (of
    ``KINDS``) to leave alone; secrets cannot be kept. Pseudonyms are fixed points: redacting twice changes nothing more.
    """

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = (), keep: Iterable[str] = ()) -> None:
        self.keep = frozenset(keep)
        if unknown := sorted(self.keep - set(KINDS)) or (["secret"] if "secret" in self.keep else []):
            raise BadInput(
                f"cannot keep {', '.join(unknown)} unredacted",
                next_step=f"choose among {', '.join(kind for kind in KINDS if kind != 'secret')}",
            )
        self.counts: dict[str, int] = {}
        self._pseudonyms = Pseudonyms()
        self._seen: dict[tuple[str, str], None] = {}
        self._words: dict[str, str] = {}
        self._words_of = -1
        self._patterns: dict[tuple[str, ...], re.Pattern[str]] = {}
        self._learning = False
        for name in hosts:
            self._learn_target(name)
        for name in users:
            self._see("user", name)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was not replaced everywhere, and why."""
        return tuple(
            f"the {kind} name {value!r} is short or a common word: replaced only where a {kind} is named"
            for kind, value in self._seen
            if kind in ("host", "user") and kind not in self.keep and not _replace_everywhere(value)
        )

    def learn(self, text: str) -> None:
        """First pass over a text: remember what will have to be replaced, and which pseudonyms are taken."""
        self._dry(lambda: self.text(text))

    def learn_record(self, record: object) -> None:
        """First pass over a record."""
        self._dry(lambda: self.record(record))

    def text(self, text: str) -> str:
        """The text with everything replaced."""
        if self._learning:
            self._pseudonyms.reserve_in(text)
        spans = self._spans(text)
        if self._learning or not spans:
            return text
        pieces, at = [], 0
        for span in spans:
            pieces += [text[at : span.start], self._replace(span.kind, text[span.start : span.end])]
            at = span.end
        return "".join([*pieces, text[at:]])

    def data(self, data: bytes) -> bytes:
        """Raw output; bytes that are not UTF-8 pass through unchanged."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def command(self, command: str) -> str:
        """A command text, argument by argument, so that it reads as if it had been asked with the pseudonyms."""
        try:
            parts = shlex.split(command)
        except ValueError:
            return self.text(command)
        if shlex.join(parts) != command:
            return self.text(command)
        before = ["", *parts]
        return shlex.join(self._argument(option, part) for option, part in zip(before, parts, strict=False))

    def target(self, name: str) -> str:
        """A host as the user named it: ``alias``, ``user@host``, ``host:port``."""
        match = _TARGET.match(name)
        if not match or match["host"].lower() in NEUTRAL_HOSTS:
            return self.text(name)
        user = match["user"]
        login = f"{user if user in SYSTEM_USERS else self._whole('user', user)}@" if user else ""
        return login + self._host(match["host"]) + (match["port"] or "")

    def frame(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table with the text in its cells replaced, dtypes kept. Columns called host, user or like a secret whole."""
        result = table.copy()
        for at, name in enumerate(table.columns):
            column = table.iloc[:, at]
            if column.dtype.kind == "O":  # object, str, string and category
                result.isetitem(at, self._column(str(name), column))
        if table.index.dtype.kind == "O" and table.index.nlevels == 1:
            result.index = table.index.map(lambda value: self.text(value) if isinstance(value, str) else value)
        return result

    def record(self, record: T) -> T:
        """Any record, mapping, sequence, table, text or bytes with everything in it replaced."""
        return self._value("", record)  # type: ignore[no-any-return]

    # Walking records

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return value if name in _OWN_FIELDS else self._named(name, value)
        if isinstance(value, bytes):
            return self.data(value)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value)
        if isinstance(value, Mapping):
            return {self._value("", key): self._value(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._value(name, item) for item in value)
        if hasattr(value, "iloc") and hasattr(value, "columns"):
            return self.frame(value)
        return value

    def _dataclass(self, record: Any) -> Any:
        fields = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        label = fields.get("name")  # a fact or an assumption: its value is what its name says
        changed = {}
        for name, value in fields.items():
            if name == "command" and isinstance(value, str):
                changed[name] = self.command(value)
            elif name == "name" and "value" in fields:
                changed[name] = value
            else:
                changed[name] = self._value(label if name == "value" and isinstance(label, str) else name, value)
        return dataclasses.replace(record, **changed)

    def _named(self, name: str, value: str) -> str:
        """A text of which a name says what it is."""
        lowered = name.lower()
        if lowered in _HOST_FIELDS:
            return self.target(value)
        if lowered in _USER_FIELDS and value and not re.search(r"\s", value):
            return value if value in SYSTEM_USERS else self._whole("user", value)
        if (certainty := secret_key(name)) and is_secret_value(certainty, value):
            return self._whole("secret", value)
        return self.text(value)

    def _argument(self, option: str, part: str) -> str:
        key, equals, value = part.partition("=")
        if option.startswith("-") and (certainty := secret_key(option)) and is_secret_value(certainty, part):
            return self._whole("secret", part)
        named = equals and re.fullmatch(r"-{0,2}[\w.-]+", key)
        if named and (certainty := secret_key(key)) and is_secret_value(certainty, value):
            return f"{key}={self._whole('secret', value)}"
        return self.text(part)

    def _column(self, name: str, column: pd.Series[Any]) -> Any:
        import pandas as pd

        if isinstance(column.dtype, pd.CategoricalDtype):
            words = [self._named(name, value) if isinstance(value, str) else value for value in column.cat.categories]
            if len(set(words)) == len(words):
                return column.cat.rename_categories(words)
            return column.map(dict(zip(column.cat.categories, words, strict=True)))
        words_here = dict.fromkeys(value for value in column if isinstance(value, str))
        mapping = {value: self._named(name, value) for value in words_here}
        if all(before == after for before, after in mapping.items()):
            return column
        cells = [mapping.get(value, value) if isinstance(value, str) else value for value in column]
        return pd.Series(cells, index=column.index, dtype=column.dtype)

    # Finding

    def _spans(self, text: str) -> list[Span]:
        """What is replaced, in order, without overlaps: secrets win and are joined, then the order of the patterns."""
        found = list(find(text))
        if not self._learning:
            found += self._known_words(text)
        secrets = join(sorted((s for s in found if s.kind == "secret"), key=lambda s: s.start))
        spans = without_overlaps([*secrets, *(s for s in found if s.kind != "secret")])
        return [span for span in spans if self._is_to_go(span.kind, text[span.start : span.end])]

    def _is_to_go(self, kind: str, value: str) -> bool:
        """False for what is kept or replaced already; it has kept weaker patterns off the same place nevertheless."""
        if self._pseudonyms.reserve(kind, value) or is_pseudonym(value) or kind in self.keep:
            return False
        self._see(kind, value)
        return True

    def _known_words(self, text: str) -> list[Span]:
        """Names and secrets that were found anywhere, here without anything that marks them."""
        if self._words_of != len(self._seen):
            self._words, self._words_of, self._patterns = self._all_words(), len(self._seen), {}
        lowered = text.lower()
        present = tuple(word for word in self._words if word.lower() in lowered)
        if not present:
            return []
        if present not in self._patterns:
            self._patterns[present] = _word_pattern({word: self._words[word] for word in present})
        return [Span(str(match.lastgroup), *match.span()) for match in self._patterns[present].finditer(text)]

    def _all_words(self) -> dict[str, str]:
        words: dict[str, str] = {}
        for kind, value in self._seen:
            if kind in self.keep:
                continue
            telling = _distinctive(value) if kind == "secret" else kind == "serial" and len(value) >= 10
            if telling:
                words[value] = kind
            elif kind in ("user", "host"):
                forms = (value, same("host", value)) if kind == "host" else (value,)
                words |= {form: words.get(form, kind) for form in forms if _replace_everywhere(form)}
        return words

    def _see(self, kind: str, value: str) -> None:
        if value and number_of(kind, value) is None:
            self._seen.setdefault((kind, value.lower() if kind == "host" else value), None)

    def _learn_target(self, name: str) -> None:
        self._dry(lambda: self.target(name))

    def _dry(self, walk: Callable[[], object]) -> None:
        self._learning, before = True, self._learning
        try:
            walk()
        finally:
            self._learning = before

    # Replacing

    def _host(self, host: str) -> str:
        try:
            ipaddress.ip_address(host.strip("[]"))
        except ValueError:
            return self._whole("host", host)
        return self.text(host)

    def _whole(self, kind: str, value: str) -> str:
        """A value that is known to be of that kind from where it stands."""
        if kind in self.keep or not value or self._pseudonyms.reserve(kind, value) or is_pseudonym(value):
            return value
        self._see(kind, value)
        return value if self._learning else self._replace(kind, value)

    def _replace(self, kind: str, value: str) -> str:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return self._pseudonyms.of(kind, value)


def _word_pattern(words: Mapping[str, str]) -> re.Pattern[str]:
    """Longest first; a name only where no letter or digit touches it, host names in any case."""
    groups = []
    for kind in ("secret", "user", "host", "serial"):
        ordered = sorted((word for word in words if words[word] == kind), key=lambda word: (-len(word), word))
        if ordered:
            body = "|".join(re.escape(word) for word in ordered)
            body = f"(?i:{body})" if kind == "host" else body
            body = body if kind == "secret" else f"(?<![A-Za-z0-9])(?:{body})(?![A-Za-z0-9])"
            groups.append(f"(?P<{kind}>{body})")
    return re.compile("|".join(groups))


def _replace_everywhere(name: str) -> bool:
    """Whether a name is telling enough to be replaced wherever the word stands."""
    return len(name) >= 3 and not name.isdigit() and name.lower() not in COMMON_WORDS


def _distinctive(secret: str) -> bool:
    """Whether a secret cannot be an ordinary word that would then vanish from the logs."""
    mixed = any(c.isalpha() for c in secret) and any(c.isdigit() for c in secret)
    return (len(secret) >= 6 and mixed) or len(secret) >= 12
