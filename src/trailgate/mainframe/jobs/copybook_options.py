"""The options for reading copybook records as one frozen value, which Python, Spark and the command line share.

``CopybookOptions`` checks the options (``mainframe/jobs/options.py``) against each other, and parses the
copybooks that they name into layouts. From it come the splits of files and the decoder of their
records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Self

from trailgate.cobol.copybook.conditional_text import warn_of_unused_constants
from trailgate.cobol.copybook.layouts import (
    CobolDialect,
    CopybookField,
    CopybookLayout,
    counter_keys,
)
from trailgate.cobol.copybook.names import ItemNames
from trailgate.cobol.copybook.reader import read_copybook
from trailgate.cobol.copybook.segment_layouts import find_layout_or_segment
from trailgate.cobol.records.added_columns import FILE_COLUMN, NUMBER_COLUMN, OFFSET_COLUMN
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.framing import FrameKind, Framing
from trailgate.cobol.records.indicators import BITS
from trailgate.cobol.records.kind_rules import RecordKinds
from trailgate.cobol.records.kinds_decoding import (
    KindsDecoder,
    SingleKindDecoder,
    find_kind_layouts,
)
from trailgate.cobol.records.nested_decoding import ChildRecords, NestedDecoder, OrphanPolicy
from trailgate.cobol.records.policy_counts import PolicyCounts
from trailgate.cobol.records.record_ids import ID_COLUMN, is_level_column
from trailgate.cobol.records.record_options import (
    ERRORS_COLUMN,
    ColumnShape,
    RecordOptions,
    ShortRecordPolicy,
    TrailingBytesPolicy,
)
from trailgate.cobol.values.code_pages import has_own_code_pages
from trailgate.cobol.values.codec import ValueOptions
from trailgate.errors import OptionError, Where, did_you_mean
from trailgate.mainframe.files.record_files import (
    RECORD_SPLIT_BYTES,
    WHOLE_FILE,
    RecordSplit,
    SplitSearch,
    find_record_files,
    plan_record_splits,
)
from trailgate.mainframe.framing_options import check_formats, framing_of, skip_named_ends
from trailgate.mainframe.jobs.ascii_note import warn_of_ascii
from trailgate.mainframe.jobs.option_texts import load_kinds
from trailgate.mainframe.jobs.options import COLUMN_OPTIONS, OPTIONS, with_base
from trailgate.storage.files.addresses import Addresses, check_folder, folder_of
from trailgate.storage.files.copy_members import MemberFinder
from trailgate.storage.files.text_files import read_source

# The options that add a column, and its name.
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


# Line delimiters that imply ASCII text, unless a code page is given.
_ASCII_ENDS: Final = (None, b"\n", b"\r\n")


Decoder = RecordDecoder | KindsDecoder | SingleKindDecoder


@dataclass(frozen=True, slots=True)
class CopybookOptions:
    """The options for reading copybook records, and their layouts.

    They are pickled together, so Spark's workers do not read the copybook. ``record`` is the record
    or segment to read. If the files have several ``kinds`` of records, ``segment`` is the only kind
    to read (None: all). ``records`` are the options for decoding.
    """

    layouts: tuple[CopybookLayout, ...]
    record: str | None
    kinds: RecordKinds | None
    records: RecordOptions
    framing: Framing
    split_bytes: int = RECORD_SPLIT_BYTES
    segment: str | None = None
    search: SplitSearch = SplitSearch.WORDS
    partitions: tuple[str, ...] = ()
    children: ChildRecords = ChildRecords.IDS
    orphans: OrphanPolicy = OrphanPolicy.ERROR

    def check_names(self) -> None:
        """Raise OptionError if a partition's name is also a column, or is not valid Unicode."""
        for name in self.partitions:
            if any("\ud800" <= character <= "\udfff" for character in name):
                raise OptionError(f"partitions: the name {name!r} is not Unicode")
        names = self.decoder().schema.names if self.partitions else []
        for name in self.partitions:
            if names.count(name) > 1:
                raise OptionError(f"partitions: another column is called {name} too")

    @classmethod
    def of(
        cls,
        named: Mapping[str, Any],
        *,
        shape: ColumnShape = ColumnShape.TREE,
        base: str | None = None,
    ) -> Self:
        """Parse the options for reading copybook records.

        Relative paths are relative to ``base``, or to the working directory.

        Raises OptionError, DefinitionError or StorageError.
        """
        return cls.of_values(with_base(OPTIONS, OPTIONS.read(named), base), shape=shape)

    @classmethod
    def of_column(cls, named: Mapping[str, Any]) -> Self:
        """Parse the options for decoding a binary column of copybook records.

        Raises the same errors as ``of``.

        Options that apply only to files are rejected.
        """
        values = {"surplus": TrailingBytesPolicy.ERROR, **named}
        return cls.of_values({**OPTIONS.read({}), **COLUMN_OPTIONS.read(values)})

    @classmethod
    def of_values(
        cls,
        given: Mapping[str, Any],
        *,
        shape: ColumnShape = ColumnShape.TREE,
        layouts: tuple[CopybookLayout, ...] | None = None,
    ) -> Self:
        """Build the options for reading copybook records from parsed values.

        ``layouts`` are the layouts of the copybooks if they have already been parsed. Raises the
        same errors as ``of``.
        """
        given = {**given, "kinds": load_kinds(given["kinds"])}
        dialect = dialect_of_options(given)
        names = ItemNames(given["names"], given["filler"], given["rename"], given["element_names"])
        if layouts is None:
            layouts = tuple(parse_layouts(given, dialect))
        layouts = _with_pages(layouts, given["code_pages"])
        renamed = names.renamed_columns(layouts)
        if (given["shape"] or shape) is ColumnShape.TREE:
            _check_elements(given, renamed)
        layouts, given = names.layouts(layouts), _rename_items(given, names)
        values = _value_options(given, dialect)
        # The length of fixed records includes trailing bytes, so these are dropped by default. Lines are
        # usually written without trailing blanks, so short ones are padded by default.
        fixed, line = (given["record_format"] is kind for kind in (FrameKind.FIXED, FrameKind.LINE))
        # Defaults depend on the record format, so they are chosen here and not in the option table.
        records = RecordOptions(
            values,
            shape=given["shape"] or shape,
            depending=given["depending"],
            columns=given["columns"],
            errors=given["errors"],
            raw=given["raw"],
            surplus=given["surplus"]
            or (TrailingBytesPolicy.DROP if fixed else TrailingBytesPolicy.ERROR),
            short=given["short"] or (ShortRecordPolicy.PAD if line else ShortRecordPolicy.ERROR),
            indicators=_known_indicators(given["indicators"], layouts),
            added=(
                *(column for name, column in _ADDED.items() if given[name]),
                *given["partitions"],
            ),
            renamed=renamed,
            counts=_known_counts(given["count_map"], names, layouts),
        )
        # After the records' options, whose items may also be in the header or trailer; before the
        # framing, which skips these.
        given, layouts = skip_named_ends(given, layouts)
        kinds, record = given["kinds"], given["record"]
        split_bytes = given["split_bytes"]
        _check_kinds(given, layouts)
        _check_nesting(given)
        if given["parents"]:
            # A record's parent precedes it in the file, so one task must read the complete file.
            kinds, split_bytes = replace(kinds, parents=dict(given["parents"])), WHOLE_FILE
        check_formats(given, OPTIONS)
        # The header and trailer records are already removed from ``layouts``.
        framing = framing_of(given, layouts, values)
        chosen = cls(layouts, record, kinds, records, framing, split_bytes, given["segment"])
        chosen = replace(chosen, search=given["split_search"], partitions=given["partitions"])
        chosen = replace(chosen, children=given["children"], orphans=given["orphans"])
        chosen.check_names()
        return chosen

    def only(self, names: Sequence[str]) -> Self:
        """Return the options for reading only some columns of the schema; others are not decoded.

        With several kinds of records, all columns are decoded unless one kind without children is
        read, and also if a column would get a different name without the others.
        """
        added = {ERRORS_COLUMN, FILE_COLUMN, ID_COLUMN, *self.records.all_added}
        columns = tuple(name for name in names if name not in added and not is_level_column(name))
        # A row with several kinds, or with nested children, has the columns of all kinds, also if
        # only those of one kind are wanted.
        trees = self.segment is None or self.children is ChildRecords.NESTED
        if (self.kinds is not None and trees) or not columns:
            return self
        kept = tuple(name for name in self.records.added if name in names)
        chosen = replace(self, records=replace(self.records, columns=columns, added=kept))
        # A name such as NAME_2 depends on the other columns, so it may not exist in the reduced schema.
        return chosen if set(columns) <= set(chosen.decoder().schema.names) else self

    def splits(self, path: Addresses, split_bytes: int | None = None) -> list[RecordSplit]:
        """Plan splits of record files that together contain every record once.

        Raises StorageError or DecodeError.

        Logs a warning if the first file looks like ASCII, but is not read as ASCII.
        """
        files = find_record_files(path, self.partitions)
        numbered = NUMBER_COLUMN in self.records.added
        size = split_bytes or self.split_bytes
        splits = plan_record_splits(files, self.framing, size, self.search, numbered=numbered)
        self.warn_of_ascii(splits)
        return splits

    def warn_of_ascii(self, splits: Sequence[RecordSplit]) -> None:
        """Log a warning if the first split looks like ASCII, but is not read as ASCII."""
        if splits and self.kinds is None:  # records of ASCII match no kind, which is an error
            layout = find_layout_or_segment(self.layouts, self.record)
            warn_of_ascii(splits[0], self.framing, layout, self.records.values)

    def decoder(self, tally: PolicyCounts | None = None) -> Decoder:
        """Return the decoder of the copybook's records.

        It counts the values that policies changed or accepted in ``tally``.
        """
        if self.kinds is None:
            return RecordDecoder(
                find_layout_or_segment(self.layouts, self.record), self.records, tally
            )
        arguments = self.layouts, self.kinds, self.records, tally
        kinds = KindsDecoder(*arguments)
        if self.children is ChildRecords.NESTED:
            kinds = NestedDecoder(*arguments, orphans=self.orphans)
        return kinds if self.segment is None else SingleKindDecoder(kinds, self.segment)


