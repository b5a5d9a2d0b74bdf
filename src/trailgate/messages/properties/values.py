r"""The values of properties: bytes with ``\xHH``, value sources, names, small frozen mappings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from trailgate.errors import OptionError, did_you_mean
from trailgate.messages.properties.rows import SourceKind

K = TypeVar("K")
V = TypeVar("V")

_HEX: Final = re.compile(rb"\\x([0-9a-fA-F]{2})?")
_SPECIAL: Final[tuple[tuple[str, SourceKind], ...]] = (
    ("$jmsid", SourceKind.MESSAGE_ID),
    ("*ts", SourceKind.TIMESTAMP),
    ("*txid", SourceKind.TX_ID),
    ("*seqid", SourceKind.SEQ_ID),
)


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Where a metadata value comes from; ``name`` is the field, header or literal text."""

    kind: SourceKind
    name: str = ""

    def __str__(self) -> str:
        if self.kind is SourceKind.LITERAL:
            return f'"{self.name}"'
        return f"${self.name}" if self.kind is SourceKind.HEADER else self.name or self.kind.value


@dataclass(frozen=True, slots=True)
class HeaderFields:
    """The names of a record's header fields, and what an error calls the place of them."""

    names: tuple[str, ...] = ()
    place: str = ""

    def found(self, name: str) -> str | None:
        """Return a field's name as the header has it, compared without case, or None."""
        folded = name.casefold()
        return next((own for own in self.names if own.casefold() == folded), None)


@dataclass(frozen=True, slots=True, eq=False)
class Lookup(Mapping[K, V]):
    """A small mapping that can be pickled, hashed and not changed."""

    pairs: tuple[tuple[K, V], ...] = ()

    def __getitem__(self, key: K) -> V:
        for known, value in self.pairs:
            if known == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[K]:
        return (key for key, _ in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __hash__(self) -> int:
        return hash(frozenset(self.pairs))


def parse_bytes(value: str) -> bytes:
    r"""Return a ``{value|\xHH}`` property as bytes; raises OptionError for a broken ``\xHH``.

    capture properties §1 and §6: several ``\xHH`` may follow each other and be mixed with text; any
    other backslash is data.
    """

    def byte(found: re.Match[bytes]) -> bytes:
        if found.group(1) is None:
            raise OptionError(rf"expected two hexadecimal digits after \x in {value!r}")
        return bytes.fromhex(found.group(1).decode())

    return _HEX.sub(byte, value.encode("utf-8", "surrogateescape"))


def parse_names(value: str) -> tuple[str, ...]:
    """Return comma-separated names; raises OptionError for an empty or repeated one."""
    names = tuple(name.strip() for name in value.split(","))
    if not all(names):
        raise OptionError("a name is empty")
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise OptionError(f"{name} is named twice")
        seen.add(name.casefold())
    return names


def parse_source(value: str, allowed: tuple[SourceKind, ...], fields: HeaderFields) -> ValueSource:
    """Return a value source (capture properties §1.1); raises OptionError for one not allowed.

    A field is named as the header has it.
    """
    source = _source(value)
    if source.kind not in allowed:
        known = ", ".join(_described(kind, fields) for kind in allowed)
        raise OptionError(f"{value} is not allowed here, expected {known}")
    if source.kind in (SourceKind.FIELD, SourceKind.HEADER) and not source.name:
        raise OptionError(f"{value} names nothing")
    return _field(source, allowed, fields) if source.kind is SourceKind.FIELD else source


def _described(kind: SourceKind, fields: HeaderFields) -> str:
    return f"a name from {fields.place}" if kind is SourceKind.FIELD else kind.value


def _source(value: str) -> ValueSource:
    for written, kind in _SPECIAL:
        if value.casefold() == written:
            return ValueSource(kind)
    if value.startswith("$"):
        return ValueSource(SourceKind.HEADER, value[1:])
    if value.startswith("*"):
        known = ", ".join(written for written, _ in _SPECIAL[1:])
        raise OptionError(f"unknown system value {value}", hint=f"There are {known}")
    if value.startswith('"'):
        if len(value) < 2 or not value.endswith('"'):
            raise OptionError(f"no closing quote in {value}")
        return ValueSource(SourceKind.LITERAL, value[1:-1])
    return ValueSource(SourceKind.FIELD, value)


def _field(
    source: ValueSource, allowed: tuple[SourceKind, ...], fields: HeaderFields
) -> ValueSource:
    found = fields.found(source.name)
    if found is not None:
        return ValueSource(SourceKind.FIELD, found)
    hint = did_you_mean(source.name, fields.names)
    if not hint and SourceKind.LITERAL in allowed:
        hint = f'A fixed value is written in double quotes: "{source.name}"'
    hint = hint or f"{fields.place} names {', '.join(fields.names)}"
    raise OptionError(f"{source.name} is not a name of {fields.place}", hint=hint)
