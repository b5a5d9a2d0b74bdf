"""Files of records by a copybook, read as Arrow batches (docs/copybook.md).

The options are typed keywords, and one frozen value for all front ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, Self, TypedDict, Unpack

import pyarrow as pa

from trailgate.cobol.copybook.items import counter_keys
from trailgate.cobol.copybook.layouts import (
    COMPILERS,
    BinarySizes,
    Dialect,
    Endian,
    Field,
    FloatFormat,
    Layout,
    Signs,
    SourceFormat,
)
from trailgate.cobol.copybook.names import ColumnNames, Filler, Names
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.records.added_columns import FILE_COLUMN, NUMBER_COLUMN, OFFSET_COLUMN
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    Depending,
    OnError,
    RecordDecoder,
    RecordOptions,
    Shape,
    Short,
    Surplus,
)
from trailgate.cobol.records.fields import RecordBytes, Tally, records_at
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.indicators import BITS
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.record_ids import ID_COLUMN, is_level_column
from trailgate.cobol.records.record_kinds import KindsDecoder, SegmentDecoder
from trailgate.cobol.records.segments import layout_named
from trailgate.cobol.values.codec import Blank, Integers, Numbers, Padding, ValueOptions
from trailgate.cobol.values.text import has_pages_of_its_own
from trailgate.errors import (
    OptionError,
    TrailgateError,
    Where,
    did_you_mean,
    mask_logins,
)
from trailgate.jobs.record_framing import LENGTH_WIDTH, check_formats, framing_of, without_ends
from trailgate.jobs.record_texts import (
    COUNTS,
    DELIMITER,
    ELEMENTS,
    FORMAT,
    INDICATORS,
    KINDS,
    LENGTHS,
    PAGES,
    PARENTS,
    RENAMED,
    TRIM,
)
from trailgate.options import (
    COUNT,
    FLAG,
    NAMES,
    PATH,
    PATHS,
    TEXT,
    WHOLE,
    Option,
    Options,
    choice,
    list_names,
)
from trailgate.storage.files.addresses import Address, absolute_value
from trailgate.storage.files.found_files import Addresses, copy_members, folder_of, read_source
from trailgate.storage.reading.record_files import (
    SPLIT_BYTES,
    WHOLE_FILE,
    RecordSplit,
    Search,
    find_record_files,
    plan_record_splits,
    read_record_split,
)


class CopybookKeywords(TypedDict, total=False):
    """How a copybook and its values are read."""

    copybook_text: str | None
    copy_path: str | Iterable[Address]
    record: str | None
    kinds: str | Mapping[str, Mapping[str, str | None]] | None
    columns: str | Iterable[str] | None
    shape: Literal["tree", "flat"]
    depending: Literal["real", "most"]
    errors: Literal["stop", "column"]
    raw: bool
    surplus: Literal["error", "drop", "padding"] | None
    short: Literal["error", "pad", "null"] | None
    trim: bool | Literal["left", "right", "both"]
    blank: Literal["error", "null", "zero"]
    low_values: Literal["error", "null", "zero"]
    padding: Literal["left", "zeros", "trim", "error"]
    code_page: str
    code_pages: str | Mapping[str, str]
    integers: Literal["int64", "decimal", "text"]
    numbers: Literal["value", "text"]
    binary: Literal["big", "little"]
    native: Literal["big", "little"]
    national: Literal["big", "little"]
    binary_sizes: Literal["ibm", "smallest"]
    floats: Literal["ibm", "ieee"]
    signs: Literal["strict", "lenient"]
    compiler: Literal["ibm", "micro-focus", "gnucobol", "fujitsu"] | None
    decimal_comma: bool
    names: Literal["cobol", "sql"]
    filler: Literal["drop", "keep", "bytes"]
    rename: str | Mapping[str, str]
    element_names: str | Mapping[str, Sequence[str]]
    counts: str | Mapping[str, Mapping[str, int]]
    source_format: Literal["fixed", "free", "auto"]


class RecordKeywords(CopybookKeywords, total=False):
    """How records are found in a file."""

    segment: str | None
    parents: str | Mapping[str, str] | None
    record_format: Literal[
        "fixed",
        "line",
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
    ]
    record_length: int | None
    delimiter: str | bytes | None
    little_endian: bool
    adjustment: int
    twisted: bool
    bdw_little_endian: bool | None
    bdw_adjustment: int | None
    bdw_twisted: bool | None
    minimum_length: int
    maximum_length: int | None
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


_COBOL: Final = Dialect()
OPTIONS: Final = Options(
    "copybook",
    (
        Option("copybook", PATHS, "the copybook's file, or several, comma-separated"),
        Option("copybook_text", TEXT, "the copybook itself, instead of its file"),
        Option("copy_path", PATHS, "folders where COPY finds its members, comma-separated", ()),
        Option("record", TEXT, "the record (level 01) that all records are"),
        Option("kinds", KINDS, "records of several kinds: FIELD: VALUE=RECORD, VALUE=RECORD"),
        Option("segment", TEXT, "only the records of this one of the kinds, as a table"),
        Option("parents", PARENTS, "kinds below others, with ids: CHILD=PARENT, CHILD=PARENT"),
        Option("columns", NAMES, "only these items or groups, comma-separated"),
        Option("shape", choice(Shape), "tree: structs and arrays; flat: a column an item"),
        Option("depending", choice(Depending), "how many elements OCCURS has", Depending.REAL),
        Option("errors", choice(OnError), "a bad field: stop, or column (_errors)", OnError.STOP),
        Option("raw", FLAG, "true: the record's bytes in the column _raw", False),
        Option("surplus", choice(Surplus), "bytes after the last item: error, drop, padding"),
        Option("short", choice(Short), "items that a record ends before: error, pad or null"),
        Option("trim", TRIM, "blanks beside text that are removed: false for none", True),
        Option("blank", choice(Blank), "a number of only blanks: error, null, zero", Blank.ERROR),
        Option("low_values", choice(Blank), "a number of only low-values, alike", Blank.ERROR),
        Option("padding", choice(Padding), "blanks beside a number's digits", Padding.LEFT),
        Option("code_page", TEXT, "of text and DISPLAY numbers, as cp037", _COBOL.code_page),
        Option("code_pages", PAGES, "of single items: ITEM=PAGE, ITEM=PAGE", {}),
        Option("integers", choice(Integers), "what whole numbers become", Integers.INT64),
        Option("numbers", choice(Numbers), "value, or always text", Numbers.VALUE),
        Option("binary", choice(Endian), "byte order of COMP", _COBOL.binary),
        Option("native", choice(Endian), "byte order of COMP-5"),
        Option("national", choice(Endian), "byte order of PIC N", Endian.BIG),
        Option("binary_sizes", choice(BinarySizes), "bytes of COMP"),
        Option("floats", choice(FloatFormat), "form of COMP-1 and COMP-2"),
        Option("signs", choice(Signs), "nibbles and overpunches that are taken", _COBOL.signs),
        Option(
            "compiler",
            choice(COMPILERS),
            "sizes and orders of a compiler: ibm, micro-focus, gnucobol, fujitsu",
        ),
        Option("decimal_comma", FLAG, "true: DECIMAL-POINT IS COMMA", False),
        Option("names", choice(Names), "of columns: cobol, or sql with _ for each -", Names.COBOL),
        Option("filler", choice(Filler), "columns of FILLER: drop, keep or bytes", Filler.DROP),
        Option("rename", RENAMED, "other names: ITEM=NAME, ITEM_2=NAME", {}),
        Option("element_names", ELEMENTS, "of an OCCURS: ITEM=NAME|NAME, ITEM=NAME|NAME", {}),
        Option("counts", COUNTS, "of values of counters: ITEM: VALUE=COUNT, VALUE=COUNT", {}),
        Option("source_format", choice(SourceFormat), "of the copybook", _COBOL.source_format),
        Option("record_format", FORMAT, "how records are separated", FrameKind.FIXED),
        Option("record_length", WHOLE, "bytes of a record; else the copybook's"),
        Option("delimiter", DELIMITER, "after each line, as \\x15; else \\n or \\r\\n"),
        Option("little_endian", FLAG, "true: descriptor words and length fields are so", False),
        Option("adjustment", WHOLE, "added to lengths: 4 where an RDW does not count itself", 0),
        Option("twisted", FLAG, "true: the length is in the second half of an RDW", False),
        Option("bdw_little_endian", FLAG, "little_endian of a BDW, where it differs"),
        Option("bdw_adjustment", WHOLE, "adjustment of a BDW, where it differs"),
        Option("bdw_twisted", FLAG, "twisted of a BDW, where it differs"),
        Option("minimum_length", WHOLE, "a record of fewer bytes is an error", 0),
        Option("maximum_length", WHOLE, "a record of more bytes is an error"),
        Option("length_offset", WHOLE, "where the length field begins in the record", 0),
        Option("length_width", WHOLE, "bytes of the length field: 1, 2, 4 or 8", LENGTH_WIDTH),
        Option("length_field", TEXT, "an item that has the length, or a sum as 2 * ITEM + 4"),
        Option("length_map", LENGTHS, "lengths by the value of length_field: VALUE=4, *=8"),
        Option("skip_first", WHOLE, "records of a file's header, left out", 0),
        Option("skip_last", WHOLE, "records of a file's trailer, left out", 0),
        Option("header_bytes", WHOLE, "bytes before a file's first record, left out", 0),
        Option("trailer_bytes", WHOLE, "bytes after a file's last record, left out", 0),
        Option("header", TEXT, "the record (level 01) that begins a file, left out"),
        Option("trailer", TEXT, "the record (level 01) that ends a file, left out"),
        Option(
            "indicators", INDICATORS, "items that are NULL by others: ITEM=INDICATOR, or *=BITS"
        ),
        Option("file_column", FLAG, "true: the file's name in the column _file", False),
        Option(
            "number_column", FLAG, "true: the record's number in the column _record_number", False
        ),
        Option("offset_column", FLAG, "true: the record's first byte in the column _offset", False),
        Option("partitions", NAMES, "columns for the folders NAME=VALUE that files are in", ()),
        Option("split_bytes", COUNT, "how many bytes of a file a task reads", SPLIT_BYTES),
        Option("split_search", choice(Search), "how the splits of a file are found", Search.WORDS),
    ),
)
# Those that do not concern files.
COLUMN_OPTIONS: Final = Options(
    "copybook (of a column)",
    (row for row in OPTIONS if row.name in {"copybook", *CopybookKeywords.__annotations__}),
)
_ADDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "file_column": FILE_COLUMN,
        "number_column": NUMBER_COLUMN,
        "offset_column": OFFSET_COLUMN,
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
    "decimal_comma",
)


Decoder = RecordDecoder | KindsDecoder | SegmentDecoder


@dataclass(frozen=True, slots=True)
class CopybookOptions:
    """A copybook's layouts and all choices; it can be pickled, so workers read no copybook."""

    layouts: tuple[Layout, ...]
    record: str | None
    kinds: RecordKinds | None
    records: RecordOptions
    framing: Framing
    split_bytes: int = SPLIT_BYTES
    segment: str | None = None
    search: Search = Search.WORDS
    partitions: tuple[str, ...] = ()

    def check_names(self) -> None:
        """Raise OptionError where folders and items have a name in common."""
        names = self.decoder().schema.names if self.partitions else []
        for name in self.partitions:
            if names.count(name) > 1:
                raise OptionError(f"partitions: another column has the name {name} too")

    @classmethod
    def of(
        cls, named: Mapping[str, Any], *, shape: Shape = Shape.TREE, base: str | None = None
    ) -> Self:
        """Return the options of these names; relative paths are from ``base``, else from the working folder.

        Raises OptionError, DefinitionError, StorageError.
        """
        return cls.of_values(with_base(OPTIONS, OPTIONS.read(named), base), shape=shape)

    @classmethod
    def of_column(cls, named: Mapping[str, Any]) -> Self:
        """Return the options of a column of records; raises as ``of`` does, and for options of files."""
        whole = {"surplus": Surplus.ERROR, **named}
        return cls.of_values({**OPTIONS.read({}), **COLUMN_OPTIONS.read(whole)})

    @classmethod
    def of_values(cls, given: Mapping[str, Any], *, shape: Shape = Shape.TREE) -> Self:
        """Return the options of values that are read already; raises as ``of`` does."""
        dialect = _dialect(given)
        names = ColumnNames(
            given["names"], given["filler"], given["rename"], given["element_names"]
        )
        layouts = _with_pages(tuple(_layouts(given, dialect)), given["code_pages"])
        elements = names.elements(layouts)
        if elements and (given["shape"] or shape) is Shape.TREE:
            problem = f"rename: {next(iter(elements))} is a column of shape=flat alone"
            raise OptionError(problem)
        if given["element_names"] and (given["shape"] or shape) is Shape.TREE:
            raise OptionError("elementNames: elements are columns with shape=flat alone")
        layouts, given = names.layouts(layouts), _renamed(given, names)
        values = ValueOptions(
            dialect,
            trim=given["trim"],
            blank=given["blank"],
            low_values=given["low_values"],
            padding=given["padding"],
            integers=given["integers"],
            numbers=given["numbers"],
            national=given["national"],
        )
        # The length of fixed records states how many bytes there are; lines are written without the blanks at their ends.
        fixed, line = (given["record_format"] is kind for kind in (FrameKind.FIXED, FrameKind.LINE))
        records = RecordOptions(
            values,
            shape=given["shape"] or shape,
            depending=given["depending"],
            columns=given["columns"],
            errors=given["errors"],
            raw=given["raw"],
            surplus=given["surplus"] or (Surplus.DROP if fixed else Surplus.ERROR),
            short=given["short"] or (Short.PAD if line else Short.ERROR),
            indicators=_known_indicators(given["indicators"], layouts),
            added=(
                *(column for name, column in _ADDED.items() if given[name]),
                *given["partitions"],
            ),
            renamed=elements,
            counts=_known_counts(given["counts"], names, layouts),
        )
        given, layouts = without_ends(given, layouts)
        kinds, record = given["kinds"], given["record"]
        if kinds is not None and record is not None:
            raise OptionError("record and kinds are both given", hint="Leave one of them out")
        split_bytes = given["split_bytes"]
        for name in ("segment", "parents"):
            if kinds is None and given[name] is not None:
                raise OptionError(
                    f"{name} is an option of files of several kinds", hint="Add kinds"
                )
        if given["parents"]:
            # A record is below one before it in the file, so one task reads the file.
            kinds, split_bytes = replace(kinds, parents=dict(given["parents"])), WHOLE_FILE
        check_formats(given, OPTIONS)
        framing = framing_of(given, layouts, values)
        own = cls(layouts, record, kinds, records, framing, split_bytes, given["segment"])
        own = replace(own, search=given["split_search"], partitions=given["partitions"])
        own.check_names()
        return own

    def only(self, names: Sequence[str]) -> Self:
        """Return the options for some of the schema's columns: others are not decoded.

        Of several kinds of records all columns are decoded, but for those of a single segment.
        """
        added = {ERRORS_COLUMN, FILE_COLUMN, ID_COLUMN, *self.records.all_added}
        own = tuple(name for name in names if name not in added and not is_level_column(name))
        if (self.kinds is not None and self.segment is None) or not own:
            return self
        kept = tuple(name for name in self.records.added if name in names)
        chosen = replace(self, records=replace(self.records, columns=own, added=kept))
        # Of items of one name the second one's number is not known by that of the group alone.
        return chosen if set(own) <= set(chosen.decoder().schema.names) else self

    def splits(self, path: Addresses, split_bytes: int | None = None) -> list[RecordSplit]:
        """Return splits that together hold every record of files once; raises StorageError, DecodeError."""
        files = find_record_files(path, self.partitions)
        numbered = NUMBER_COLUMN in self.records.added
        size = split_bytes or self.split_bytes
        return plan_record_splits(files, self.framing, size, self.search, numbered=numbered)

    def decoder(self, tally: Tally | None = None) -> Decoder:
        """Return what decodes the records, and adds to ``tally`` what policies decide on."""
        if self.kinds is None:
            return RecordDecoder(layout_named(self.layouts, self.record), self.records, tally)
        kinds = KindsDecoder(self.layouts, self.kinds, self.records, tally)
        return kinds if self.segment is None else SegmentDecoder(kinds, self.segment)


