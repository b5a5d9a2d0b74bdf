"""The options of files of records, parsed once into one frozen value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self

from trailgate.cobol.copybook.dialect import (
    BinarySizes,
    Dialect,
    Endian,
    FloatFormat,
    Signs,
    SourceFormat,
)
from trailgate.cobol.copybook.layouts import Field, Layout
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.records.decoding import Depending, OnError, RecordDecoder, RecordOptions, Shape
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.record_kinds import KindsDecoder, RecordKinds, layout_named
from trailgate.cobol.values.options import Blank, Integers, ValueOptions
from trailgate.columnar.code_pages.registry import code_page
from trailgate.errors import OptionError, did_you_mean
from trailgate.storage.files.copybooks import copy_members, read_source
from trailgate.storage.reading.options import OptionRow, read_options
from trailgate.storage.reading.record_files import SPLIT_BYTES


def _choice(kind: type[Enum]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return kind(text.casefold())
        except ValueError:
            known = ", ".join(str(member.value) for member in kind)
            raise OptionError(f"{text!r} is not one of {known}") from None

    return read


def _flag(text: str) -> bool:
    if text.casefold() not in ("true", "false"):
        raise OptionError(f"true or false was expected, not {text!r}")
    return text.casefold() == "true"


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise OptionError(f"a number was expected, not {text!r}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _kinds(text: str) -> RecordKinds:
    """Read ``FIELD: H=HEADER, D=DETAIL``; a last ``*`` leaves records of other values out."""
    field, colon, rest = text.partition(":")
    names: dict[str, str] = {}
    parts = _names(rest)
    for part in parts:
        value, equals, record = part.partition("=")
        if part != "*" and (not equals or not record.strip()):
            raise OptionError(f"VALUE=RECORD was expected, not {part!r}")
        if part != "*":
            names[value.strip()] = record.strip()
    if not colon or not names:
        raise OptionError("kinds are written FIELD: VALUE=RECORD, VALUE=RECORD")
    return RecordKinds(field.strip(), names, others="*" in parts)


def _pages(text: str) -> dict[str, str]:
    """Read ``ITEM=PAGE, ITEM=PAGE``."""
    found = {}
    for part in _names(text):
        name, equals, page = part.partition("=")
        if not equals or not page.strip():
            raise OptionError(f"ITEM=PAGE was expected, not {part!r}")
        code_page(page.strip())
        found[name.strip().upper()] = page.strip()
    return found


DELIMITERS: Final = {"\\n": b"\n", "\\r\\n": b"\r\n", "\\x15": b"\x15", "\\x25": b"\x25"}


def _delimiter(text: str) -> bytes:
    return DELIMITERS.get(text) or text.encode("utf-8").decode("unicode_escape").encode("latin-1")


OPTIONS: Final = (
    OptionRow("copybook", str, "the copybook's file"),
    OptionRow("copybook_text", str, "the copybook itself, instead of its file"),
    OptionRow("copy_path", _names, "folders where COPY finds its members, comma-separated"),
    OptionRow("record", str, "the record (level 01) that all records are"),
    OptionRow("kinds", _kinds, "records of several kinds: FIELD: VALUE=RECORD, VALUE=RECORD"),
    OptionRow("columns", _names, "only these items or groups, comma-separated"),
    OptionRow("shape", _choice(Shape), "tree: structs and arrays; flat: a column an item"),
    OptionRow("depending", _choice(Depending), "OCCURS DEPENDING ON: real or most elements"),
    OptionRow("errors", _choice(OnError), "a bad field: stop, or column (_errors)"),
    OptionRow("raw", _flag, "true: the record's bytes in the column _raw"),
    OptionRow("trim", _flag, "false: keep the blanks at the end of text"),
    OptionRow("blank", _choice(Blank), "a number of blanks alone: error or null"),
    OptionRow("code_page", str, "of text and DISPLAY numbers: cp037, 1140, utf-8, ..."),
    OptionRow("code_pages", _pages, "of single items: ITEM=PAGE, ITEM=PAGE"),
    OptionRow("integers", _choice(Integers), "whole numbers: int64, decimal, or text with zeros"),
    OptionRow("binary", _choice(Endian), "byte order of COMP"),
    OptionRow("native", _choice(Endian), "byte order of COMP-5"),
    OptionRow("binary_sizes", _choice(BinarySizes), "bytes of COMP: 2, 4, 8, or as few as needed"),
    OptionRow("floats", _choice(FloatFormat), "form of COMP-1 and COMP-2"),
    OptionRow("signs", _choice(Signs), "sign nibbles and overpunches: strict or lenient"),
    OptionRow("source_format", _choice(SourceFormat), "of the copybook: fixed, free, auto"),
    OptionRow("record_format", _choice(FrameKind), "how records follow each other in the file"),
    OptionRow("record_length", _number, "bytes of a record; else the copybook's"),
    OptionRow("delimiter", _delimiter, r"after each line; \n by default"),
    OptionRow("little_endian", _flag, "true: descriptor words and length fields are so"),
    OptionRow("adjustment", _number, "added to lengths: 4 where an RDW does not count itself"),
    OptionRow("length_offset", _number, "where the length field begins in the record"),
    OptionRow("length_width", _number, "bytes of the length field: 1, 2, 4 or 8"),
    OptionRow("skip_first", _number, "records of a file's header, left out"),
    OptionRow("skip_last", _number, "records of a file's trailer, left out"),
    OptionRow("split_bytes", _number, "how many bytes of a file a task reads"),
)
_DIALECT: Final = (
    "source_format",
    "code_page",
    "binary",
    "native",
    "binary_sizes",
    "floats",
    "signs",
)


@dataclass(frozen=True, slots=True)
class CopybookOptions:
    """A copybook's layouts and all choices; it can be pickled, so workers read no copybook."""

    layouts: tuple[Layout, ...]
    record: str | None
    kinds: RecordKinds | None
    records: RecordOptions
    framing: Framing
    split_bytes: int = SPLIT_BYTES

    @classmethod
    def of(cls, named: Mapping[str, Any], *, shape: Shape = Shape.TREE) -> Self:
        """Return the options of these names; raises OptionError, DefinitionError, StorageError."""
        wanted = {name: value for name, value in named.items() if name.casefold() != "path"}
        given = read_options(wanted, OPTIONS, "copybook")
        dialect = Dialect(**{name: given[name] for name in _DIALECT if name in given})
        layouts = _with_pages(tuple(_layouts(given, dialect)), given.get("code_pages", {}))
        values = ValueOptions(
            dialect,
            trim=given.get("trim", True),
            blank=given.get("blank", Blank.ERROR),
            integers=given.get("integers", Integers.INT64),
        )
        records = RecordOptions(
            values,
            shape=given.get("shape", shape),
            depending=given.get("depending", Depending.REAL),
            columns=given.get("columns"),
            errors=given.get("errors", OnError.STOP),
            raw=given.get("raw", False),
        )
        kinds, record = given.get("kinds"), given.get("record")
        if kinds is not None and record is not None:
            raise OptionError("record and kinds are both given", hint="Leave one of them out")
        framing = _framing(given, 0 if kinds else layout_named(layouts, record).size)
        framing.check()
        size = given.get("split_bytes", SPLIT_BYTES)
        if size < 1:
            raise OptionError(f"splitBytes must be above 0, not {size}")
        return cls(layouts, record, kinds, records, framing, size)

    def decoder(self) -> RecordDecoder | KindsDecoder:
        """Return what decodes the records."""
        if self.kinds is not None:
            return KindsDecoder(self.layouts, self.kinds, self.records)
        return RecordDecoder(layout_named(self.layouts, self.record), self.records)