def _check_elements(given: Mapping[str, Any], renamed: Iterable[str]) -> None:
    """Raise OptionError if columns of elements are named in a nested schema, in which all elements of an OCCURS are one list column."""
    for element in renamed:
        raise OptionError(f"rename: {element} is a column only with shape=flat")
    if given["element_names"]:
        raise OptionError("elementNames: elements are columns only with shape=flat")


def _check_kinds(given: Mapping[str, Any], layouts: Sequence[CopybookLayout]) -> None:
    """Raise OptionError if ``kinds`` contradicts other options or names a record that is not in the copybooks."""
    kinds = given["kinds"]
    if kinds is not None:
        if given["record"] is not None:
            raise OptionError("record and kinds cannot be combined", hint="Omit one of them")
        find_kind_layouts(layouts, kinds)  # only for its error, which names the rule
        return
    for name in ("segment", "parents"):
        if given[name] is not None:
            raise OptionError(f"{name} is an option of files of several kinds", hint="Add kinds")


def _check_nesting(given: Mapping[str, Any]) -> None:
    """Raise OptionError if options about child records contradict each other."""
    nested = given["children"] is ChildRecords.NESTED
    if nested and not given["parents"]:
        raise OptionError("children=nested needs parents", hint="Add parents: CHILD=PARENT")
    if given["orphans"] is not OrphanPolicy.ERROR and not nested:
        problem = "orphans is an option of children=nested: with children=ids they are rows"
        raise OptionError(problem, hint="Omit it")


