"""Records to and from JSON: the shape of a dataclass is its type hints, so a new field needs no code here.

Bytes and tables do not stand in the JSON; they go into ``members`` of the recording under their SHA-256 and are referred to.
Keys that this version does not know are ignored, fields that are missing take their default: older and slightly newer files
keep opening. A value of the wrong type is a BadInput that names the file, the line and the place in it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping, MutableMapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar, get_args, get_origin

from diag_kit.errors import BadInput
from diag_kit.recording_tables import table_from_bytes, table_to_bytes
from diag_kit.records import Calculation, Entry, Hypothesis, Note, Observation, Verification

T = TypeVar("T")
ENTRY_TYPES: dict[str, type[Any]] = {kind.__name__: kind for kind in (Observation, Calculation, Hypothesis, Verification, Note)}
_TAGS = ("float", "time", "blob", "table", "mapping")


def raw_member(sha256: str) -> str:
    return f"raw/{sha256}"


def table_member(sha256: str) -> str:
    return f"tables/{sha256}.json"


def entry_to_json(entry: Entry, members: MutableMapping[str, bytes]) -> dict[str, Any]:
    """One ledger entry as a JSON object with its ``type`` first; its bytes and tables are added to ``members``."""
    return {"type": type(entry).__name__, **to_json(entry, members)}


def entry_from_json(document: Any, members: Mapping[str, bytes], where: str) -> Entry:
    kind = document.get("type") if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in ENTRY_TYPES:
        raise _malformed(f"an entry of unknown type {str(kind)[:60]!r}", where)
    entry: Entry = from_json(ENTRY_TYPES[kind], document, members, where)
    return entry


def to_json(record: Any, members: MutableMapping[str, bytes]) -> dict[str, Any]:
    """Any record (a frozen dataclass) as a JSON object."""
    return {field.name: _encode(getattr(record, field.name), members) for field in dataclasses.fields(record)}


def from_json(cls: type[T], document: Any, members: Mapping[str, bytes], where: str) -> T:
    """The record back. ``where`` is the file and line, for errors."""
    try:
        return typing.cast("T", _decode(document, cls, members, ""))
    except _Mismatch as problem:
        raise _malformed(str(problem), where) from None
    except RecursionError:
        raise _malformed("nested too deeply", where) from None


def dump_line(document: Mapping[str, Any]) -> bytes:
    """One line of JSON, ASCII only, so that no file name with odd bytes can break the file."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"


def load_lines(data: bytes, file: str) -> list[tuple[Any, str]]:
    """The JSON documents of a file, one a line, each with its "FILE line N"."""
    documents = []
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            where = f"{file} line {number}"
            try:
                documents.append((json.loads(line), where))
            except (ValueError, RecursionError) as problem:
                raise _malformed(f"not JSON ({str(problem)[:120]})", where) from None
    return documents


class _Mismatch(Exception):
    """A value that does not have the type of its field; the text says where in the document."""


def _malformed(what: str, where: str) -> BadInput:
    return BadInput(f"a malformed entry: {what}", where=where, next_step="the file was changed or damaged; record again")


# Encoding: by the value's own type


def _encode(value: Any, members: MutableMapping[str, bytes]) -> Any:
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return to_json(value, members)
    if isinstance(value, datetime):
        return {"time": _iso(value)}
    if isinstance(value, bytes | bytearray):
        return {"blob": _store(bytes(value), raw_member, members)}
    if isinstance(value, Mapping):
        return _encode_mapping(value, members)
    if isinstance(value, list | tuple):
        return [_encode(item, members) for item in value]
    if isinstance(value, set | frozenset):
        return [_encode(item, members) for item in sorted(value, key=str)]
    if _is_frame(value):
        return {"table": _store(table_to_bytes(value), table_member, members)}
    return _encode_scalar(value)


def _encode_scalar(value: Any) -> Any:
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, PurePath):
        return str(value)
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    raise BadInput(
        f"a record holds a {type(value).__name__}, which cannot be saved",
        where=repr(value)[:100],
        next_step="give it as a number, text, list or mapping",
    )


def _encode_mapping(value: Mapping[Any, Any], members: MutableMapping[str, bytes]) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise BadInput("a mapping whose keys are not text cannot be saved", where=repr(list(value))[:100])
    encoded = {str(key): _encode(item, members) for key, item in value.items()}
    return {"mapping": encoded} if len(encoded) == 1 and next(iter(encoded)) in _TAGS else encoded


def _store(data: bytes, member: Callable[[str], str], members: MutableMapping[str, bytes]) -> str:
    digest = hashlib.sha256(data).hexdigest()
    members[member(digest)] = data
    return digest


