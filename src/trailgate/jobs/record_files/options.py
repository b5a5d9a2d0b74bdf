"""How files of records are read by a copybook: one frozen value for all front ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
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
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    RAW_COLUMN,
    Depending,
    OnError,
    RecordDecoder,
    RecordOptions,
    Shape,
    Surplus,
)
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.record_kinds import KindsDecoder, RecordKinds, layout_named
from trailgate.cobol.values.options import Blank, Integers, ValueOptions
from trailgate.cobol.values.text import has_pages_of_its_own
from trailgate.columnar.code_pages.registry import code_page
from trailgate.errors import OptionError, did_you_mean
from trailgate.jobs.record_files.keywords import CopybookKeywords
from trailgate.options import (
    COUNT,
    FLAG,
    NAMES,
    PATH,
    PATHS,
    TEXT,
    WHOLE,
    Kind,
    Option,
    Options,
    choice,
    instance,
    names_in,
)
from trailgate.storage.files.addresses import absolute_value
from trailgate.storage.files.copybooks import copy_members, folder_of, read_source
from trailgate.storage.reading.record_files import SPLIT_BYTES


def _kinds(text: str) -> RecordKinds:
    """Read ``FIELD: H=HEADER, D=DETAIL``; a last ``*`` leaves records of other values out."""
    field, colon, rest = text.partition(":")
    names: dict[str, str] = {}
    parts = names_in(rest)
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
    for part in names_in(text):
        name, equals, page = part.partition("=")
        if not equals or not page.strip():
            raise OptionError(f"ITEM=PAGE was expected, not {part!r}")
        found[name.strip()] = page.strip()
    return _paged_items(found)


def _paged_items(pages: Any) -> dict[str, str]:
    """Return the code pages of items by their names in capitals."""
    found = {str(name).upper(): str(page) for name, page in instance(Mapping)(pages).items()}
    for page in found.values():
        code_page(page)
    return found


DELIMITERS: Final = {"\\n": b"\n", "\\r\\n": b"\r\n", "\\x15": b"\x15", "\\x25": b"\x25"}


def _delimiter(text: str) -> bytes:
    return DELIMITERS.get(text) or text.encode("utf-8").decode("unicode_escape").encode("latin-1")


KINDS: Final = Kind("kinds of records", _kinds, instance(RecordKinds))
PAGES: Final = Kind("code pages of items", _pages, _paged_items)
DELIMITER: Final = Kind("characters and escapes", _delimiter, instance(bytes))


_COBOL: Final = Dialect()
OPTIONS: Final = Options(
    "copybook",
    (
        Option("copybook", PATH, "the copybook's file"),
        Option("copybook_text", TEXT, "the copybook itself, instead of its file"),
        Option("copy_path", PATHS, "folders where COPY finds its members, comma-separated", ()),
        Option("record", TEXT, "the record (level 01) that all records are"),
        Option("kinds", KINDS, "records of several kinds: FIELD: VALUE=RECORD, VALUE=RECORD"),
        Option("columns", NAMES, "only these items or groups, comma-separated"),
        Option("shape", choice(Shape), "tree: structs and arrays; flat: a column an item"),
        Option(
            "depending",
            choice(Depending),
            "OCCURS DEPENDING ON: real or most elements",
            Depending.REAL,
        ),
        Option("errors", choice(OnError), "a bad field: stop, or column (_errors)", OnError.STOP),
        Option("raw", FLAG, "true: the record's bytes in the column _raw", False),
        Option(
            "surplus",
            choice(Surplus),
            "bytes of a record after the copybook's last item: error or drop",
        ),
        Option("trim", FLAG, "false: keep the blanks at the end of text", True),
        Option("blank", choice(Blank), "a number of blanks alone: error or null", Blank.ERROR),
        Option(
            "code_page",
            TEXT,
            "of text and DISPLAY numbers: cp037, 1140, utf-8, ...",
            _COBOL.code_page,
        ),
        Option("code_pages", PAGES, "of single items: ITEM=PAGE, ITEM=PAGE", {}),
        Option(
            "integers",
            choice(Integers),
            "whole numbers: int64, decimal, or text with zeros",
            Integers.INT64,
        ),
        Option("binary", choice(Endian), "byte order of COMP", _COBOL.binary),
        Option("native", choice(Endian), "byte order of COMP-5", _COBOL.native),
        Option(
            "binary_sizes",
            choice(BinarySizes),
            "bytes of COMP: 2, 4, 8, or as few as needed",
            _COBOL.binary_sizes,
        ),
        Option("floats", choice(FloatFormat), "form of COMP-1 and COMP-2", _COBOL.floats),
        Option(
            "signs", choice(Signs), "sign nibbles and overpunches: strict or lenient", _COBOL.signs
        ),
        Option(
            "source_format",
            choice(SourceFormat),
            "of the copybook: fixed, free, auto",
            _COBOL.source_format,
        ),
        Option(
            "record_format",
            choice(FrameKind),
            "how records are separated in the file",
            FrameKind.FIXED,
        ),
        Option("record_length", WHOLE, "bytes of a record; else the copybook's"),
        Option("delimiter", DELIMITER, "after each line, as \\x15; else \\n or \\r\\n"),
        Option("little_endian", FLAG, "true: descriptor words and length fields are so", False),
        Option("adjustment", WHOLE, "added to lengths: 4 where an RDW does not count itself", 0),
        Option("length_offset", WHOLE, "where the length field begins in the record", 0),
        Option("length_width", WHOLE, "bytes of the length field: 1, 2, 4 or 8", 4),
        Option("skip_first", WHOLE, "records of a file's header, left out", 0),
        Option("skip_last", WHOLE, "records of a file's trailer, left out", 0),
        Option("split_bytes", COUNT, "how many bytes of a file a task reads", SPLIT_BYTES),
    ),
)
# Those that do not concern files.
COLUMN_OPTIONS: Final = Options(
    "copybook (of a column)",
    (row for row in OPTIONS if row.name in {"copybook", *CopybookKeywords.__annotations__}),
)
_COUNTED: Final = (FrameKind.RDW, FrameKind.BDW, FrameKind.LENGTH_FIELD)
# The record formats that have an option; the other options are for all.
_FORMATS: Final[Mapping[str, tuple[FrameKind, ...]]] = MappingProxyType(
    {
        "record_length": (FrameKind.FIXED,),
        "delimiter": (FrameKind.LINE,),
        "little_endian": _COUNTED,
        "adjustment": _COUNTED,
        "length_offset": (FrameKind.LENGTH_FIELD,),
        "length_width": (FrameKind.LENGTH_FIELD,),
    }
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
    def of(
        cls, named: Mapping[str, Any], *, shape: Shape = Shape.TREE, base: str | None = None
    ) -> Self:
        """Return the options of these names; relative paths are from ``base``, else from the working folder.

        Raises OptionError, DefinitionError, StorageError.
        """
        values = OPTIONS.read(named)
        if base is not None:
            own = (row.name for row in OPTIONS if row.kind in (PATH, PATHS))
            values |= {name: absolute_value(values[name], base) for name in own}
        return cls.of_values(values, shape=shape)

    @classmethod
    def of_column(cls, named: Mapping[str, Any]) -> Self:
        """Return the options of a column of records; raises as ``of`` does, and for options of files."""
        whole = {"surplus": Surplus.ERROR, **named}
        return cls.of_values({**OPTIONS.read({}), **COLUMN_OPTIONS.read(whole)})

    @classmethod
    def of_values(cls, given: Mapping[str, Any], *, shape: Shape = Shape.TREE) -> Self:
        """Return the options of values that are read already; raises as ``of`` does."""
        dialect = Dialect(**{name: given[name] for name in _DIALECT})
        layouts = _with_pages(tuple(_layouts(given, dialect)), given["code_pages"])
        values = ValueOptions(
            dialect, trim=given["trim"], blank=given["blank"], integers=given["integers"]
        )
        # The length of fixed records states how many bytes there are.
        fixed = given["record_format"] is FrameKind.FIXED
        records = RecordOptions(
            values,
            shape=given["shape"] or shape,
            depending=given["depending"],
            columns=given["columns"],
            errors=given["errors"],
            raw=given["raw"],
            surplus=given["surplus"] or (Surplus.DROP if fixed else Surplus.ERROR),
        )
        kinds, record = given["kinds"], given["record"]
        if kinds is not None and record is not None:
            raise OptionError("record and kinds are both given", hint="Leave one of them out")
        framing = _framing(given, _length(given, layouts))
        framing.check()
        return cls(layouts, record, kinds, records, framing, given["split_bytes"])

    def only(self, names: Sequence[str]) -> Self:
        """Return the options for some of the schema's columns: others are not decoded.

        Of several kinds of records all columns are decoded.
        """
        own = tuple(name for name in names if name not in (ERRORS_COLUMN, RAW_COLUMN))
        if self.kinds is not None or not own:
            return self
        return replace(self, records=replace(self.records, columns=own))

    def decoder(self) -> RecordDecoder | KindsDecoder:
        """Return what decodes the records."""
        if self.kinds is not None:
            return KindsDecoder(self.layouts, self.kinds, self.records)
        return RecordDecoder(layout_named(self.layouts, self.record), self.records)


def _layouts(given: Mapping[str, Any], dialect: Dialect) -> list[Layout]:
    path, text = given["copybook"], given["copybook_text"]
    if (path is None) == (text is None):
        raise OptionError("the option copybook is needed, or copybookText instead of it")
    folders = [*given["copy_path"]]
    if path is not None:
        folders.append(folder_of(path))
    content = text if path is None else read_source(path)
    return read_copybook(
        str(content), source=path or "copybook", dialect=dialect, member=copy_members(folders)
    )


def _with_pages(layouts: tuple[Layout, ...], pages: Mapping[str, str]) -> tuple[Layout, ...]:
    """Return layouts whose items of these names have code pages of their own."""
    known = {field.name.upper() for layout in layouts for field in layout.root.walk()}
    for name in pages:
        if name not in known:
            problem = f"codePages: no item {name} in the copybook"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return tuple(Layout(_paged(layout.root, pages, None)) for layout in layouts)


def _paged(field: Field, pages: Mapping[str, str], around: str | None) -> Field:
    page = pages.get(field.name.upper())
    if page is None and around is not None and not has_pages_of_its_own(field, around):
        page = around
    children = tuple(_paged(child, pages, page) for child in field.children)
    return replace(field, children=children, code_page=page)


def _length(given: Mapping[str, Any], layouts: Sequence[Layout]) -> int:
    """Return the bytes of a fixed record: as stated, or of the layouts; raises OptionError where these differ."""
    if given["record_length"] is not None:
        return int(given["record_length"])
    kinds: RecordKinds | None = given["kinds"]
    names = [given["record"]] if kinds is None else dict.fromkeys(kinds.names.values())
    sizes = {name: layout_named(layouts, name).size for name in names}
    if len(set(sizes.values())) > 1 and given["record_format"] is FrameKind.FIXED:
        found = ", ".join(f"{name} {size}" for name, size in sizes.items())
        hint = "State recordLength, or a recordFormat in which each record has its own length"
        raise OptionError(f"the kinds of records differ in length: {found} bytes", hint=hint)
    return next(iter(sizes.values()))


def _check_formats(given: Mapping[str, Any]) -> None:
    """Raise OptionError for an option that the record format does not have."""
    own: FrameKind = given["record_format"]
    for row in OPTIONS:
        kinds = _FORMATS.get(row.name)
        if kinds is not None and own not in kinds and given[row.name] != row.default:
            problem = f"{row.spelled} is not an option of recordFormat={own.value}"
            raise OptionError(
                problem, hint=f"It is one of {', '.join(kind.value for kind in kinds)}"
            )


def _framing(given: Mapping[str, Any], length: int) -> Framing:
    _check_formats(given)
    return Framing(
        kind=given["record_format"],
        length=length,
        delimiter=given["delimiter"] or b"\n",
        returns=given["delimiter"] is None,
        little=given["little_endian"],
        adjustment=given["adjustment"],
        field_offset=given["length_offset"],
        field_width=given["length_width"],
        skip_first=given["skip_first"],
        skip_last=given["skip_last"],
    )
