"""The options of record files, declared once for Python, Spark and the command line.

Each option has a name, the type of its values, a help text and a default (docs/copybook.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

from trailgate.cobol.copybook.layouts import (
    COMPILERS,
    BinarySizes,
    CobolDialect,
    Endian,
    FloatFormat,
    SignRules,
    SourceFormat,
)
from trailgate.cobol.copybook.names import FillerPolicy, NameStyle
from trailgate.cobol.copybook.segment_layouts import SegmentLength
from trailgate.cobol.records.framing import FrameKind
from trailgate.cobol.records.nested_decoding import ChildRecords, OrphanPolicy
from trailgate.cobol.records.record_options import (
    BadFieldPolicy,
    ColumnShape,
    DependingLength,
    ShortRecordPolicy,
    TrailingBytesPolicy,
)
from trailgate.cobol.values.codec import (
    BlankPolicy,
    IntegerRepresentation,
    NumberRepresentation,
    PaddingPolicy,
)
from trailgate.mainframe.files.record_files import RECORD_SPLIT_BYTES, SplitSearch
from trailgate.mainframe.framing_options import LENGTH_WIDTH
from trailgate.mainframe.jobs.option_texts import (
    CONSTANTS,
    COUNTS,
    DELIMITER,
    ELEMENTS,
    FORMAT,
    INDICATORS,
    KINDS,
    LENGTHS,
    OTHERS,
    PAGES,
    PARENTS,
    RENAMED,
    TRIM,
)
from trailgate.options import COUNT, FLAG, NAMES, PATH, PATHS, TEXT, WHOLE, Option, Options, choice
from trailgate.storage.files.addresses import Address, make_addresses_absolute

_COBOL: Final = CobolDialect()
OPTIONS: Final = Options(
    "copybook",
    (
        Option("copybook", PATHS, "the copybook's file, or several, comma-separated"),
        Option("copybook_text", TEXT, "the copybook itself, instead of its file"),
        Option("copy_path", PATHS, "folders where COPY finds its members, comma-separated", ()),
        Option("record", TEXT, "the layout (level 01) of all records"),
        Option("kinds", KINDS, "records of several kinds: FIELD: VALUE=RECORD, VALUE=RECORD"),
        Option("segment", TEXT, "only the records of this kind, as a table"),
        Option("parents", PARENTS, "kinds of records below others: CHILD=PARENT, CHILD=PARENT"),
        Option(
            "children",
            choice(ChildRecords),
            "how records refer to their parents: ids, or nested in their rows",
            ChildRecords.IDS,
        ),
        Option(
            "orphans",
            choice(OrphanPolicy),
            "nested records without a parent: error or drop",
            OrphanPolicy.ERROR,
        ),
        Option("columns", NAMES, "only these items or groups, comma-separated"),
        Option("shape", choice(ColumnShape), "tree: structs and arrays; flat: one column per item"),
        Option(
            "depending",
            choice(DependingLength),
            "how many elements an OCCURS DEPENDING ON has: real or most",
            DependingLength.REAL,
        ),
        Option(
            "errors",
            choice(BadFieldPolicy),
            "a bad field: stop, or column (_errors)",
            BadFieldPolicy.STOP,
        ),
        Option("raw", FLAG, "true: the record's bytes in the column _raw", False),
        Option(
            "surplus",
            choice(TrailingBytesPolicy),
            "bytes after the last item: error, drop, padding",
        ),
        Option(
            "short",
            choice(ShortRecordPolicy),
            "items after the end of a short record: error, pad or null",
        ),
        Option("trim", TRIM, "which blanks around text to remove; false for none", True),
        Option(
            "blank",
            choice(BlankPolicy),
            "a number of only blanks: error, null, zero",
            BlankPolicy.ERROR,
        ),
        Option(
            "low_values",
            choice(BlankPolicy),
            "a number of only low-values: error, null, zero",
            BlankPolicy.ERROR,
        ),
        Option(
            "padding", choice(PaddingPolicy), "blanks around a number's digits", PaddingPolicy.LEFT
        ),
        Option(
            "code_page",
            TEXT,
            "the code page of text and DISPLAY numbers; default cp037, for lines ascii",
        ),
        Option("code_pages", PAGES, "code pages of single items: ITEM=PAGE, ITEM=PAGE", {}),
        Option(
            "integers",
            choice(IntegerRepresentation),
            "the type of whole numbers",
            IntegerRepresentation.INT64,
        ),
        Option(
            "numbers",
            choice(NumberRepresentation),
            "numbers as values, or always as text",
            NumberRepresentation.VALUE,
        ),
        Option("binary", choice(Endian), "byte order of COMP", _COBOL.binary),
        Option("native", choice(Endian), "byte order of COMP-5"),
        Option("national", choice(Endian), "byte order of PIC N", Endian.BIG),
        Option("binary_sizes", choice(BinarySizes), "the sizes of COMP in bytes"),
        Option("floats", choice(FloatFormat), "the format of COMP-1 and COMP-2"),
        Option(
            "signs",
            choice(SignRules),
            "which sign nibbles and overpunches are accepted",
            _COBOL.signs,
        ),
        Option(
            "compiler",
            choice(COMPILERS),
            "the compiler whose sizes and byte orders to use: ibm, micro-focus, gnucobol, fujitsu",
        ),
        Option("decimal_comma", FLAG, "true: pictures have DECIMAL-POINT IS COMMA", False),
        Option("constants", CONSTANTS, "constants of conditional text: NAME=VALUE, NAME=OFF", ()),
        Option(
            "names",
            choice(NameStyle),
            "names of columns: cobol, or sql with _ instead of -",
            NameStyle.COBOL,
        ),
        Option(
            "filler",
            choice(FillerPolicy),
            "columns of FILLER: drop, keep or bytes",
            FillerPolicy.DROP,
        ),
        Option("rename", RENAMED, "other names of columns: ITEM=NAME, ITEM_2=NAME", {}),
        Option(
            "element_names",
            ELEMENTS,
            "names of the elements of an OCCURS: ITEM=NAME|NAME, ITEM=NAME|NAME",
            {},
        ),
        Option(
            "count_map",
            COUNTS,
            "counts by the values of a counter: ITEM: VALUE=COUNT, VALUE=COUNT",
            {},
        ),
        Option(
            "source_format",
            choice(SourceFormat),
            "the source format of the copybook: fixed, free or auto",
            _COBOL.source_format,
        ),
        Option("record_format", FORMAT, "how records are separated", FrameKind.FIXED),
        Option("record_length", WHOLE, "bytes of a record; default by the copybook"),
        Option(
            "segment_length",
            choice(SegmentLength),
            "the length of a segment: its own, or that of the record",
            SegmentLength.OWN,
        ),
        Option(
            "delimiter",
            DELIMITER,
            "the bytes after each line, such as \\x15; default \\n or \\r\\n",
        ),
        Option(
            "little_endian",
            FLAG,
            "true: descriptor words and length fields are little-endian",
            False,
        ),
        Option("adjustment", WHOLE, "added to lengths: 4 if an RDW does not count itself", 0),
        Option("twisted", FLAG, "true: the length is in the second half of an RDW", False),
        Option("bdw_little_endian", FLAG, "little_endian of a BDW, if it differs"),
        Option("bdw_adjustment", WHOLE, "adjustment of a BDW, if it differs"),
        Option("bdw_twisted", FLAG, "twisted of a BDW, if it differs"),
        Option("minimum_length", WHOLE, "a record of fewer bytes is an error", 0),
        Option("maximum_length", WHOLE, "a record of more bytes is an error"),
        Option("other_lengths", OTHERS, "records of other lengths: error or skip", False),
        Option("length_offset", WHOLE, "the offset of the length field in the record", 0),
        Option("length_width", WHOLE, "bytes of the length field: 1, 2, 4 or 8", LENGTH_WIDTH),
        Option(
            "length_field", TEXT, "the item that states the length, or a sum such as 2 * ITEM + 4"
        ),
        Option("length_map", LENGTHS, "lengths by the values of length_field: VALUE=4, *=8"),
        Option("skip_first", WHOLE, "the number of header records of a file, which are skipped", 0),
        Option("skip_last", WHOLE, "the number of trailer records of a file, which are skipped", 0),
        Option(
            "header_bytes",
            WHOLE,
            "the number of bytes before a file's first record, which are skipped",
            0,
        ),
        Option(
            "trailer_bytes",
            WHOLE,
            "the number of bytes after a file's last record, which are skipped",
            0,
        ),
        Option("header", TEXT, "the record (level 01) that begins a file, and is skipped"),
        Option("trailer", TEXT, "the record (level 01) that ends a file, and is skipped"),
        Option(
            "indicators",
            INDICATORS,
            "items that state whether others are NULL: ITEM=INDICATOR, or *=BITS",
        ),
        Option("file_column", FLAG, "true: the file's name in the column _file", False),
        Option(
            "number_column", FLAG, "true: the record's number in the column _record_number", False
        ),
        Option(
            "offset_column",
            FLAG,
            "true: the offset of the record's first byte in the column _offset",
            False,
        ),
        Option("partitions", NAMES, "columns from the names of folders, NAME=VALUE", ()),
        Option("split_bytes", COUNT, "how many bytes of a file a task reads", RECORD_SPLIT_BYTES),
        Option(
            "split_search",
            choice(SplitSearch),
            "how the splits of a file are found",
            SplitSearch.WORDS,
        ),
    ),
)


class CopybookKeywords(TypedDict, total=False):
    """The options for the copybook and for the values of its items, as keyword arguments."""

    copybook_text: str | None
    copy_path: str | Iterable[Address]
    record: str | None
    kinds: str | Mapping[str, Mapping[str, str | None]] | None
    columns: str | Iterable[str] | None
    shape: Literal["tree", "flat"] | None
    depending: Literal["real", "most"]
    errors: Literal["stop", "column"]
    raw: bool
    surplus: Literal["error", "drop", "padding"] | None
    short: Literal["error", "pad", "null"] | None
    trim: bool | Literal["left", "right", "both"]
    blank: Literal["error", "null", "zero"]
    low_values: Literal["error", "null", "zero"]
    padding: Literal["left", "zeros", "trim", "error"]
    code_page: str | None
    code_pages: str | Mapping[str, str]
    integers: Literal["int64", "decimal", "text"]
    numbers: Literal["value", "text"]
    binary: Literal["big", "little"]
    native: Literal["big", "little"] | None
    national: Literal["big", "little"]
    binary_sizes: Literal["ibm", "powers", "smallest"] | None
    floats: Literal["ibm", "ieee"] | None
    signs: Literal["strict", "lenient"]
    compiler: Literal["ibm", "micro-focus", "gnucobol", "fujitsu"] | None
    decimal_comma: bool
    constants: str | Mapping[str, str | int | bool | None]
    names: Literal["cobol", "sql"]
    filler: Literal["drop", "keep", "bytes"]
    rename: str | Mapping[str, str]
    element_names: str | Mapping[str, Sequence[str]]
    count_map: str | Mapping[str, Mapping[str, int]]
    source_format: Literal["fixed", "free", "auto"]


class RecordKeywords(CopybookKeywords, total=False):
    """The options for finding records in a file, as keyword arguments."""

    segment: str | None
    parents: str | Mapping[str, str] | None
    children: Literal["ids", "nested"]
    orphans: Literal["error", "drop"]
    record_format: Literal[
        "fixed",
        "line",
        "micro-focus",
        "rdw",
        "bdw",
        "spanned",
        "length-field",
        "layout",
        "F",
        "FB",
        "V",
        "VB",
        "VBS",
        "FA",
        "FM",
        "FS",
        "FSA",
        "FSM",
        "FBA",
        "FBM",
        "FBS",
        "FBSA",
        "FBSM",
        "VA",
        "VM",
        "VS",
        "VSA",
        "VSM",
        "VBA",
        "VBM",
        "VBSA",
        "VBSM",
    ]
    record_length: int | None
    segment_length: Literal["own", "record"]
    delimiter: str | bytes | None
    little_endian: bool
    adjustment: int
    twisted: bool
    bdw_little_endian: bool | None
    bdw_adjustment: int | None
    bdw_twisted: bool | None
    minimum_length: int
    maximum_length: int | None
    other_lengths: Literal["error", "skip"]
    length_offset: int
    length_width: Literal[1, 2, 4, 8]
    length_field: str | None
    length_map: str | Mapping[str, int] | None
    skip_first: int
    skip_last: int
    indicators: str | Mapping[str, str] | None
    header_bytes: int
    trailer_bytes: int
    header: str | None
    trailer: str | None
    file_column: bool
    number_column: bool
    offset_column: bool
    partitions: str | Iterable[str]
    split_bytes: int
    split_search: Literal["words", "index", "kept"]


# The options that also apply to a column of records.
COLUMN_OPTIONS: Final = Options(
    "copybook (of a column)",
    (row for row in OPTIONS if row.name in {"copybook", *CopybookKeywords.__annotations__}),
)


def with_base(options: Options, values: dict[str, Any], base: str | None) -> dict[str, Any]:
    """Return the values of record options; relative paths become relative to ``base`` (None: the working directory)."""
    files = (PATH, PATHS, KINDS)
    own = [row.name for row in options if row.kind in files] if base is not None else []
    return values | {name: make_addresses_absolute(values[name], base or "") for name in own}
