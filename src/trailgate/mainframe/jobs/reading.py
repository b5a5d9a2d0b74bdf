"""Files of records by a copybook, read as Arrow batches (docs/copybook.md).

The options (``record_options``) become one frozen value for all front ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Self, Unpack

import numpy as np
import pyarrow as pa

from trailgate.arrays import CHUNK
from trailgate.cobol.copybook.items import counter_keys
from trailgate.cobol.copybook.layouts import Dialect, Field, Layout
from trailgate.cobol.copybook.names import ColumnNames
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.records.added_columns import FILE_COLUMN, NUMBER_COLUMN, OFFSET_COLUMN
from trailgate.cobol.records.decoding import (
    ERRORS_COLUMN,
    RecordDecoder,
    RecordOptions,
    Shape,
    Short,
    Surplus,
)
from trailgate.cobol.records.fields import PolicyCounts, RecordBytes, records_at
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.indicators import BITS
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.nested_kinds import Children, NestedDecoder, Orphans
from trailgate.cobol.records.record_ids import ID_COLUMN, is_level_column
from trailgate.cobol.records.record_kinds import KindsDecoder, SegmentDecoder
from trailgate.cobol.records.segments import layout_named
from trailgate.cobol.values.codec import ValueOptions
from trailgate.cobol.values.text import has_pages_of_its_own
from trailgate.errors import OptionError, TrailgateError, Where, did_you_mean, mask_logins
from trailgate.mainframe.files.record_files import (
    SPLIT_BYTES,
    WHOLE_FILE,
    RecordSplit,
    Search,
    find_record_files,
    plan_record_splits,
    read_record_split,
)
from trailgate.mainframe.framing import check_formats, framing_of, without_ends
from trailgate.mainframe.jobs.option_texts import known_kinds
from trailgate.mainframe.jobs.options import COLUMN_OPTIONS, OPTIONS, RecordKeywords, with_base
from trailgate.options import list_names
from trailgate.storage.files.found_files import (
    Addresses,
    check_folder,
    copy_members,
    folder_of,
    read_source,
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
    "constants",
)


_ASCII_ENDS: Final = (
    None,
    b"\n",
    b"\r\n",
)  # of lines that are text in ASCII, unless a code page is given


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
    children: Children = Children.IDS
    orphans: Orphans = Orphans.ERROR

    def check_names(self) -> None:
        """Raise OptionError where folders and items have a name in common, and for a name that is not Unicode."""
        for name in self.partitions:
            if any("\ud800" <= character <= "\udfff" for character in name):
                raise OptionError(f"partitions: the name {name!r} is not Unicode")
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
        given = {**given, "kinds": known_kinds(given["kinds"])}
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
            counts=_known_counts(given["count_map"], names, layouts),
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
        nested = given["children"] is Children.NESTED
        if nested and not given["parents"]:
            raise OptionError("children=nested without parents", hint="Add parents: CHILD=PARENT")
        if given["orphans"] is not Orphans.ERROR and not nested:
            problem = "orphans is an option of children=nested: with ids they are rows"
            raise OptionError(problem, hint="Leave it out")
        if given["parents"]:
            # A record is below one before it in the file, so one task reads the file.
            kinds, split_bytes = replace(kinds, parents=dict(given["parents"])), WHOLE_FILE
        check_formats(given, OPTIONS)
        framing = framing_of(given, layouts, values)
        own = cls(layouts, record, kinds, records, framing, split_bytes, given["segment"])
        own = replace(own, search=given["split_search"], partitions=given["partitions"])
        own = replace(own, children=given["children"], orphans=given["orphans"])
        own.check_names()
        return own

    def only(self, names: Sequence[str]) -> Self:
        """Return the options for some of the schema's columns: others are not decoded.

        Of several kinds of records all columns are decoded, but for those of a single segment without others in it.
        """
        added = {ERRORS_COLUMN, FILE_COLUMN, ID_COLUMN, *self.records.all_added}
        own = tuple(name for name in names if name not in added and not is_level_column(name))
        trees = self.segment is None or self.children is Children.NESTED
        if (self.kinds is not None and trees) or not own:
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

    def decoder(self, tally: PolicyCounts | None = None) -> Decoder:
        """Return what decodes the records, and adds to ``tally`` what policies decide on."""
        if self.kinds is None:
            return RecordDecoder(layout_named(self.layouts, self.record), self.records, tally)
        own = self.layouts, self.kinds, self.records, tally
        kinds = KindsDecoder(*own)
        if self.children is Children.NESTED:
            kinds = NestedDecoder(*own, orphans=self.orphans)
        return kinds if self.segment is None else SegmentDecoder(kinds, self.segment)


def _dialect(given: Mapping[str, Any]) -> Dialect:
    """Return the dialect of the options: what is not stated is as the compiler has it."""
    stated = {name: given[name] for name in _DIALECT if given[name] is not None}
    if given["record_format"] is FrameKind.LINE and given["delimiter"] in _ASCII_ENDS:
        # A line feed does not end a line of EBCDIC text, whose lines end with X'15' or X'25'.
        stated = {"code_page": "ascii", **stated}
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


def _layouts(given: Mapping[str, Any], dialect: Dialect) -> list[Layout]:
    paths, text = given["copybook"], given["copybook_text"]
    if (not paths) == (text is None):
        raise OptionError("the option copybook is needed, or copybookText instead of it")
    sources = [(path, str(read_source(path))) for path in paths or ()] or [("copybook", text)]
    for folder in given["copy_path"]:
        check_folder(folder, "copyPath")
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
            problem = f"countMap: no OCCURS depends on an item {name}"
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
    path: Addresses,
    copybook: Addresses | None = None,
    *,
    counts: PolicyCounts | None = None,
    **options: Unpack[RecordKeywords],
) -> pa.RecordBatchReader:
    """Return a reader of the records of a file, of a folder's files by name, of a pattern's, or of several of these, as columns.

    The options are those of the Spark format ``copybook`` (docs/copybook.md). Raises OptionError, DefinitionError and
    StorageError at once; the reader raises DecodeError with file, record, byte offset, field and raw bytes where a
    field does not hold a value.

    To ``counts``, a ``collections.Counter``, is added as the reader is read what the options of values decided on, by option, record and field:
    ``("padding=left", "ACCOUNT", "AMOUNT")``.
    """
    if counts is not None and not isinstance(counts, Counter):
        raise OptionError(f"counts must be a collections.Counter, not {type(counts).__name__}")
    chosen = CopybookOptions.of({"copybook": copybook, **options})
    return read_all_records(path, chosen, tally=counts)


def read_all_records(
    path: Addresses, options: CopybookOptions, first: int = 0, tally: PolicyCounts | None = None
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
        for records in decoder.whole(records_of_split(split, options, decoder.tally)):
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
        for records in decoder.whole(records_of_split(split, options, decoder.tally)):
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


# Each column of a batch has a cost of its own, so a batch of long records is larger: with the usual number of bytes it would have a few rows, and as
# many columns as a record is long, which made the cost of a value grow with the number of columns.
_ROWS_OF_BATCH: Final = 512
_MOST_CHUNK: Final = 32 << 20


def _chunk_bytes(length: int) -> int:
    """Return how many bytes are decoded at once of records of a length: ``CHUNK``, but more for records of more than some thousand bytes."""
    return max(CHUNK, min(_ROWS_OF_BATCH * length, _MOST_CHUNK))


def records_of_split(
    split: RecordSplit, options: CopybookOptions, tally: PolicyCounts
) -> Iterator[RecordBytes]:
    """Yield the records of one split, not decoded; ``tally`` counts those that are skipped for their lengths."""
    framing = options.framing
    texts = {FILE_COLUMN: mask_logins(split.file.path), **dict(split.file.partitions)}
    for chunk in read_record_split(split, framing, _chunk_bytes(framing.length)):
        found = records_at(chunk.data, chunk.starts, chunk.ends, first=chunk.first, base=chunk.base)
        found = replace(found, texts=texts, places=chunk.places)
        others = framing.others(found.starts, found.ends) if framing.skips else None
        if others is not None and others.any():
            tally["otherLengths=skip", "skipped", ""] += int(np.count_nonzero(others))
            found = found.without(others)
        yield found


def _batches(decoder: Decoder, records: RecordBytes, first: int) -> Iterator[pa.RecordBatch]:
    """Yield the columns of records, after each piece that may hold the ``first`` rows before the next one is decoded: that of one record, then the rest."""
    at, step, some = 0, first, bool(first)
    while first and at < len(records):
        before = decoder.tally.copy()
        end = decoder.piece_end(records, at + step)
        try:
            found = list(decoder.batches(records.part(at, end)))
        except TrailgateError:
            if step == first:
                raise
            decoder.tally.clear()  # they are decoded again
            decoder.tally.update(before)
            step = first  # the error may be after the first rows
            continue
        rows = sum(batch.num_rows for batch in found)
        yield from found
        at, first = end, max(0, first - rows)
        step = first if rows else 2 * step  # where records of other kinds are left out
    if some and at < len(records):
        end = decoder.piece_end(records, at + 1)
        yield from decoder.batches(records.part(at, end))
        at = end
    if at < len(records) or not len(records):
        yield from decoder.batches(records.part(at, len(records)))