def dialect_of_options(options: Mapping[str, Any]) -> CobolDialect:
    """Return the COBOL dialect of the copybooks: stated options, else the compiler's defaults.

    For lines that end with a line feed, the default code page is ASCII.
    """
    stated = {name: options[name] for name in _DIALECT if options[name] is not None}
    if options["record_format"] is FrameKind.LINE and options["delimiter"] in _ASCII_ENDS:
        # Lines that end with a line feed are ASCII: EBCDIC lines end with X'15' or X'25'.
        stated = {"code_page": "ascii", **stated}
    return CobolDialect(**{**(options["compiler"] or {}), **stated})


def _value_options(options: Mapping[str, Any], dialect: CobolDialect) -> ValueOptions:
    """Return the options for decoding the values of copybook items."""
    return ValueOptions(
        dialect,
        trim=options["trim"],
        blank=options["blank"],
        low_values=options["low_values"],
        padding=options["padding"],
        integers=options["integers"],
        numbers=options["numbers"],
        national=options["national"],
    )


def _rename_items(options: Mapping[str, Any], names: ItemNames) -> dict[str, Any]:
    """Replace item names in the options by the new names. Options may use either name."""
    values = dict(options)
    for name in ("record", "segment"):
        values[name] = None if options[name] is None else names.name(options[name])
    if options["columns"] is not None:
        values["columns"] = tuple(map(names.name, options["columns"]))
    if options["kinds"] is not None:
        values["kinds"] = options["kinds"].with_names(names.name)
    if options["parents"]:
        above = options["parents"].items()
        values["parents"] = {names.name(child): names.name(parent) for child, parent in above}
    return values


