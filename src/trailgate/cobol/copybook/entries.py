"""The entries of a copybook, and their tree by level number.

``nest_entries`` nests the entries by their level numbers alone: an entry belongs to the last
preceding entry with a lower level. ``expand_typedefs`` then replaces TYPEDEF names by their
descriptions. ``pictures`` reads their PICTURE strings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from trailgate.cobol.copybook.layouts import ConditionName, Occurs, SignPosition
from trailgate.cobol.copybook.pictures import SWAPPED, SWAPPING, ParsedPicture, PictureCategory
from trailgate.cobol.copybook.source import CopybookToken

RECORD, RENAMES, STAND_ALONE, CONDITION = 1, 66, 77, 88
CONSTANT: Final = "78"
_LOG: Final = logging.getLogger(__name__)
# Usages whose size does not depend on a picture. Compilers refuse a picture beside them.
UNPICTURED: Final = frozenset({"COMP-1", "COMP-2", "POINTER", "PROCEDURE-POINTER", "INDEX"})
_DATE_LETTERS: Final = frozenset("YMDHSFIT")

# The attributes that an item takes over from its type.
_OF_TYPE: Final = (
    "picture",
    "usage",
    "sign",
    "sync",
    "justified",
    "blank_when_zero",
    "byte_length",
    "unsigned",
    "conditions",
    "children",
)


@dataclass(slots=True)
class CopybookEntry:
    """One data description entry as written in the copybook.

    Sizes and offsets are computed later, in ``reader``. ``token`` is the entry's level number, for
    the position in errors.
    """

    level: int
    name: str
    token: CopybookToken
    picture: ParsedPicture | None = None
    usage: str | None = None
    sign: SignPosition | None = None
    occurs: Occurs | None = None
    redefines: str | None = None
    byte_length: int | None = None
    sync: bool = False
    justified: bool = False
    blank_when_zero: bool = False
    unsigned: bool = False
    type: str | None = None  # the name of its TYPEDEF, in capitals
    is_type: bool = False
    filler: bool = False
    key: bool = False
    date_format: str | None = None
    conditions: list[ConditionName] = field(default_factory=list)
    children: list[CopybookEntry] = field(default_factory=list)

    def walk(self) -> Iterator[CopybookEntry]:
        """Yield this copybook entry and all entries below it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()


def apply_comments(comments: list[CopybookToken], entry: CopybookEntry) -> None:
    """Apply the comments before a copybook entry that make it a key or a date: ``KEY``, ``DATEFORMAT fmt``, or a bare format.

    Only the comments between an entry and the preceding entry count (capture properties §5.1).
    """
    for comment in comments:
        words = comment.text.lstrip("*").split()
        if words and words[0].upper() == "KEY" and len(words) == 1:
            entry.key = True
        elif len(words) > 1 and words[0].upper() == "DATEFORMAT":
            entry.date_format = " ".join(words[1:])
        elif len(words) == 1 and _is_format(words[0]):
            entry.date_format = words[0]


def _is_format(word: str) -> bool:
    """Return True if a word is a date or time format such as ``YYYYMMDD`` or ``HHMMSS``."""
    letters = {letter for letter in word if letter.isalpha()}
    return word.isupper() and letters <= _DATE_LETTERS and ("YY" in word or "HH" in word)


def nest_entries(entries: list[CopybookEntry]) -> list[CopybookEntry]:
    """Nest copybook entries by level number and return the outermost entries.

    Conditions (88) are added to the item before them, and RENAMES (66) are dropped.
    """
    roots: list[CopybookEntry] = []
    open_groups: list[CopybookEntry] = []
    item: CopybookEntry | None = None  # the last one that takes storage
    for entry in entries:
        if entry.level == CONDITION:
            if item is None:
                raise entry.token.error(f"the condition {entry.name} has no item before it")
            item.conditions += entry.conditions
            continue
        if entry.level == RENAMES:
            continue  # an alias: no storage
        level = 1 if entry.level == STAND_ALONE else entry.level
        # Close the groups that this entry is not inside of. Level 77 never contains anything.
        while open_groups and (
            open_groups[-1].level >= level or open_groups[-1].level == STAND_ALONE
        ):
            open_groups.pop()
        (open_groups[-1].children if open_groups else roots).append(entry)
        open_groups.append(entry)
        item = entry
    for root in roots:
        for entry in root.walk():
            _check(entry)
    return roots


def expand_typedefs(records: list[CopybookEntry]) -> list[CopybookEntry]:
    """Replace each reference to a TYPEDEF by the type's description, and remove the TYPEDEFs from the records."""
    types: dict[str, CopybookEntry] = {}
    for record in records:
        for entry in [one for one in record.walk() if one.type is not None]:
            _describe(entry, types)
        if record.is_type:
            types[record.name.upper()] = record
    return [record for record in records if not record.is_type]


def _describe(entry: CopybookEntry, types: Mapping[str, CopybookEntry]) -> None:
    """Copy the picture, usage and items of the entry's TYPEDEF into the entry.

    ``types`` are the TYPEDEFs by name. Raises DefinitionError if the type is not among them, or if
    the entry has a description too.
    """
    type_ = types.get(entry.type or "")
    if type_ is None:
        raise entry.token.error(f"{entry.name} has the type {entry.type}, which is not complete")
    if entry.children or entry.picture is not None:
        raise entry.token.error(f"{entry.name} has the type {entry.type} and also a description")
    definition = deepcopy(type_)
    for child in (one for item in definition.children for one in item.walk()):
        # Shift the levels of the copied items, so that they are below the entry and not below the
        # type.
        child.level += entry.level - type_.level
    for name in _OF_TYPE:
        if getattr(definition, name):
            setattr(entry, name, getattr(definition, name))


def _check(entry: CopybookEntry) -> None:
    """Raise DefinitionError if a copybook entry contradicts itself.

    Logs a warning if SIGN SEPARATE or a picture has no effect (for example the picture of a COMP-1
    item), or if a picture has a comma after its decimal point.
    """
    name = entry.name
    if entry.children and entry.picture is not None:
        child = entry.children[0]
        problem = f"{name} has a picture, so {child.name} cannot be in it"
        raise child.token.error(problem, "Is a level number wrong?")
    if entry.sign and entry.sign.separate and entry.picture and not entry.picture.signed:
        problem = f"{name} has a SEPARATE sign, but its picture {entry.picture.text} has no S"
        hint = "It is read as a number without a sign, and without a byte for one"
        _LOG.warning("%s", entry.token.error(problem, hint))
    picture = entry.picture
    if picture and entry.usage in UNPICTURED:
        problem = f"{name} is {entry.usage}, which has no picture"
        _LOG.warning("%s", entry.token.error(problem, f"Its picture {picture.text} has no effect"))
    if (
        picture
        and picture.category is PictureCategory.EDITED
        and "," in picture.text.partition(".")[2]
    ):
        text, after, point = (
            (picture.text.translate(SWAPPED), "point", "comma")
            if picture.comma
            else (picture.text, "comma", "point")
        )
        problem = f"the picture {text} has a {after} after its decimal {point}"
        _LOG.warning("%s", entry.token.error(problem, SWAPPING))
    if entry.occurs and entry.level == 1 and entry.redefines:
        raise entry.token.error(f"the record {name} cannot occur and redefine")
