"""Turn the text of a copybook into layouts. ``read_copybook`` is the only entry point.

The text becomes tokens (module ``source``), the tokens become a tree of entries (modules
``entry_parser`` and ``entries``), and this module turns each tree into a ``CopybookLayout`` in small passes:
groups pass their USAGE, SIGN and SYNC down to their items, each OCCURS DEPENDING ON gets its
counter, OCCURS UNBOUNDED gets a limit, and finally each item gets its size and offset.

For example, ``01 R. 05 A PIC 9(3). 05 B PIC S9(5) COMP-3.`` becomes a layout of 6 bytes with A
(zoned) at offset 0 and B (packed, 3 bytes) at offset 3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from trailgate.cobol.copybook.conditional_text import parse_constants, warn_of_unused_constants
from trailgate.cobol.copybook.entries import (
    CONDITION,
    RECORD,
    RENAMES,
    STAND_ALONE,
    CopybookEntry,
    expand_typedefs,
    nest_entries,
)
from trailgate.cobol.copybook.entry_parser import BYTES_OF, USAGE_OF, parse_entries
from trailgate.cobol.copybook.layouts import (
    MAX_COLUMNS,
    UNBOUNDED,
    BinarySizes,
    CobolDialect,
    CopybookField,
    CopybookLayout,
    NumberFormat,
    SignPosition,
    Usage,
)
from trailgate.cobol.copybook.pictures import ParsedPicture, PictureCategory
from trailgate.cobol.copybook.replacing import CopybookText, no_member_hint
from trailgate.cobol.copybook.source import SourceLine, read_lines, warn_of_cut_text
from trailgate.cobol.copybook.sql_types import BYTES
from trailgate.errors import DefinitionError, Where, did_you_mean

_LOG: Final = logging.getLogger(__name__)
MAX_DIGITS: Final = 38  # the precision of Arrow's decimal128
MAX_SIZE: Final = 1 << 27
MAX_BINARY: Final = 8  # bytes of PIC X(n) COMP-X
# Binary numbers with more digits take 16 bytes if sizes are powers of two (copybooks §4.2).
WIDE: Final = 18
_BINARY: Final = (
    Usage.BINARY,
    Usage.NATIVE,
    Usage.SHORT,
    Usage.NATIVE_SHORT,
    Usage.LITTLE,
)
# The usage of an item that has a picture of this category and no USAGE.
_STRINGS: Final[Mapping[PictureCategory, Usage]] = MappingProxyType(
    {
        PictureCategory.TEXT: Usage.TEXT,
        PictureCategory.NATIONAL: Usage.NATIONAL,
        PictureCategory.DBCS: Usage.DBCS,
        PictureCategory.UTF8: Usage.UTF8,
    }
)
NOTHING: Final = ParsedPicture("", PictureCategory.TEXT, 0)

DIALECT = CobolDialect()


def build_layouts(
    entries: list[CopybookEntry], dialect: CobolDialect, name: str
) -> list[CopybookLayout]:
    """Build one layout per record from the tree of copybook entries.

    If the outermost items are not records (level 01 or 77), the copybook describes one record,
    which is called ``name``. Raises DefinitionError with the position of the item at fault.
    """
    # Items without a record get one around them.
    if entries[0].level not in (RECORD, STAND_ALONE):
        entries = [CopybookEntry(RECORD, name, entries[0].token, children=entries)]
    counters: dict[int, CopybookEntry] = {}
    for entry in entries:
        inherit_usage(entry)
        if dialect.group_sync:
            inherit_sync(entry)
        counters |= _find_counters(entry)
    _resolve_unbounded(entries, counters, dialect)
    return [CopybookLayout(_field(entry, dialect, 0)) for entry in entries]


def _find_counters(record: CopybookEntry) -> dict[int, CopybookEntry]:
    """Resolve the counter of each OCCURS DEPENDING ON, also if several items share the counter's name.

    An unqualified name means the item in the innermost group that surrounds the OCCURS and contains
    exactly one item of that name. Returns the counters, by the ``id`` of the entry that occurs.
    """
    counters: dict[int, CopybookEntry] = {}
    paths = list(_paths(record, ()))
    index: dict[str, list[tuple[CopybookEntry, ...]]] = {}
    for path in paths:
        index.setdefault(path[-1].name.upper(), []).append(path)
    for path in paths:
        occurs = path[-1].occurs
        if occurs is None or occurs.counter is None:
            continue
        named = index.get(occurs.counter.upper(), [])
        if not named:
            problem = (
                f"{path[-1].name} depends on {occurs.counter}, which is not an item of this record"
            )
            error = path[-1].token.error(problem, did_you_mean(occurs.counter, index))
            _LOG.warning("%s", error)
        matches = [other for other in named if _is_in(other, occurs.groups or ())]
        # Narrow the candidates down by the innermost group that contains only one of them.
        for group in reversed(path[:-1]):
            around = [other for other in matches if any(one is group for one in other)]
            if len(around) == 1:
                matches = around
        groups = None
        if len(named) > 1:
            if len(matches) != 1:
                problem = (
                    f"{path[-1].name} depends on {occurs.counter}, which does not identify one item"
                )
                hint = "Qualify it by its group: OF GROUP"
                raise path[-1].token.error(problem, hint)
            groups = tuple(group.name for group in matches[0][1:-1])
        if named:
            # A single item of the name is the counter, whatever its qualifiers.
            counters[id(path[-1])] = (matches or named)[0][-1]
        path[-1].occurs = replace(occurs, groups=groups)
    return counters


def _paths(
    entry: CopybookEntry, around: tuple[CopybookEntry, ...]
) -> Iterator[tuple[CopybookEntry, ...]]:
    """Yield, for each item, the path of entries from the record down to it."""
    yield (*around, entry)
    for child in entry.children:
        yield from _paths(child, (*around, entry))


def _is_in(path: tuple[CopybookEntry, ...], qualifiers: tuple[str, ...]) -> bool:
    """Return True if the item is inside groups with these names, given from the innermost outwards."""
    # `in` consumes the iterator up to the match, so the next qualifier must be the name of a group
    # further out.
    groups = iter([entry.name.upper() for entry in reversed(path[:-1])])
    return all(name.upper() in groups for name in qualifiers)


def _resolve_unbounded(
    entries: list[CopybookEntry], counters: Mapping[int, CopybookEntry], dialect: CobolDialect
) -> None:
    """Set the maximum of each OCCURS UNBOUNDED.

    It is the largest number that the counter can hold, limited so that the record has at most
    ``MAX_COLUMNS`` elements. ``counters`` are those in the records of their OCCURS, by the ``id`` of
    the entry that occurs.
    """
    items = [(entry, item) for entry in entries for item in entry.walk()]
    for record, item in items:
        if item.occurs is not None and item.occurs.most == UNBOUNDED:
            name = str(item.occurs.counter)
            counter = counters.get(id(item))
            # Without a counter in its own record, it may be any item of that name.
            same = [one for _, one in items if one.name.upper() == name.upper()]
            possible = same if counter is None else [counter]
            if not possible:
                raise item.token.error(f"{item.name} depends on {name}, which does not exist")
            # Elements per occurrence, and how many more columns the record may have.
            leaves = _count_elements(replace(item, occurs=None))
            left = MAX_COLUMNS - _count_elements(record)
            most = min(max(_largest_count(one, dialect) for one in possible), left // leaves)
            item.occurs = replace(item.occurs, most=max(most, item.occurs.least, 1))


def _largest_count(counter: CopybookEntry, dialect: CobolDialect) -> int:
    """Return the largest number that a counter can hold, or ``MAX_COLUMNS`` if it is not a number.

    For example, 999 for PIC 9(3), 127 for BINARY-CHAR and 255 for PIC X COMP-X. Text may be a
    counter if the option countMap states its counts.
    """
    if counter.picture is not None and counter.picture.digits:
        return int(10**counter.picture.digits) - 1
    storage = None if counter.children else _storage(counter, dialect)
    if storage is None or storage.number is None:
        return MAX_COLUMNS
    return int(2 ** (8 * storage.size - storage.number.signed)) - 1


def _count_elements(entry: CopybookEntry) -> int:
    """Count the elementary items in an entry, repeated ones as often as they occur.

    Returns 0 for an OCCURS UNBOUNDED whose maximum is still unknown (its ``most`` is negative).
    """
    nested = sum(map(_count_elements, entry.children)) if entry.children else 1
    return nested * (max(entry.occurs.most, 0) if entry.occurs else 1)


def inherit_usage(
    entry: CopybookEntry, usage: str | None = None, sign: SignPosition | None = None
) -> None:
    """Pass a group's USAGE and SIGN down to the items in it that do not state their own."""
    if entry.usage is None and (entry.picture is None or _accepts_usage(entry.picture, usage)):
        entry.usage = usage
    entry.sign = entry.sign or sign
    for child in entry.children:
        inherit_usage(child, entry.usage, entry.sign)