def parse_layouts(options: Mapping[str, Any], dialect: CobolDialect) -> list[CopybookLayout]:
    """Parse the copybooks that the options name, and return the layouts of all records.

    Raises OptionError if two copybooks have a record with the same name.
    """
    paths, text = options["copybook"], options["copybook_text"]
    if (not paths) == (text is None):
        raise OptionError("one of the options copybook and copybookText is required")
    sources = [(path, str(read_source(path))) for path in paths or ()] or [("copybook", text)]
    for folder in options["copy_path"]:
        check_folder(folder, "copyPath")
    folders = [*options["copy_path"], *map(folder_of, paths or ())]
    members = MemberFinder.of(folders, "Add the member's folder: copyPath=FOLDER")
    layouts: list[CopybookLayout] = []
    mentioned: set[str] = set()
    for source, content in sources:
        parsed = read_copybook(
            content,
            source=source,
            dialect=dialect,
            member=members,
            missing=members.missing,
            mentioned=mentioned,
        )
        for layout in parsed:
            if any(layout.name.upper() == other.name.upper() for other in layouts):
                problem = f"another copybook has a record {layout.name} too"
                raise OptionError(problem, where=Where(source=source))
        layouts += parsed
    warn_of_unused_constants(dialect.constants, mentioned, ", ".join(name for name, _ in sources))
    return layouts


def _with_pages(
    layouts: tuple[CopybookLayout, ...], pages: Mapping[str, str]
) -> tuple[CopybookLayout, ...]:
    """Return the layouts with the code pages of individual items (option ``codePages``)."""
    known = {field.name.upper() for layout in layouts for field in layout.root.walk()}
    for name in pages:
        if name not in known:
            problem = f"codePages: no item {name} in the copybook"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return tuple(CopybookLayout(_with_code_page(layout.root, pages, None)) for layout in layouts)


def _known_indicators(
    indicators: Mapping[str, str] | None, layouts: Sequence[CopybookLayout]
) -> dict[str, str]:
    """Return the option ``indicators``: items and the items that state whether these are NULL.

    Raises OptionError if an item is not in any layout.
    """
    known = {field.name.upper() for layout in layouts for field in layout.root.walk()}
    for name in (one for pair in (indicators or {}).items() for one in pair):
        if name != BITS and name.upper() not in known:
            problem = f"indicators: no item {name} in the copybook"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return dict(indicators or {})


def _known_counts(
    counts: Mapping[str, Mapping[str, int]], names: ItemNames, layouts: Sequence[CopybookLayout]
) -> dict[str, Mapping[str, int]]:
    """Return the option ``countMap`` by the counters' names in capitals.

    Raises OptionError if an item is not a counter.
    """
    known = {key[0] for layout in layouts for key in counter_keys(layout)}
    counts_by_name = {names.name(item).upper(): own for item, own in counts.items()}
    for name in counts_by_name:
        if name not in known:
            problem = f"countMap: no OCCURS depends on an item {name}"
            raise OptionError(problem, hint=did_you_mean(name, known))
    return counts_by_name


def _with_code_page(
    field: CopybookField, pages: Mapping[str, str], around: str | None
) -> CopybookField:
    """Return a copybook field with its code page, which also applies to the items inside it."""
    page = pages.get(field.name.upper())
    # An item without an entry takes the page of the group around it. Unicode text has its own pages.
    if page is None and around is not None and not has_own_code_pages(field, around):
        page = around
    children = tuple(_with_code_page(child, pages, page) for child in field.children)
    return replace(field, children=children, code_page=page)
