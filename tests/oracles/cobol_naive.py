"""The shortest reading and writing of COBOL fields, value by value, to be checked by eye.

Numbers are Decimals, text is str; what is no value raises ValueError. Pages are Python's codecs.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from dataclasses import field as field_of
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

from trailgate.cobol.copybook.layouts import (
    CopybookField,
    CopybookLayout,
    NumberFormat,
    SignPosition,
    Usage,
)

EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])
UNICODE = {
    Usage.NATIONAL: "utf-16-be",
    Usage.NATIONAL_DIGITS: "utf-16-be",
    Usage.UTF8: "utf-8",
}
BINARY = (Usage.BINARY, Usage.NATIVE, Usage.SHORT, Usage.NATIVE_SHORT, Usage.LITTLE)
LIMITED = (Usage.BINARY, Usage.LITTLE)
MINUS, PLUS = {False: "bd", True: "d"}, {False: "acef", True: "cf"}


@dataclass(frozen=True)
class Reading:
    page: str = "cp037"
    little: bool = False
    strict: bool = False
    ibm_floats: bool = True
    blank: str = "error"
    low_values: str = "error"
    padding: str = "error"
    short: str = "error"
    national: str = "big"
    trim: str = "padding"
    numbers: str = "value"


def scaled(units: int, number: NumberFormat) -> Decimal:
    return EXACT.scaleb(Decimal(units), -number.scale)


def units_of(value: Decimal | int, number: NumberFormat) -> int:
    exact = EXACT.scaleb(Decimal(value), number.scale)
    units = int(exact)  # abs() of a Decimal would round
    if units != exact or abs(units) >= 10**number.digits or (units < 0 and not number.signed):
        raise ValueError(value)
    return units


def read_number(number: NumberFormat, digits: str, *, minus: bool) -> Decimal:
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(digits)
    return scaled(-int(digits) if minus else int(digits), number)


def read_packed(field: CopybookField, raw: bytes, how: Reading) -> Decimal:
    number = field.number
    assert number is not None
    text = raw.hex()
    sign = "f" if field.usage is Usage.UNSIGNED_PACKED else text[-1]
    digits = text if field.usage is Usage.UNSIGNED_PACKED else text[:-1]
    minus = sign in MINUS[how.strict]
    if not (minus and number.signed) and sign not in PLUS[how.strict]:
        raise ValueError(text)
    if int(digits[: len(digits) - number.digits] or "0", 16):
        raise ValueError("a digit too many")
    return read_number(number, digits, minus=minus)


def read_zoned(field: CopybookField, raw: bytes, how: Reading) -> Decimal:
    number = field.number
    assert number is not None
    leading = number.sign in (SignPosition.LEADING, SignPosition.LEADING_SEPARATE)
    at = 0 if leading else len(raw) - 1
    if number.sign in (SignPosition.LEADING_SEPARATE, SignPosition.TRAILING_SEPARATE):
        sign = raw[at : at + 1].decode(how.page)
        if sign not in ("+", "-"):
            raise ValueError(sign)
        rest = raw[1:] if leading else raw[:-1]
        return read_number(number, rest.decode(how.page), minus=sign == "-")
    digit, minus = overpunched(raw[at], how)
    if minus and not number.signed:
        raise ValueError(raw)
    digits = [bytes([b]).decode(how.page) for b in raw]
    digits[at] = digit
    return read_number(number, "".join(digits), minus=minus)


def read_padded(field: CopybookField, raw: bytes, how: Reading) -> Decimal:
    """Read a DISPLAY number whose bytes are not all digits."""
    number = field.number
    assert number is not None
    blank, zero = " ".encode(how.page), "0".encode(how.page)
    pads = blank + (b"" if how.padding == "left" else b"\0")
    separate = number.sign in (SignPosition.LEADING_SEPARATE, SignPosition.TRAILING_SEPARATE)
    if how.padding == "trim":
        rest = raw.strip(pads)
        if separate and number.sign is SignPosition.LEADING_SEPARATE:
            rest = rest[:1] + rest[1:].strip(pads)
        elif separate:
            rest = rest[:-1].strip(pads) + rest[-1:]
        return read_zoned(field, rest or raw, how)
    first = number.sign is SignPosition.LEADING_SEPARATE
    last = len(raw) - (number.sign is SignPosition.TRAILING_SEPARATE)
    body = raw[first:last]
    if how.padding == "error" or not body.strip(pads):
        raise ValueError(raw)
    if how.padding == "left":
        body = body.lstrip(pads).rjust(len(body), zero)
    else:
        body = bytes(zero[0] if byte in pads else byte for byte in body)
    return read_zoned(field, raw[:first] + body + raw[last:], how)


def overpunched(byte: int, how: Reading) -> tuple[str, bool]:
    """Return the digit and whether it is negative."""
    if "0".encode(how.page) == b"\xf0":
        zone, digit = f"{byte >> 4:x}", f"{byte & 15:x}"
        if zone in MINUS[how.strict] or zone in PLUS[how.strict]:
            return digit, zone in MINUS[how.strict]
        raise ValueError(byte)
    for characters, minus in (
        (b"0123456789", False),
        (b"{ABCDEFGHI", False),
        (b"}JKLMNOPQR", True),
        (b"" if how.strict else b"pqrstuvwxy", True),
    ):
        if byte in characters:
            return str(characters.index(byte)), minus
    raise ValueError(byte)


def read_binary(field: CopybookField, raw: bytes, how: Reading) -> Decimal:
    number = field.number
    assert number is not None
    little = how.little or field.usage is Usage.LITTLE
    units = int.from_bytes(raw, "little" if little else "big", signed=number.signed)
    if how.strict and field.usage in LIMITED and abs(units) >= 10**number.digits:
        raise ValueError(units)
    word = field.usage in LIMITED and not number.signed and field.size == 8
    limited = word and number.scale == 0 and how.numbers == "value" and number.digits <= 18
    if limited and units >= 10**18:  # beyond the digits of its column
        raise ValueError(units)
    if field.size > 8 and abs(units) >= 10 ** (38 - max(-number.scale, 0)):
        raise ValueError(units)
    return scaled(units, number)


def read_float(field: CopybookField, raw: bytes, how: Reading) -> float:
    if not how.ibm_floats:
        order = "<" if how.little else ">"
        found: float = struct.unpack(order + ("f" if field.size == 4 else "d"), raw)[0]
        return found
    fraction = int.from_bytes(raw[1:], "big")
    value = fraction * 16.0 ** ((raw[0] & 0x7F) - 64 - 2 * (field.size - 1))
    return -value if raw[0] & 0x80 else value


def page_of(field: CopybookField, how: Reading) -> str:
    page = UNICODE.get(field.usage, how.page)
    return "utf-16-le" if page == "utf-16-be" and how.national == "little" else page


def read_text(field: CopybookField, raw: bytes, how: Reading) -> str:
    text = raw.decode(page_of(field, how))
    side = how.trim if how.trim != "padding" else "left" if field.justified else "right"
    text = text.lstrip(" ") if side in ("left", "both") else text
    return text.rstrip(" ") if side in ("right", "both") else text


def printed(value: Decimal, number: NumberFormat) -> str:
    """Return a number as text with all digits of its picture: -00123.45."""
    places = max(number.scale, 0)
    units = str(abs(int(EXACT.scaleb(value, places))))
    digits = units.zfill(max(number.digits - number.scale, 1) + places)
    text = digits if not places else f"{digits[:-places]}.{digits[-places:]}"
    return f"-{text}" if value < 0 else text


def read_value(field: CopybookField, raw: bytes, how: Reading) -> Any:
    """Return the value, None where a policy reads the bytes as NULL."""
    value = read_by_policy(field, raw, how)
    if how.numbers == "text" and field.number is not None and value is not None:
        return printed(value, field.number)
    return value


def read_by_policy(field: CopybookField, raw: bytes, how: Reading) -> Any:
    if field.usage is Usage.NATIONAL_DIGITS:
        narrow = raw.decode(page_of(field, how)).encode("latin-1")
        return read_by_policy(
            replace(field, usage=Usage.ZONED), narrow, replace(how, page="latin-1")
        )
    try:
        return read_exactly(field, raw, how)
    except ValueError:
        if field.usage not in (Usage.ZONED, Usage.PACKED, Usage.UNSIGNED_PACKED):
            raise
        for fill, policy in ((" ".encode(how.page), how.blank), (b"\0", how.low_values)):
            if raw == fill * len(raw) and policy != "error":
                return None if policy == "null" else Decimal(0)
        if field.usage is not Usage.ZONED:
            raise
        return read_padded(field, raw, how)


def read_item(field: CopybookField, record: bytes, at: int, how: Reading) -> Any:
    """Return the value of an item of a record that may end before it, or inside it."""
    raw = record[at : at + field.size]
    if len(raw) == field.size:
        return read_value(field, raw, how)
    if how.short == "error":
        raise ValueError("a short record")
    if how.short == "null" and not raw:
        return None
    text = field.usage in (Usage.TEXT, Usage.NATIONAL, Usage.UTF8)
    digits = field.usage in (Usage.ZONED, Usage.NATIONAL_DIGITS)
    if text or (raw and how.short == "pad" and digits):
        blank = " ".encode(page_of(field, how))
        return read_value(field, raw + blank * ((field.size - len(raw)) // len(blank)), how)
    if raw or how.blank == "error":
        raise ValueError("a part of a number, or none")
    return None if how.blank == "null" else 0


def read_exactly(field: CopybookField, raw: bytes, how: Reading) -> Any:
    if field.usage in (Usage.PACKED, Usage.UNSIGNED_PACKED):
        return read_packed(field, raw, how)
    if field.usage is Usage.ZONED:
        return read_zoned(field, raw, how)
    if field.usage in BINARY:
        return read_binary(field, raw, how)
    if field.usage in (Usage.FLOAT, Usage.DOUBLE):
        return read_float(field, raw, how)
    return read_text(field, raw, how)


def write_value(field: CopybookField, value: Any, how: Reading) -> bytes:
    """Return a decimal number's bytes, zoned, packed or binary, with the signs of a compiler."""
    number = field.number
    assert number is not None
    units = units_of(value, number)
    digits = str(abs(units)).zfill(number.digits)
    if field.usage in BINARY:
        order = "little" if how.little or field.usage is Usage.LITTLE else "big"
        return units.to_bytes(field.size, order, signed=number.signed)  # type: ignore[arg-type]
    if field.usage in (Usage.PACKED, Usage.UNSIGNED_PACKED):
        sign = ("d" if units < 0 else "c") if number.signed else "f"
        text = digits + (sign if field.usage is Usage.PACKED else "")
        return bytes.fromhex(text.zfill(2 * field.size))
    raw = bytearray(digits.encode(how.page))
    if number.sign in (SignPosition.LEADING_SEPARATE, SignPosition.TRAILING_SEPARATE):
        sign_byte = ("-" if units < 0 else "+").encode(how.page)
        front = number.sign is SignPosition.LEADING_SEPARATE
        return sign_byte + bytes(raw) if front else bytes(raw) + sign_byte
    if number.signed:
        at = 0 if number.sign is SignPosition.LEADING else len(raw) - 1
        letters = "}JKLMNOPQR" if units < 0 else "{ABCDEFGHI"
        zone = 0xD0 if units < 0 else 0xC0
        ebcdic = raw[at] >= 0xF0
        raw[at] = zone | raw[at] & 0xF if ebcdic else ord(letters[raw[at] - 0x30])
    return bytes(raw)