def _iso(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise BadInput("a time without time zone cannot be saved", where=str(moment), next_step="give it in UTC")
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _is_frame(value: Any) -> bool:
    return type(value).__module__.split(".")[0] == "pandas" and hasattr(value, "columns")


# Decoding: by the field's type hint


_HINTS: dict[type[Any], dict[str, Any]] = {}


def _hints(cls: type[Any]) -> dict[str, Any]:
    import pandas as pd  # the records name pandas only for type checkers

    if cls not in _HINTS:
        _HINTS[cls] = typing.get_type_hints(cls, globalns={**vars(sys.modules[cls.__module__]), "pd": pd})
    return _HINTS[cls]


def _decode(value: Any, hint: Any, members: Mapping[str, bytes], path: str) -> Any:
    if hint is Any:
        return _decode_any(value, members, path)
    origin = get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(value, get_args(hint), members, path)
    if origin is tuple:
        item_hint = get_args(hint)[0]
        items = _expect(value, list, "a list", path)
        return tuple(_decode(item, item_hint, members, f"{path}[{at}]") for at, item in enumerate(items))
    if origin is not None and issubclass(origin, Mapping):
        return _decode_mapping(value, get_args(hint)[1], members, path)
    if dataclasses.is_dataclass(hint):
        return _decode_record(value, typing.cast("type[Any]", hint), members, path)
    return _decode_scalar(value, hint, members, path)


def _decode_mapping(value: Any, hint: Any, members: Mapping[str, bytes], path: str) -> dict[str, Any]:
    items = _expect(value, dict, "an object", path)
    if set(items) == {"mapping"} and isinstance(items["mapping"], dict) and set(items["mapping"]) <= set(_TAGS):
        items = items["mapping"]
    return {key: _decode(item, hint, members, f"{path}.{key}") for key, item in items.items()}


def _decode_record(value: Any, cls: type[Any], members: Mapping[str, bytes], path: str) -> Any:
    document = _expect(value, dict, "an object", path)
    given: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        place = f"{path}.{field.name}" if path else field.name
        if field.name in document:
            given[field.name] = _decode(document[field.name], _hints(cls)[field.name], members, place)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _Mismatch(f"{place} is missing")
    return cls(**given)


def _decode_union(value: Any, arms: tuple[Any, ...], members: Mapping[str, bytes], path: str) -> Any:
    if value is None and type(None) in arms:
        return None
    problem = _Mismatch(f"{path}: {type(value).__name__} is not allowed")
    for arm in arms:
        if arm is not type(None):
            try:
                return _decode(value, arm, members, path)
            except _Mismatch as mismatch:
                problem = mismatch if len(arms) == 2 else problem
    raise problem


def _decode_scalar(value: Any, hint: Any, members: Mapping[str, bytes], path: str) -> Any:
    if hint is datetime:
        return _decode_time(value, path)
    if hint is bytes:
        return _member(value, "blob", raw_member, members, path)[0]
    if isinstance(hint, type) and issubclass(hint, Enum):
        try:
            return hint(value)
        except ValueError:
            raise _Mismatch(f"{path}: {str(value)[:60]!r} is none of {', '.join(item.value for item in hint)}") from None
    if hint is float:
        return _decode_float(value, path)
    if hint is bool or hint is str:
        return _expect(value, hint, "true or false" if hint is bool else "text", path)
    if hint is int:
        if isinstance(value, bool):
            raise _Mismatch(f"{path}: expected a whole number, got bool")
        return _expect(value, int, "a whole number", path)
    data, name = _member(value, "table", table_member, members, path)
    return table_from_bytes(data, name)


def _decode_float(value: Any, path: str) -> float:
    if isinstance(value, dict) and set(value) == {"float"} and value["float"] in ("nan", "inf", "-inf"):
        return float(value["float"])
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Mismatch(f"{path}: expected a number, got {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        raise _Mismatch(f"{path}: too large a number") from None


def _decode_time(value: Any, path: str) -> datetime:
    text = value.get("time") if isinstance(value, dict) else value
    try:
        moment = datetime.fromisoformat(_expect(text, str, "a time", path))
    except ValueError:
        raise _Mismatch(f"{path}: {str(text)[:40]!r} is not an ISO time") from None
    if moment.tzinfo is None:
        raise _Mismatch(f"{path}: a time without time zone")
    return moment.astimezone(UTC)


def _decode_any(value: Any, members: Mapping[str, bytes], path: str) -> Any:
    """A value of no stated type (a probe's parameter): lists come back as tuples, as the frozen records hold them."""
    if isinstance(value, list):
        return tuple(_decode_any(item, members, path) for item in value)
    if not isinstance(value, dict):
        return value
    tag = next(iter(value)) if len(value) == 1 else ""
    if tag == "float":
        return _decode_float(value, path)
    if tag == "time":
        return _decode_time(value, path)
    if tag == "blob":
        return _member(value, "blob", raw_member, members, path)[0]
    if tag == "table":
        return table_from_bytes(*_member(value, "table", table_member, members, path))
    if tag == "mapping":
        value = _expect(value["mapping"], dict, "an object", path)
    return {key: _decode_any(item, members, f"{path}.{key}") for key, item in value.items()}


def _member(value: Any, tag: str, name: Callable[[str], str], members: Mapping[str, bytes], path: str) -> tuple[bytes, str]:
    """The bytes behind a reference, and the member's name."""
    digest = value.get(tag) if isinstance(value, dict) else None
    if not isinstance(digest, str) or name(digest) not in members:
        raise _Mismatch(f"{path}: refers to {tag} {str(digest)[:70]}, which the recording does not hold")
    return members[name(digest)], name(digest)


def _expect(value: Any, kind: type[T], what: str, path: str) -> T:
    if not isinstance(value, kind):
        raise _Mismatch(f"{path or 'the line'}: expected {what}, got {type(value).__name__}")
    return value