def _dialect(given: Mapping[str, Any]) -> Dialect:
    """Return the dialect of the options: what is not stated is as the compiler has it."""
    stated = {name: given[name] for name in _DIALECT if given[name] is not None}
    return Dialect(**{**(given["compiler"] or {}), **stated})


def _renamed(given: Mapping[str, Any], names: ColumnNames) -> dict[str, Any]:
    """Return values of options in which items have their new names, by whichever name they were given."""
    found = dict(given)
    for name in ("record", "segment"):
        found[name] = None if given[name] is None else names.name(given[name])
    if given["columns"] is not None:
        found["columns"] = tuple(map(names.name, given["columns"]))
    if given["kinds"] is not None:
        found["kinds"] = given["kinds"].renamed(names.name)
    if given["parents"]:
        above = given["parents"].items()
        found["parents"] = {names.name(child): names.name(parent) for child, parent in above}
    return found


def with_base(options: Options, values: dict[str, Any], base: str | None) -> dict[str, Any]:
    """Return values of options with their relative paths from ``base``; None is the working folder."""
    own = [row.name for row in options if row.kind in (PATH, PATHS)] if base is not None else []
    return values | {name: absolute_value(values[name], base or "") for name in own}


def _layouts(given: Mapping[str, Any], dialect: Dialect) -> list[Layout]:
    paths, text = given["copybook"], given["copybook_text"]
    if (not paths) == (text is None):
        raise OptionError("the option copybook is needed, or copybookText instead of it")
    sources = [(path, str(read_source(path))) for path in paths or ()] or [("copybook", text)]
    folders = [*given["copy_path"], *map(folder_of, paths or ())]
    layouts: list[Layout] = []
    for source, content in sources:
        found = read_copybook(content, source=source, dialect=dialect, member=copy_members(folders))
        for layout in found:
            if any(layout.name.upper() == other.name.upper() for other in layouts):
                problem = f"a record {layout.name} is in another copybook, too"
                raise OptionError(problem, where=Where(source=source))
        layouts += found
    return layouts


