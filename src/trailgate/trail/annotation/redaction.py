"""Replace the values of records, and names where that is asked for, and keep everything else: lengths, types, tokens, structure.

A record is explained first, so that each of its bytes has a role. The bytes of a value become others of the same length and form: a digit becomes a
digit, a letter a letter, a date a date. A value becomes the same one wherever it occurs, by a key that nobody needs to know. What is not understood is
never copied: unknown tokens become zeros, and a record whose data are not understood is left out.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from trailgate.trail.annotation.elements import Bytes, Element, Role, content, problems
from trailgate.trail.annotation.records import DATETIME
from trailgate.trail.format.record_layout import HEAD_PLACES
from trailgate.trail.format.record_types import IO_METADATA, type_name
from trailgate.trail.format.tokens import DATA, FRAME, USER_TOKENS, read_user_tokens

# Strings of the file header that name machines, folders, databases and processes; versions stay.
PRIVATE: Final = frozenset({"uri", "filename", "hostname", "name", "instance", ""})
FIRST_YEAR, YEARS, MONTHS, DAYS = 1990, 40, 12, 28  # of dates
IO_TYPE_AT: Final = 2 * FRAME + HEAD_PLACES["io_type"]  # in a record
MOST_TRIES: Final = 1000  # to give a name one that no other has
# By the bytes of a character in UTF-8: the first of the characters that replace it, and how many there are.
CHARACTERS: Final = {2: (0xE0, 23), 3: (0x4E00, 20_000), 4: (0x1F600, 64)}
ALPHABETS: Final = (b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")


class NotUnderstoodError(Exception):
    """A record must be left out; the text states why."""


class Redaction:
    """Replaces values by a key; ``names`` replaces the names of tables and columns too.

    ``zeros`` counts the tokens whose bytes became zeros, since they are not understood.
    """

    def __init__(self, key: bytes, *, names: bool = False) -> None:
        self._key, self._names = hashlib.sha256(key).digest(), names
        self._named: dict[bytes, bytes] = {}
        self.zeros: Counter[str] = Counter()
        self._replacements: Mapping[Role, Callable[[bytes], bytes]] = {
            Role.STRUCTURE: bytes,
            Role.VALUE: lambda raw: raw[:2] + self.value(raw[2:]),
            Role.PIECE: self._mask,
            Role.NAME: self._table_name,
            Role.COLUMN_NAME: self._column_name,
            Role.TEXT: lambda raw: raw[:2] + self._mask(raw[2:]),
        }

    def redact(self, found: Element) -> bytes:
        """Return a file header or a record with other values; raises NotUnderstoodError for a record that must be left out."""
        for wrong in problems(found):
            raise NotUnderstoodError(wrong.problem)
        return self._element(found, _is_metadata(found))

    def name(self, name: str) -> str:
        """Return what the name of a table or a column becomes: each of its parts by itself."""
        if not self._names:
            return name
        return ".".join(self._part_of_name(part) for part in name.split("."))

    def _element(self, found: Element, metadata: bool) -> bytes:
        inner = bytearray()
        for part in found.parts:
            if isinstance(part, Element):
                inner += self._element(part, metadata)
            else:
                inner += self._bytes(part, found, metadata)
        if found.path[-1] == USER_TOKENS:
            inner = bytearray(self._user_tokens(bytes(inner)))
        return found.frame + bytes(inner) + found.trailer

    def _bytes(self, part: Bytes, around: Element, metadata: bool) -> bytes:
        if part.role is Role.UNKNOWN:
            return self._replace_unknown(part.raw, around, metadata)
        if part.role is Role.TEXT and around.name not in PRIVATE:
            return part.raw
        return self._replacements[part.role](part.raw)

    def _replace_unknown(self, raw: bytes, around: Element, metadata: bool) -> bytes:
        """Return zeros for a token; metadata have names and types, and no values."""
        if around.path[-1] != DATA:
            self.zeros[around.name] += 1
            return bytes(len(raw))
        if metadata and not self._names:
            return raw
        raise NotUnderstoodError("the layout of its data is not public")

    def _table_name(self, raw: bytes) -> bytes:
        return _encode(self.name(_decode(raw[:-1]))) + raw[-1:]

    def _column_name(self, raw: bytes) -> bytes:
        return raw[:2] + _encode(self.name(_decode(raw[2:])))

    def value(self, raw: bytes) -> bytes:
        """Return another value of the same length and form (trail format §10.2)."""
        for width in (2, 4):
            lengths = {int.from_bytes(raw[:width], order) for order in ("big", "little")}
            if len(raw) - width in lengths:
                return raw[:width] + self._mask(raw[width:])
        return self._date(raw) if DATETIME.fullmatch(raw) else self._mask(raw)

    def _date(self, raw: bytes) -> bytes:
        stream = self._stream(raw, len(raw))
        year, month, day = (
            FIRST_YEAR + stream[0] % YEARS,
            1 + stream[1] % MONTHS,
            1 + stream[2] % DAYS,
        )
        text = f"{year:04}-{month:02}-{day:02}"
        if len(raw) > len(text):
            text += f":{stream[3] % 24:02}:{stream[4] % 60:02}:{stream[5] % 60:02}"
        return text.encode() + self._mask(raw[len(text) :])

    def _mask(self, raw: bytes) -> bytes:
        """Return bytes of the same length: characters of the same kinds where they are text, else any bytes but zeros and FF, which stay."""
        stream = self._stream(raw, len(raw))
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = ""
        if any(c < " " for c in text) or len(text) == 0:
            return bytes(
                byte if byte in (0, 0xFF) else 1 + drawn % 0xFE
                for byte, drawn in zip(raw, stream, strict=True)
            )
        return b"".join(_characters(text, stream))

    def _part_of_name(self, name: str) -> str:
        """Return a name of the same length that no other name becomes, if there is one."""
        raw = _encode(name)
        if raw not in self._named:
            taken = set(self._named.values())
            tries = (self._mask_name(raw, number) for number in range(MOST_TRIES))
            self._named[raw] = next(
                (one for one in tries if one not in taken), self._mask_name(raw, 0)
            )
        return _decode(self._named[raw])

    def _mask_name(self, raw: bytes, number: int) -> bytes:
        """Return one of the names that a name may become."""
        stream = self._stream(raw + number.to_bytes(2, "big"), len(raw))
        return b"".join(_characters(_decode(raw), stream))

    def _user_tokens(self, raw: bytes) -> bytes:
        """Return user tokens with other values, and with their names unless names are replaced."""
        pairs = read_user_tokens(raw)
        if pairs is None:
            self.zeros["user tokens"] += 1
            return bytes(len(raw))
        return b"".join(
            self.name(name).encode() + b"\0" + self._mask(value.encode()) + b"\0"
            for name, value in pairs
        )

    def _stream(self, raw: bytes, size: int) -> bytes:
        """Return as many bytes as are asked for, which depend on the key and on these alone."""
        return hashlib.shake_128(self._key + raw).digest(size)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _characters(text: str, stream: bytes) -> Iterator[bytes]:
    """Yield a character of the same kind and length for each character of a text."""
    at = 0
    for index, character in enumerate(text):
        raw = _encode(character)
        drawn = int.from_bytes(stream[at : at + len(raw)], "big")
        at += len(raw)
        alphabet = next((one for one in ALPHABETS if raw in one), b"")
        if alphabet:
            # A number keeps how many digits it has: its first one is zero only where it was.
            first = alphabet is ALPHABETS[0] and index == 0
            low = int(first and raw != b"0")
            high = 1 if first and raw == b"0" else len(alphabet)
            yield bytes((alphabet[low + drawn % (high - low)],))
        elif len(raw) in CHARACTERS:
            begin, count = CHARACTERS[len(raw)]
            yield chr(begin + drawn % count).encode()
        else:
            yield raw


def _is_metadata(found: Element) -> bool:
    """Return whether a record describes tables."""
    raw = content(found)
    return len(raw) > IO_TYPE_AT and raw[IO_TYPE_AT] == IO_METADATA


def kind_of(found: Element) -> str:
    """Return the name of a record's type, for people."""
    raw = content(found)
    return type_name(raw[IO_TYPE_AT]) if len(raw) > IO_TYPE_AT else "record"
