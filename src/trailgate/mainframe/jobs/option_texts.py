"""The value types of record options, and how text is parsed into them.

For each type there is a function that parses text (from Spark or the command line), and a function
that checks a Python value. For example, ``A=cp037, B=cp500`` and ``{"A": "cp037", "B": "cp500"}``
are the same code pages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from trailgate.cobol.copybook.conditional_text import normalize_constants, read_constants
from trailgate.cobol.records.framing import FrameKind
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.values.codec import TrimSide
from trailgate.columnar.code_pages import code_page
from trailgate.errors import OptionError
from trailgate.options import COUNT, OptionType, choice, instance, split_names
from trailgate.storage.files.text_files import read_source

# The line ends as an option spells them: LF, CR LF, and the new lines of EBCDIC.
DELIMITERS: Final = {"\\n": b"\n", "\\r\\n": b"\r\n", "\\x15": b"\x15", "\\x25": b"\x25"}

# The record format of a file that was copied from a data set, by its RECFM. The control character of
# A and M is the first byte of a record.
_RECFM: Final = {
    "f": FrameKind.FIXED,
    "fb": FrameKind.FIXED,
    "v": FrameKind.RDW,
    "vb": FrameKind.BDW,
    "vs": FrameKind.SPANNED,
    "vbs": FrameKind.SPANNED,
    "fs": FrameKind.FIXED,
    "fbs": FrameKind.FIXED,
}
RECFM: Final = {name + mark: kind for name, kind in _RECFM.items() for mark in ("", "a", "m")}
FORMAT: Final = choice({kind.value: kind for kind in FrameKind} | RECFM)._replace(
    words=", ".join([*(kind.value for kind in FrameKind), *map(str.upper, _RECFM)])
)

TRIM: Final = choice({"true": True, "false": False, **{one.value: one for one in TrimSide}})
OTHERS: Final = choice({"error": False, "skip": True})


def _kinds(text: str) -> RecordKinds | str:
    """Parse the option ``kinds``: ``FIELD: H=HEADER, D=DETAIL``, or ``@kinds.txt``.

    For ``@kinds.txt`` the file's address is returned. The file is read later, because its address
    may be relative to a different folder.
    """
    return text[1:] if text.startswith("@") else RecordKinds.parse(text)


def load_kinds(kinds: RecordKinds | str | None) -> RecordKinds | None:
    """Return the kinds of records from the value of the option ``kinds``.

    If the value is the address of a file, they are read from it.
    """
    if not isinstance(kinds, str):
        return kinds
    text = read_source(kinds, "file of kinds")
    try:
        return RecordKinds.parse(text)
    except OptionError as error:
        raise error.with_place(source=kinds) from None


def _passed_kinds(kinds: Any) -> RecordKinds:
    if isinstance(kinds, RecordKinds):
        return kinds
    return RecordKinds.of_mapping(instance(Mapping)(kinds))


def _parents(text: str) -> dict[str, str]:
    """Parse the option ``parents``: ``CHILD=PARENT, CHILD=PARENT``."""
    return read_pairs(text, "CHILD=PARENT")


def _new_names(text: str) -> dict[str, str]:
    """Parse the option ``rename``: ``ITEM=NAME, ITEM=NAME``."""
    return read_pairs(text, "ITEM=NAME")


def _named_texts(pairs: Any) -> dict[str, str]:
    """Return the value of a record option as a mapping of strings, or raise ValueError."""
    is_text = instance(str)
    return {is_text(name): is_text(text) for name, text in instance(Mapping)(pairs).items()}


def _element_lists(names: Any) -> dict[str, tuple[str, ...]]:
    """Return the value of the option ``elementNames`` as a mapping of items to names.

    Raises ValueError if it is something else.
    """
    is_text = instance(str)
    lists = {}
    for item, element_names in instance(Mapping)(names).items():
        if isinstance(element_names, str | bytes):
            raise ValueError  # noqa: TRY004  becomes an OptionError
        lists[is_text(item)] = tuple(map(is_text, instance(Sequence)(element_names)))
    return lists


def _element_names(text: str) -> dict[str, tuple[str, ...]]:
    """Parse the option ``elementNames``: ``ITEM=NAME|NAME, ITEM=NAME|NAME``."""
    pairs = read_pairs(text, "ITEM=NAME|NAME").items()
    return {item: tuple(one.strip() for one in names.split("|")) for item, names in pairs}


def _counts(text: str) -> dict[str, dict[str, int]]:
    """Parse the option ``countMap``: ``ITEM: VALUE=COUNT, VALUE=COUNT; ITEM: VALUE=COUNT``."""
    counts_by_item = {}
    for part in text.split(";"):
        item, colon, pairs = part.partition(":")
        if not colon:
            raise OptionError(f"ITEM: VALUE=COUNT was expected, not {part.strip()!r}")
        counts_by_item[item.strip()] = read_pairs(pairs, "VALUE=COUNT")
    return _as_numbers(counts_by_item)


def _as_numbers(counts: Any) -> dict[str, dict[str, int]]:
    """Convert the counts of the option ``countMap`` to numbers, by item and value.

    Raises ValueError if a count is not a number.
    """
    numbers: dict[str, dict[str, int]] = {}
    for item, pairs in instance(Mapping)(counts).items():
        given_pairs = instance(Mapping)(pairs).items()
        texts = {str(value).strip(): str(count) for value, count in given_pairs}
        if not all(text.isascii() and text.isdigit() for text in texts.values()):
            raise ValueError
        numbers[str(item)] = {value: int(text) for value, text in texts.items()}
    return numbers


def _indicators(text: str) -> dict[str, str]:
    """Parse the option ``indicators``: ``ITEM=INDICATOR, ITEM=INDICATOR``."""
    return read_pairs(text, "ITEM=INDICATOR")


def _pages(text: str) -> dict[str, str]:
    """Parse the option ``codePages``: ``ITEM=PAGE, ITEM=PAGE``."""
    return _paged_items(read_pairs(text, "ITEM=PAGE"))


def _lengths_of(text: str) -> dict[str, int]:
    """Parse the option ``lengthMap``: ``VALUE=LENGTH, VALUE=LENGTH``."""
    return _as_lengths(read_pairs(text, "VALUE=LENGTH"))


def _as_lengths(lengths: Any) -> dict[str, int]:
    """Convert the lengths of the option ``lengthMap`` to numbers, by value."""
    lengths_given = instance(Mapping)(lengths)
    return {str(value): int(COUNT.read(str(length))) for value, length in lengths_given.items()}


def _constants(text: str) -> tuple[tuple[str, str], ...]:
    """Parse the option ``constants``: ``NAME=VALUE, NAME=OFF``. Raises ValueError if empty."""
    if not split_names(text):
        raise ValueError
    return read_constants(text)


def read_pairs(text: str, form: str) -> dict[str, str]:
    """Parse a record option of the form ``NAME=VALUE, NAME=VALUE``.

    Raises OptionError, which shows ``form``.
    """
    pairs = {}
    for part in split_names(text):
        name, equals, value = part.partition("=")
        if not equals or not value.strip():
            raise OptionError(f"{form} was expected, not {part!r}")
        pairs[name.strip()] = value.strip()
    if not pairs:
        raise OptionError(f"{form} was expected, not an empty text")
    return pairs


def _paged_items(pages: Any) -> dict[str, str]:
    """Return the code pages of the option ``codePages`` by item, with names in capitals.

    Raises OptionError if a code page is unknown.
    """
    pages_by_item = {
        str(name).upper(): str(page) for name, page in instance(Mapping)(pages).items()
    }
    for page in pages_by_item.values():
        code_page(page)
    return pages_by_item


def _delimiter(text: str) -> bytes:
    if not text:
        raise OptionError("the delimiter is empty", hint="Omit it for the usual line ends")
    return DELIMITERS.get(text) or text.encode("utf-8").decode("unicode_escape").encode("latin-1")


KINDS: Final = OptionType("kinds of records", _kinds, _passed_kinds)
PARENTS: Final = OptionType("kinds and their parents", _parents, _named_texts)
LENGTHS: Final = OptionType("values and their lengths above 0", _lengths_of, _as_lengths)
CONSTANTS: Final = OptionType("constants and their values", _constants, normalize_constants)
INDICATORS: Final = OptionType("items and their indicators", _indicators, _named_texts)
PAGES: Final = OptionType("code pages of items", _pages, _paged_items)
RENAMED: Final = OptionType("names and new ones", _new_names, _named_texts)
ELEMENTS: Final = OptionType("items and names of elements", _element_names, _element_lists)
COUNTS: Final = OptionType("values of counters and their counts", _counts, _as_numbers)
DELIMITER: Final = OptionType("characters and escapes", _delimiter, instance(bytes))
