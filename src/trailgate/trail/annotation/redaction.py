"""Redact a trail: replace values, and optionally names, but keep lengths, types, tokens and structure.

A record is explained first, so that the role of each byte is known. The bytes of a value are
replaced by others of the same length and form: a digit by a digit, a letter by a letter, a date by
a date. For example "AB-12" may become "QX-84". Replacements depend on a secret key, and equal
values have equal replacements throughout the trail. Bytes with an unknown meaning are never copied:
unknown tokens become zeros, and a record with data of an unknown layout is skipped.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from trailgate.trail.annotation.elements import (
    ByteRole,
    ExplainedBytes,
    ExplainedToken,
    bytes_of_part,
    find_problems,
)
from trailgate.trail.annotation.records import DATETIME
from trailgate.trail.format.record_header import HEAD_PLACES
from trailgate.trail.format.record_types import IO_METADATA, type_name
from trailgate.trail.format.tokens import DATA, FRAME, USER_TOKENS, decode_user_tokens

# Strings of the file header that name machines, folders, databases and processes; versions stay.
PRIVATE: Final = frozenset({"uri", "filename", "hostname", "name", "instance", ""})
FIRST_YEAR, YEARS, MONTHS, DAYS = 1990, 40, 12, 28  # of dates
IO_TYPE_AT: Final = 2 * FRAME + HEAD_PLACES["io_type"]  # in a record
MOST_TRIES: Final = 1000  # candidates for the unique replacement of a name
# By a character's size in UTF-8: the first character of the range that replaces it, and the size of the range.
CHARACTERS: Final = {2: (0xE0, 23), 3: (0x4E00, 20_000), 4: (0x1F600, 64)}
ALPHABETS: Final = (b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")


class UnredactableRecordError(Exception):
    """Raised for a record that cannot be redacted and must be skipped. The message is the reason."""


class Redactor:
    """Replaces the values in a trail by other values of the same form, derived from a key.

    With ``names``, it replaces the names of tables and columns too. ``zeros`` counts the tokens
    that were overwritten with zeros because their layout is not known.
    """

    def __init__(self, key: bytes, *, names: bool = False) -> None:
        self._key, self._names = hashlib.sha256(key).digest(), names
        self._named: dict[bytes, bytes] = {}
        self.zeros: Counter[str] = Counter()
        self._replacements: Mapping[ByteRole, Callable[[bytes], bytes]] = {
            ByteRole.STRUCTURE: bytes,
            ByteRole.VALUE: lambda raw: raw[:2] + self.value(raw[2:]),
            ByteRole.PIECE: self._mask,
            ByteRole.NAME: self._table_name,
            ByteRole.COLUMN_NAME: self._column_name,
            ByteRole.TEXT: lambda raw: raw[:2] + self._mask(raw[2:]),
        }

    def redact(self, element: ExplainedToken) -> bytes:
        """Replace the values in a file header or record. Returns its new bytes.

        Raises UnredactableRecordError if the record must be skipped.
        """
        for wrong in find_problems(element):
            raise UnredactableRecordError(wrong.problem)
        return self._element(element, _is_metadata(element))

    def name(self, name: str) -> str:
        """Redact a table or column name. Each part between dots is replaced separately."""
        if not self._names:
            return name
        return ".".join(self._part_of_name(part) for part in name.split("."))

    def _element(self, element: ExplainedToken, metadata: bool) -> bytes:
        inner = bytearray()
        for part in element.parts:
            if isinstance(part, ExplainedToken):
                inner += self._element(part, metadata)
            else:
                inner += self._bytes(part, element, metadata)
        if element.path[-1] == USER_TOKENS:
            inner = bytearray(self._user_tokens(bytes(inner)))
        return element.frame + bytes(inner) + element.trailer

    def _bytes(self, part: ExplainedBytes, around: ExplainedToken, metadata: bool) -> bytes:
        if part.role is ByteRole.UNKNOWN:
            return self._replace_unknown(part.raw, around, metadata)
        if part.role is ByteRole.TEXT and around.name not in PRIVATE:
            return part.raw
        return self._replacements[part.role](part.raw)

    def _replace_unknown(self, raw: bytes, around: ExplainedToken, metadata: bool) -> bytes:
        """Replace bytes of an unknown layout in a redacted trail.

        Returns zeros for a token, and raises UnredactableRecordError for data. The data of metadata
        records are copied unless names are replaced, because they contain no values.
        """
        if around.path[-1] != DATA:
            self.zeros[around.name] += 1
            return bytes(len(raw))
        if metadata and not self._names:
            return raw
        raise UnredactableRecordError("the layout of its data is not public")

    def _table_name(self, raw: bytes) -> bytes:
        return _encode(self.name(_decode(raw[:-1]))) + raw[-1:]

    def _column_name(self, raw: bytes) -> bytes:
        return raw[:2] + _encode(self.name(_decode(raw[2:])))

    def value(self, raw: bytes) -> bytes:
        """Replace a column value by another one of the same length and form (trail format §10.2)."""
        for width in (2, 4):
            lengths = {int.from_bytes(raw[:width], order) for order in ("big", "little")}
            if len(raw) - width in lengths:
                return raw[:width] + self._mask(raw[width:])
        return self._date(raw) if DATETIME.fullmatch(raw) else self._mask(raw)

    def _date(self, raw: bytes) -> bytes:
        # Each byte of the stream chooses one part of the date. ``% DAYS`` keeps the day valid in
        # every month.
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
        """Replace data of a trail by other data of the same length.

        In text, each character is replaced by one of the same kind. In other bytes, 00 and FF are
        not changed.
        """
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
        """Return a replacement for one part of a name, with the same length, that no other name has (if possible)."""
        raw = _encode(name)
        if raw not in self._named:
            used = set(self._named.values())
            tries = (self._mask_name(raw, number) for number in range(MOST_TRIES))
            self._named[raw] = next(
                (one for one in tries if one not in used), self._mask_name(raw, 0)
            )
        return _decode(self._named[raw])

    def _mask_name(self, raw: bytes, number: int) -> bytes:
        """Return a candidate for the replacement of a name. Another ``number`` leads to another candidate."""
        stream = self._stream(raw + number.to_bytes(2, "big"), len(raw))
        return b"".join(_characters(_decode(raw), stream))

    def _user_tokens(self, raw: bytes) -> bytes:
        """Replace the values of user tokens. Their names are replaced only if names are redacted."""
        pairs = decode_user_tokens(raw)
        if pairs is None:
            self.zeros["user tokens"] += 1
            return bytes(len(raw))
        return b"".join(
            self.name(name).encode() + b"\0" + self._mask(value.encode()) + b"\0"
            for name, value in pairs
        )

    def _stream(self, raw: bytes, size: int) -> bytes:
        """Return ``size`` pseudo-random bytes that depend only on the redaction key and on ``raw``."""
        return hashlib.shake_128(self._key + raw).digest(size)


def _decode(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _characters(text: str, stream: bytes) -> Iterator[bytes]:
    """Yield a replacement for each character of a text, of the same kind and encoded length.

    ``stream`` are pseudo-random bytes, as many as the encoded text has; they choose the
    replacements.
    """
    at = 0
    for index, character in enumerate(text):
        raw = _encode(character)
        drawn = int.from_bytes(stream[at : at + len(raw)], "big")
        at += len(raw)
        alphabet = next((one for one in ALPHABETS if raw in one), b"")
        if alphabet:
            # A number keeps its digits: a leading zero stays, and no other first digit becomes zero.
            first = alphabet is ALPHABETS[0] and index == 0
            low = int(first and raw != b"0")
            high = 1 if first and raw == b"0" else len(alphabet)
            yield bytes((alphabet[low + drawn % (high - low)],))
        elif len(raw) in CHARACTERS:
            begin, count = CHARACTERS[len(raw)]
            yield chr(begin + drawn % count).encode()
        else:
            yield raw


def _is_metadata(element: ExplainedToken) -> bool:
    """Return whether an explained record is a metadata record."""
    raw = bytes_of_part(element)
    return len(raw) > IO_TYPE_AT and raw[IO_TYPE_AT] == IO_METADATA


def record_type_name(element: ExplainedToken) -> str:
    """Return the name of an explained record's type, as messages of ``trailgate redact`` show it."""
    raw = bytes_of_part(element)
    return type_name(raw[IO_TYPE_AT]) if len(raw) > IO_TYPE_AT else "record"