def inherit_sync(entry: CopybookEntry, *, sync: bool = False) -> None:
    """Pass a group's SYNC down to the items in it."""
    entry.sync = entry.sync or sync
    for child in entry.children:
        inherit_sync(child, sync=entry.sync)


def _accepts_usage(picture: ParsedPicture, usage: str | None) -> bool:
    """Return True if an item with this picture can inherit its group's usage."""
    return usage in (None, "DISPLAY", "NATIONAL") or picture.category is PictureCategory.NUMBER


@dataclass(frozen=True, slots=True)
class _Storage:
    """How an elementary item is stored: its usage, bytes, number format and alignment."""

    usage: Usage
    size: int
    number: NumberFormat | None = None
    alignment: int = 1


def _states_size(entry: CopybookEntry) -> bool:
    """Return True if the usage alone determines the item's size, as for COMP-1 or BINARY-LONG."""
    usage = USAGE_OF.get(entry.usage or "")
    return usage in (Usage.FLOAT, Usage.DOUBLE, Usage.RAW) or entry.usage in BYTES_OF


def _storage_of_usage(
    entry: CopybookEntry, usage: Usage | None, dialect: CobolDialect
) -> _Storage | None:
    """Return the storage of an item whose usage alone determines it, or None if its picture is needed."""
    if usage in (Usage.FLOAT, Usage.DOUBLE):
        size = 4 if usage is Usage.FLOAT else 8
        return _Storage(usage, size, alignment=size)
    if entry.usage == BYTES:
        return _Storage(Usage.RAW, entry.byte_length or 0)
    if usage is Usage.RAW:
        size = dialect.pointer_bytes * (2 if entry.usage == "PROCEDURE-POINTER" else 1)
        return _Storage(usage, size, alignment=dialect.pointer_bytes)
    words = BYTES_OF.get(entry.usage or "")
    if words is not None:
        if entry.picture is not None:
            hint = "Its usage states its size: omit the picture, or is it COMP-5?"
            raise entry.token.error(f"{entry.name} is {entry.usage}, and has a picture", hint)
        return _word_storage(words, signed=not entry.unsigned)
    return None