def _with_pages(layouts: tuple[Layout, ...], pages: Mapping[str, str]) -> tuple[Layout, ...]:
    """Return layouts whose items of these names have code pages of their own."""
    known = {field.name.upper() for layout in layouts for field in layout.root.walk()}
    for name in pages:
        if name not in known:
            problem = f"codePages: no item {name} in the copybook"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return tuple(Layout(_with_code_page(layout.root, pages, None)) for layout in layouts)


def _known_indicators(
    indicators: Mapping[str, str] | None, layouts: Sequence[Layout]
) -> dict[str, str]:
    """Return items and their indicators; raises OptionError for one that no layout has."""
    known = {field.name.upper() for layout in layouts for field in layout.root.walk()}
    for name in (one for pair in (indicators or {}).items() for one in pair):
        if name != BITS and name.upper() not in known:
            problem = f"indicators: no item {name} in the copybook"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return dict(indicators or {})


def _known_counts(
    counts: Mapping[str, Mapping[str, int]], names: ColumnNames, layouts: Sequence[Layout]
) -> dict[str, Mapping[str, int]]:
    """Return the counts of counters by their names in capitals; raises OptionError for an item that is not a counter."""
    known = {key[0] for layout in layouts for key in counter_keys(layout)}
    found = {names.name(item).upper(): own for item, own in counts.items()}
    for name in found:
        if name not in known:
            problem = f"counts: no OCCURS depends on an item {name}"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return found