def read_record(layout: CopybookLayout, record: bytes, how: Reading) -> list[Any]:
    """Return the values of a record without OCCURS, in order."""
    return [
        read_value(field, record[field.offset : field.offset + field.size], how)
        for field in layout.root.walk()
        if not field.children and not field.filler
    ]


def read_shifted(raw: bytes, single: str, double: Any, sequences: tuple[str, ...] = ()) -> str:
    """Return the text of single bytes, and of pairs between shift-out and shift-in."""
    text, place, wide = "", 0, False
    while place < len(raw):
        byte = raw[place]
        if byte in (0x0E, 0x0F):
            if wide is (byte == 0x0E):
                raise ValueError("a shift too many")
            wide = not wide
            place += 1
            continue
        code = ord(single[byte])
        if wide:
            if place + 1 >= len(raw) or raw[place + 1] in (0x0E, 0x0F):
                raise ValueError("half a pair")
            code = int(double[byte << 8 | raw[place + 1]]) or 0xFFFE
        if code == 0xFFFE:
            raise ValueError("no character")
        text += sequences[code - 0xD800] if 0xD800 <= code < 0xE000 else chr(code)
        place += 2 if wide else 1
    if wide:
        raise ValueError("not shifted in")
    return text


@dataclass
class VaryingItem:
    """An element of an elementary item.

    The value is None where the element is not there, is at an unknown offset (``at`` is None), or has no value.
    ``counters`` are those that it depends on, ``repeated`` the OCCURS DEPENDING ON around it.
    """

    name: str
    value: Any
    at: int | None
    size: int
    counters: frozenset[str]
    repeated: frozenset[str]