def _layouts(given: Mapping[str, Any], dialect: Dialect) -> list[Layout]:
    path, text = given.get("copybook"), given.get("copybook_text")
    if (path is None) == (text is None):
        raise OptionError("the option copybook is needed, or copybookText instead of it")
    folders = [Path(folder) for folder in given.get("copy_path", ())]
    if path is not None:
        folders.append(Path(path).parent)
    content = text if path is None else read_source(Path(path))
    return read_copybook(
        str(content), source=path or "copybook", dialect=dialect, member=copy_members(folders)
    )


def _with_pages(layouts: tuple[Layout, ...], pages: Mapping[str, str]) -> tuple[Layout, ...]:
    """Return layouts whose items of these names have code pages of their own."""
    known = {field.name.upper() for layout in layouts for field in layout.root.walk()}
    for name in pages:
        if name not in known:
            hint = did_you_mean(name, known)
            raise OptionError(f"codePages: no item {name} in the copybook", hint=hint)
    return tuple(Layout(_paged(layout.root, pages, None)) for layout in layouts)


def _paged(field: Field, pages: Mapping[str, str], around: str | None) -> Field:
    page = pages.get(field.name.upper(), around)
    children = tuple(_paged(child, pages, page) for child in field.children)
    return replace(field, children=children, code_page=page)


def _framing(given: Mapping[str, Any], length: int) -> Framing:
    return Framing(
        given.get("record_format", FrameKind.FIXED),
        length=given.get("record_length", length),
        delimiter=given.get("delimiter", b"\n"),
        little=given.get("little_endian", False),
        adjustment=given.get("adjustment", 0),
        field_offset=given.get("length_offset", 0),
        field_width=given.get("length_width", 4),
        skip_first=given.get("skip_first", 0),
        skip_last=given.get("skip_last", 0),
    )