def _storage(entry: CopybookEntry, dialect: CobolDialect) -> _Storage:
    """Return how an elementary item is stored, from its usage and its picture."""
    usage = USAGE_OF.get(entry.usage or "")
    storage = _storage_of_usage(entry, usage, dialect)
    if storage is not None:
        return storage
    picture = entry.picture
    if picture is None:
        hint = "An item without items below it needs PIC"
        raise entry.token.error(f"{entry.name} has neither a picture nor items", hint)
    if usage is None:
        return _display_storage(entry, picture)
    # PIC X(n) COMP-X is a number of n bytes, whatever its digits.
    bytes_of = (Usage.SHORT, Usage.NATIVE_SHORT, Usage.NATIVE)
    if usage in bytes_of and picture.category is PictureCategory.TEXT:
        return _bytes_storage(entry, picture, dialect)
    if picture.category is not PictureCategory.NUMBER:
        raise entry.token.error(f"{entry.name} is {entry.usage}, but its picture is not a number")
    number = _number(entry, picture)
    number = replace(number, sign=SignPosition.NONE)
    if usage in _BINARY:
        size = _binary_size(entry, picture.digits, dialect)
        return _Storage(usage, size, number, _boundary(entry, size, dialect))
    nibbles = picture.digits + (usage is Usage.PACKED)
    return _Storage(usage, (nibbles + 1) // 2, number)


def _word_storage(size: int, *, signed: bool) -> _Storage:
    """Return the storage of BINARY-LONG and the like, with as many digits as its bytes can hold."""
    digits = len(str(2 ** (8 * size - signed) - 1))
    number = NumberFormat(digits, 0, signed)
    return _Storage(Usage.NATIVE, size, number, size)


def _display_storage(entry: CopybookEntry, picture: ParsedPicture) -> _Storage:
    """Return the storage of an item with USAGE DISPLAY, NATIONAL or UTF-8, or without a USAGE."""
    if (
        entry.usage == "UTF-8" or entry.byte_length
    ) and picture.category is not PictureCategory.UTF8:
        raise entry.token.error(f"{entry.name} is UTF-8, but its picture has no U")
    if picture.category is PictureCategory.TEXT and entry.usage == "NATIONAL":
        return _Storage(Usage.NATIONAL, 2 * picture.size)
    if picture.category in _STRINGS:
        return _Storage(_STRINGS[picture.category], entry.byte_length or picture.size)
    if picture.category is PictureCategory.FLOAT:
        wide = entry.usage == "NATIONAL"
        usage = Usage.NATIONAL_FLOAT if wide else Usage.FLOAT_TEXT
        return _Storage(usage, (1 + wide) * picture.size)
    number = _number(entry, picture)
    if entry.usage == "NATIONAL":
        return _national_storage(entry, picture, number)
    if picture.category is PictureCategory.EDITED:
        return _Storage(Usage.EDITED, picture.size, replace(number, sign=SignPosition.NONE))
    return _Storage(Usage.ZONED, picture.size + number.sign.separate, number)


def _national_storage(
    entry: CopybookEntry, picture: ParsedPicture, number: NumberFormat
) -> _Storage:
    """Return the storage of a number in national characters: two bytes per digit and for its sign."""
    if picture.category is PictureCategory.EDITED:
        return _Storage(
            Usage.NATIONAL_EDITED, 2 * picture.size, replace(number, sign=SignPosition.NONE)
        )
    if number.signed and not number.sign.separate:
        hint = "A sign in national characters is SEPARATE"
        raise entry.token.error(f"{entry.name} has a sign on a national digit", hint)
    return _Storage(Usage.NATIONAL_DIGITS, 2 * (picture.size + number.sign.separate), number)


def _bytes_storage(entry: CopybookEntry, picture: ParsedPicture, dialect: CobolDialect) -> _Storage:
    """Return the storage of ``PIC X(n) COMP-X`` or COMP-N: an unsigned number of n bytes."""
    size = picture.size
    if size > MAX_BINARY:
        problem = f"{entry.name}: a binary number of {size} bytes"
        raise entry.token.error(problem, f"{entry.usage} has at most {MAX_BINARY}")
    digits = len(str(256**size - 1))
    usage = USAGE_OF[str(entry.usage)]
    return _Storage(usage, size, NumberFormat(digits), _boundary(entry, size, dialect))


def _boundary(entry: CopybookEntry, size: int, dialect: CobolDialect) -> int:
    """Return the boundary to which SYNC aligns a binary number, in bytes.

    It is the number's size, but at most the dialect's boundary (copybooks §2.6), and 1 if the size
    is not 1, 2, 4 or 8. Raises DefinitionError if a number with SYNC is too long.
    """
    if size > MAX_BINARY and _aligns(entry, dialect):
        raise entry.token.error(f"{entry.name}: SYNC of a binary number of {size} bytes")
    return min(size, dialect.boundary) if size in (1, 2, 4, 8) else 1


def _aligns(entry: CopybookEntry, dialect: CobolDialect) -> bool:
    """Return True if SYNC moves the item. SYNC has no effect if binary numbers have minimal sizes."""
    return entry.sync and dialect.binary_sizes is not BinarySizes.SMALLEST


def _number(entry: CopybookEntry, picture: ParsedPicture) -> NumberFormat:
    """Return the number format of an item. Raises DefinitionError if it has too many digits."""
    digits = max(picture.digits, picture.scale)
    if digits > MAX_DIGITS:
        problem = f"{entry.name} has {digits} digits"
        raise entry.token.error(problem, f"At most {MAX_DIGITS} digits can be read exactly")
    sign = (entry.sign or SignPosition.TRAILING) if picture.signed else SignPosition.NONE
    return NumberFormat(picture.digits, picture.scale, picture.signed, sign)


def _binary_size(entry: CopybookEntry, digits: int, dialect: CobolDialect) -> int:
    """Return the size in bytes of a binary number with this many digits, by the rule of the dialect."""
    if digits > dialect.binary_digits:
        problem = f"{entry.name}: a binary number of {digits} digits"
        hint = f"It can have {dialect.binary_digits}; with compiler=micro-focus {MAX_DIGITS}"
        raise entry.token.error(problem, hint)
    # As many bytes as the largest number needs, with a bit for the sign.
    if dialect.binary_sizes is BinarySizes.SMALLEST or entry.usage in ("COMP-X", "COMP-N"):
        signed = entry.picture is not None and entry.picture.signed
        bits = int(10**digits - 1).bit_length() + signed
        return (bits + 7) // 8
    if dialect.binary_sizes is BinarySizes.POWERS and digits <= 2:
        return 1
    return 2 if digits <= 4 else 4 if digits <= 9 else 8 if digits <= WIDE else 16


def _field(entry: CopybookEntry, dialect: CobolDialect, offset: int) -> CopybookField:
    """Build the field of an entry at ``offset``, with all fields in it."""
    if not entry.children:
        storage = _storage(entry, dialect)
        if _aligns(entry, dialect) and not entry.redefines and entry.level != STAND_ALONE:
            offset += -offset % storage.alignment
        children: tuple[CopybookField, ...] = ()
    else:
        if dialect.group_sync and not entry.redefines:
            offset += -offset % _first_alignment(entry, dialect)
        children, size = _children(entry, dialect, offset)
        storage = _Storage(Usage.GROUP, size)
    stride = storage.size
    if entry.occurs is not None:
        # Each occurrence is aligned like the first one: slack bytes precede the next.
        stride += -storage.size % _alignment(entry, dialect)
    if stride * (entry.occurs.most if entry.occurs else 1) > MAX_SIZE:
        raise entry.token.error(f"{entry.name} takes more than {MAX_SIZE} bytes")
    return CopybookField(
        entry.name,
        storage.usage,
        offset,
        storage.size,
        level=entry.level,
        picture=entry.picture.text if entry.picture else "",
        number=storage.number,
        occurs=entry.occurs,
        redefines=entry.redefines,
        children=children,
        stride=stride,
        filler=entry.filler,
        key=entry.key,
        date_format=entry.date_format,
        justified=entry.justified,
        blank_when_zero=entry.blank_when_zero,
        conditions=tuple(entry.conditions),
        comma=entry.picture is not None and entry.picture.comma,
    )


def _first_alignment(group: CopybookEntry, dialect: CobolDialect) -> int:
    """Return the SYNC alignment of a group's first item in bytes, or 1 if the item has no SYNC.

    IBM inserts the slack bytes for this alignment before the group; GnuCOBOL inserts them inside it.
    """
    first = group
    while first.children:
        first = first.children[0]
    return _storage(first, dialect).alignment if _aligns(first, dialect) else 1


def _alignment(entry: CopybookEntry, dialect: CobolDialect) -> int:
    """Return the strictest SYNC alignment of the items in an entry, in bytes; 1 if none has SYNC."""
    leaves = [item for item in entry.walk() if not item.children and _aligns(item, dialect)]
    return max((_storage(item, dialect).alignment for item in leaves), default=1)


def _children(
    entry: CopybookEntry, dialect: CobolDialect, offset: int
) -> tuple[tuple[CopybookField, ...], int]:
    """Build the fields of a group's items. Returns them and the group's size in bytes."""
    fields: list[CopybookField] = []
    end = offset
    for child in entry.children:
        if child.redefines:
            field = _field(child, dialect, _redefine(child, fields).offset)
        else:
            field = _field(child, dialect, end)
        end = max(end, field.offset + field.extent)
        fields.append(field)
    return tuple(fields), end - offset


def _redefine(entry: CopybookEntry, earlier: list[CopybookField]) -> CopybookField:
    """Return the field that an entry redefines: the last earlier field of that name in its group."""
    name = (entry.redefines or "").upper()
    for field in reversed(earlier):
        if field.name.upper() == name:
            if field.occurs is not None:
                raise entry.token.error(f"{entry.name} redefines {field.name}, which occurs")
            return field
    hint = "A redefined item must come earlier in the same group"
    raise entry.token.error(f"{entry.name} redefines {entry.redefines}, which does not exist", hint)


def read_copybook(
    text: str,
    *,
    source: str = "copybook",
    dialect: CobolDialect = DIALECT,
    member: Callable[[str], str | None] = lambda _: None,
    missing: Callable[[str], str] = no_member_hint,
    mentioned: set[str] | None = None,
) -> list[CopybookLayout]:
    """Parse a copybook and return the layout of each record (level 01, or the outermost level).

    ``member`` returns the text of a COPY member by its name, or None if it does not exist;
    ``missing`` then returns a hint for the error. All words that may be names of constants are
    added to ``mentioned``; if ``mentioned`` is None, a warning is logged for each constant of the
    dialect that no directive uses. Raises DefinitionError with file, line and column.
    """
    copied = set[str]()

    def lines_of(content: str, name: str) -> list[SourceLine]:
        lines = read_lines(content, dialect.source_format)
        if name not in copied:
            copied.add(name)
            warn_of_cut_text(lines, name)
        return lines

    def members(name: str) -> tuple[list[SourceLine], str] | None:
        content = member(name)
        return None if content is None else (lines_of(content, name), name)

    def measure(entries: list[CopybookEntry]) -> list[CopybookLayout]:
        items = deepcopy([one for one in entries if one.level not in (CONDITION, RENAMES)])
        if not items:
            return []
        last = items[-1]
        # An entry without picture or items is a group whose items are not parsed yet.
        described = last.picture or last.type or last.children
        if not described and not _states_size(last):
            items[-1].picture = NOTHING  # a group whose first item follows
        return build_layouts(expand_typedefs(nest_entries(items)), dialect, stem)

    stem = source.replace("\\", "/").rpartition("/")[2].partition(".")[0].upper()
    constants = parse_constants(dialect.constants)
    copybook = CopybookText(members, dialect, constants, missing)
    tokens = copybook.tokens(lines_of(text, source), source)
    if mentioned is None:
        warn_of_unused_constants(dialect.constants, copybook.constants.mentioned, source)
    else:
        mentioned |= copybook.constants.mentioned
    entries = parse_entries(tokens, measure, copybook.constants.named, comma=dialect.decimal_comma)
    if not entries:
        raise DefinitionError("the copybook has no item", where=Where(source=source))
    return build_layouts(entries, dialect, stem)