@dataclass
class VaryingReader:
    """One record whose OCCURS DEPENDING ON are as long as its counters state, read item by item."""

    record: bytes
    how: Reading
    real: bool
    stated: Mapping[str, Mapping[str, int]] = field_of(default_factory=dict)

    def __post_init__(self) -> None:
        self.items: list[VaryingItem] = []
        self.counts: dict[object, tuple[int | None, frozenset[str]]] = {}
        self.around: list[str] = []
        self.repeated: frozenset[str] = frozenset()

    def read(self, layout: CopybookLayout) -> list[VaryingItem]:
        self.every(layout.root, 0, frozenset(), frozenset(), there=True)
        return self.items

    def every(
        self,
        field: CopybookField,
        at: int | None,
        after: frozenset[str],
        in_: frozenset[str],
        *,
        there: bool,
    ) -> tuple[int | None, frozenset[str]]:
        """Read all elements; return the bytes of them, None if unknown, and what these depend on."""
        if field.occurs is None:
            return self.one(field, at, after, in_, there=there)
        outer = self.repeated
        count: int | None = field.occurs.most
        by: frozenset[str] = frozenset()
        if field.occurs.counter is not None:
            self.repeated = outer | {field.name}
            groups = field.occurs.groups
            path = None if groups is None else [group.upper() for group in groups]
            name = field.occurs.counter.upper()
            count, by = self.counts[name if path is None else (name, *path)]
            by |= {field.occurs.counter.upper()}
            if count is not None and not field.occurs.fewest <= count <= field.occurs.most:
                count = None
        begin, known = at, count is not None or not self.real
        moved: frozenset[str] = by if self.real else frozenset()
        gap = field.stride - field.size
        for index in range(field.occurs.most):
            here = there and count is not None and index < count
            taken, why = self.one(field, at, after, in_ | by, there=here)
            if here or not self.real:
                at = None if at is None or taken is None else at + taken + gap
            after, moved = after | why, moved | why
        self.repeated = outer
        if begin is None or at is None or not known:
            return None, moved
        return at - begin, moved

    def one(
        self,
        field: CopybookField,
        at: int | None,
        after: frozenset[str],
        in_: frozenset[str],
        *,
        there: bool,
    ) -> tuple[int | None, frozenset[str]]:
        """Read one element; return as ``every`` does."""
        if not field.children:
            value = self.value(field, at) if there else None
            name = field.name.upper()
            count = self.stated[name].get(str(value).strip()) if name in self.stated else value
            self.counts[name] = self.counts[name, *self.around[1:]] = count, after | in_
            if not field.filler:
                item = VaryingItem(
                    name=field.name,
                    value=value,
                    at=at,
                    size=field.size,
                    counters=after | in_,
                    repeated=self.repeated,
                )
                self.items.append(item)
            return field.size, frozenset()
        start, moved = at, frozenset[str]()
        begins: dict[str, tuple[int | None, frozenset[str]]] = {}
        self.around.append(field.name.upper())
        for child in field.children:
            place = begins[child.redefines.upper()] if child.redefines else (at, moved)
            begins[child.name.upper()] = place
            size, why = self.every(child, place[0], after | place[1], in_, there=there)
            if not child.redefines:
                at = None if at is None or size is None else at + size
                moved |= why
        self.around.pop()
        return (None if at is None or start is None else at - start), moved

    def value(self, field: CopybookField, at: int | None) -> Any:
        if at is None or at + field.size > len(self.record):
            return None
        try:
            return read_value(field, self.record[at : at + field.size], self.how)
        except ValueError:
            return None


