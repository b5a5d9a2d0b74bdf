"""Fixed-width text read record by record, value by value: slow, and short enough to check by eye."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

Image = dict[str, str]


class Cell(NamedTuple):
    """A column: its place in the record, behind the header, and how its text is read."""

    name: str
    start: int
    length: int
    read: Callable[[str], str]
    key: bool = False


class BadRecordError(Exception):
    """A record that is no operation."""


def text(value: str) -> str:
    return value.rstrip(" ")


def digits(value: str) -> str:
    if not value.isascii() or not value.isdigit():
        raise BadRecordError(value)
    return value


def whole(value: str) -> str:
    """Return an ASCII number without a sign; its last byte may have the form of a plus."""
    last = SIGNS["+"].find(value[-1:])
    return str(int(digits(value if last < 0 else f"{value[:-1]}{last}")))


def signed(value: str) -> str:
    """Return an ASCII number of two decimals whose last byte may hold a sign."""
    last = value[-1:]
    forms = {c: (str(i), sign) for sign, row in SIGNS.items() for i, c in enumerate(row)}
    if last not in forms:
        raise BadRecordError(value)
    digit, sign = forms[last]
    units = Decimal(sign + digits(value[:-1] + digit))
    return f"{units.scaleb(-2) + 0:.2f}"


SIGNS: dict[str, str] = {"": "0123456789", "+": "{ABCDEFGHI", "-": "}JKLMNOPQR"}


def images(body: str, header: int, tables: Mapping[str, Sequence[Cell]]) -> list[tuple[str, Image]]:
    """Return code and image of each line of a message: a code, a table's name up to ``header``, columns."""
    lines = body.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [operation(line.removesuffix("\r"), header, tables) for line in lines]


def operation(line: str, header: int, tables: Mapping[str, Sequence[Cell]]) -> tuple[str, Image]:
    code, table = line[:1].strip(" "), line[1:header].strip(" ").upper()
    if len(line) < header or code not in ("I", "U", "D", "T") or table not in tables:
        raise BadRecordError(line)
    if code == "T":
        return code, {}
    rest, cells = line[header:], tables[table]
    size = max(cell.start + cell.length for cell in cells)
    if rest[size:].strip(" "):
        raise BadRecordError(line)
    found = {}
    for number, cell in enumerate(cells):
        if len(rest) < cell.start + cell.length:
            if len(rest) > cell.start or any(later.key for later in cells[number:]):
                raise BadRecordError(line)
            break
        found[cell.name] = cell.read(rest[cell.start : cell.start + cell.length])
    return code, found