def _with_code_page(field: Field, pages: Mapping[str, str], around: str | None) -> Field:
    page = pages.get(field.name.upper())
    if page is None and around is not None and not has_pages_of_its_own(field, around):
        page = around
    children = tuple(_with_code_page(child, pages, page) for child in field.children)
    return replace(field, children=children, code_page=page)


@list_names(RecordKeywords, OPTIONS)
def read_records(
    path: Addresses, copybook: Addresses | None = None, **options: Unpack[RecordKeywords]
) -> pa.RecordBatchReader:
    """Return a reader of the records of a file, of a folder's files by name, of a pattern's, or of several of these, as columns.

    The options are those of the Spark format ``copybook`` (docs/copybook.md). Raises OptionError, DefinitionError and
    StorageError at once; the reader raises DecodeError with file, record, byte offset, field and raw bytes where a
    field does not hold a value.
    """
    return read_all_records(path, CopybookOptions.of({"copybook": copybook, **options}))


def read_all_records(
    path: Addresses, options: CopybookOptions, first: int = 0, tally: Tally | None = None
) -> pa.RecordBatchReader:
    """Return a reader of the records of files; it yields so many ``first`` rows before it decodes what is after them.

    It adds to ``tally`` what policies decide on.
    """
    decoder = options.decoder(tally)
    # One after the other files are read whole, so that no split is searched, and errors have the numbers of records.
    batches = read_splits(options.splits(path, WHOLE_FILE), options, decoder, first)
    return pa.RecordBatchReader.from_batches(decoder.schema, batches)