def segments_of(layout: CopybookLayout, start: int) -> dict[str, CopybookLayout]:
    """Return a layout for each definition of the bytes of a record's item number ``start``: the items before it, and the definition's own."""
    common, definitions = layout.root.children[:start], layout.root.children[start:]
    return {
        own.name: CopybookLayout(
            replace(layout.root, children=(*common, replace(own, redefines=None)))
        )
        for own in definitions
    }


def nest(
    records: list[tuple[str, Any]], parents: dict[str, str]
) -> tuple[list[tuple[str, Any, dict[str, Any]]], list[tuple[str, Any]]]:
    """Return the roots with what is below them, each as name, value and lists by names, and the records that are below nothing."""
    roots: list[Any] = []
    orphans: list[Any] = []
    last: dict[str, Any] = {}

    def below(name: str) -> list[str]:
        return [child for child, parent in parents.items() if parent == name]

    def forget(name: str) -> None:
        last.pop(name, None)
        for child in below(name):
            forget(child)

    for name, value in records:
        node: tuple[str, Any, dict[str, Any]] = (name, value, {child: [] for child in below(name)})
        if name not in parents:
            roots.append(node)
            if below(name):
                last = {name: node}
        elif parents[name] not in last:
            orphans.append((name, value))
        else:
            last[parents[name]][2][name].append(node)
            forget(name)
            last[name] = node
    return roots, orphans


class Whole(int):
    """A whole number; a quotient that is not whole is a ValueError."""

    def __add__(self, other: int) -> Whole:
        return Whole(int(self) + int(other))

    def __sub__(self, other: int) -> Whole:
        return Whole(int(self) - int(other))

    def __mul__(self, other: int) -> Whole:
        return Whole(int(self) * int(other))

    def __truediv__(self, other: int) -> Whole:
        if not other or int(self) % int(other):
            raise ValueError("a quotient that is not whole")
        return Whole(int(self) // int(other))


def constant(words: list[str]) -> int:
    """Return the value of a constant, whose parentheses are words of their own; ValueError where the order of operators matters."""

    def operand(rest: list[str]) -> str:
        word = rest.pop(0)
        return left_to_right(rest) if word == "(" else word

    def left_to_right(rest: list[str]) -> str:
        made = operand(rest)
        while rest and rest[0] != ")":
            made = f"({made} {rest.pop(0)} {operand(rest)})"
        del rest[:1]
        return made

    begins = []
    for at, word in enumerate(words):
        if word == "(":
            begins.append(at + 1)
        elif word == ")":
            constant(
                words[begins.pop() : at]
            )  # nor may it matter in a part, if the whole is the same
    found = {
        eval(re.sub(r"(\d+)", r"Whole(\1)", text), {"Whole": Whole})
        for text in (" ".join(words), left_to_right(list(words)))
    }
    if len(found) > 1:
        raise ValueError("the order of operators matters")
    return int(found.pop())