def read_splits(
    splits: Iterable[RecordSplit], options: CopybookOptions, decoder: Decoder, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the records of splits, one after the other."""
    for split in splits:
        for batch in read_copybook_split(split, options, decoder, first):
            first = max(0, first - batch.num_rows)
            yield batch


def read_copybook_split(
    split: RecordSplit, options: CopybookOptions, decoder: Decoder, first: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield the records of one split as columns."""
    decoder = decoder.of_file(split.file.path)
    try:
        for records in _records_of(split, options):
            for batch in _batches(decoder, records, first):
                first = max(0, first - batch.num_rows)
                yield batch
    except TrailgateError as error:
        raise error.with_place(source=split.file.path) from None


def read_tables(
    split: RecordSplit, options: CopybookOptions, decoder: Decoder
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the records of one split as columns, with the table that they belong to: of several kinds each has its own."""
    if not isinstance(decoder, KindsDecoder):
        yield from (("", batch) for batch in read_copybook_split(split, options, decoder))
        return
    decoder = decoder.of_file(split.file.path)
    try:
        for records in _records_of(split, options):
            yield from decoder.tables(records)
    except TrailgateError as error:
        raise error.with_place(source=split.file.path) from None


def table_schemas(decoder: Decoder) -> dict[str, pa.Schema]:
    """Return the schemas of the tables that ``read_tables`` yields, by their names."""
    if not isinstance(decoder, KindsDecoder):
        return {"": decoder.schema}
    return {name: decoder.table_schema(name) for name in decoder.names}


def record_schemas(named: Mapping[str, Any], *, shape: Shape = Shape.TREE) -> dict[str, pa.Schema]:
    """Return the schemas of the tables that records are by options of these names: that of each kind, or of each record where nothing chooses one.

    Raises as ``CopybookOptions.of`` does.
    """
    given = OPTIONS.read(named)
    layouts = without_ends(given, tuple(_layouts(given, _dialect(given))))[1]
    chosen = len(layouts) == 1 or given["record"] is not None or given["kinds"] is not None
    found = {}
    for choice_of in [{}] if chosen else [{"record": layout.name} for layout in layouts]:
        options = CopybookOptions.of({**named, **choice_of}, shape=shape)
        for name, schema in table_schemas(options.decoder()).items():
            own = name or options.segment or layout_named(options.layouts, options.record).name
            found[own] = schema
    return found


def _records_of(split: RecordSplit, options: CopybookOptions) -> Iterator[RecordBytes]:
    texts = {FILE_COLUMN: mask_logins(split.file.path), **dict(split.file.partitions)}
    for chunk in read_record_split(split, options.framing):
        found = records_at(chunk.data, chunk.starts, chunk.ends, first=chunk.first, base=chunk.base)
        yield replace(found, texts=texts, places=chunk.places)


def _batches(decoder: Decoder, records: RecordBytes, first: int) -> Iterator[pa.RecordBatch]:
    """Yield the columns of records, after each piece that may hold the ``first`` rows before the next one is decoded."""
    at, step = 0, first
    while first and at < len(records):
        before = decoder.tally.copy()
        try:
            found = list(decoder.batches(records.part(at, at + step)))
        except TrailgateError:
            if step == first:
                raise
            decoder.tally.clear()  # they are decoded again
            decoder.tally.update(before)
            step = first  # the error may be after the first rows
            continue
        rows = sum(batch.num_rows for batch in found)
        yield from found
        at, first = at + step, max(0, first - rows)
        step = first if rows else 2 * step  # where records of other kinds are left out
    if at < len(records) or not len(records):
        yield from decoder.batches(records.part(at, len(records)))
