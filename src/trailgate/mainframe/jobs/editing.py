"""Rewrite files of records with new values in some fields (``FIELD=expression``).

A file is copied byte for byte, including bytes between records. In each record only the fields to
set and the fields used by expressions are decoded; the new values are written over the old bytes.
Records therefore keep their lengths and boundaries, which is checked before anything is published.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trailgate.arrays import CHUNK, Octets
from trailgate.cobol.copybook.layouts import CopybookLayout, counter_keys, find_counter_key
from trailgate.cobol.copybook.placed_items import PlacedItem, columns_below, place_items
from trailgate.cobol.copybook.segment_layouts import find_layout_or_segment
from trailgate.cobol.records.added_columns import RAW_COLUMN
from trailgate.cobol.records.decoding import RecordDecoder
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.framing import FrameKind, find_frames
from trailgate.cobol.records.kinds_decoding import KindsDecoder
from trailgate.cobol.records.record_bytes import RecordBytes, records_at, records_of_length
from trailgate.cobol.records.record_options import ColumnShape, TrailingBytesPolicy
from trailgate.columnar.hex_digits import UPPER, to_hex
from trailgate.columnar.numbers import parse_decimals
from trailgate.errors import (
    DecodeError,
    EncodeError,
    OptionError,
    TrailgateError,
    Where,
    did_you_mean,
)
from trailgate.expressions.evaluation import evaluate_as_text, make_empty_block
from trailgate.expressions.parser import parse_value
from trailgate.expressions.syntax import Expression
from trailgate.mainframe.files.record_files import (
    WHOLE_FILE,
    RecordFile,
    RecordSplit,
    find_record_files,
    plan_record_splits,
    read_record_split,
)
from trailgate.mainframe.jobs.part_folder import WrittenPart, part_folder, publishing
from trailgate.mainframe.jobs.writing import WritingOptions, create_record_file
from trailgate.model.changes import INSERT, WHOLE, ChangeBlock, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.storage.files.addresses import Addresses, addresses_of, name_of
from trailgate.storage.files.opened_file import OpenedFile

OF_OPERATIONS: Final = ("GETENV", "TOKEN", "COLSTAT")
TEXT, NUMBER, HEX = (64, 0), (64, 3), (64, 4)  # type and subtype codes of columns
# AMOUNT = AMOUNT * 2, or "ITEM (3)" = 5
_FORM: Final = re.compile(r'\s*(?:"([^"]+)"|([^="]+?))\s*=(.*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment of ``records --set``: a field, and the expression for its new value.

    The field is named by its column. The name of an item with OCCURS sets all its elements.
    """

    field: str
    value: Expression

    @classmethod
    def parse(cls, text: str) -> Assignment:
        """Parse an assignment ``FIELD=expression``.

        Raises OptionError; a caret points at an error in the expression.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise OptionError(f"FIELD=expression was expected, not {text!r}")
        value = parse_value(match[3].strip())
        for call in value.calls():
            if call.function in OF_OPERATIONS:
                raise OptionError(f"@{call.function} needs operations, but records have none")
        for column in value.columns():
            if column.image is not None:
                raise OptionError(f"{column.image} needs operations, but records have none")
        return cls(match[1] or match[2], value)


class RecordEditor:
    """Sets fields to new values in records of one layout."""

    def __init__(
        self, layout: CopybookLayout, assignments: Sequence[Assignment], options: WritingOptions
    ) -> None:
        values = replace(
            options.records.records,
            shape=ColumnShape.FLAT,
            raw=True,
            surplus=TrailingBytesPolicy.DROP,
        )
        items = list(columns_below(place_items(layout, values.names(layout)).root))
        self.targets = [
            (item, assignment)
            for assignment in assignments
            for item in items
            if _is_named(item, assignment.field)
        ]
        self._check(layout)
        known = {item.name.upper(): item.name for item in items}
        asked = [item.name for item, _ in self.targets]
        for _, assignment in self.targets:
            named = (column.name.upper() for column in assignment.value.columns())
            asked += [known[name] for name in named if name in known]
        self._layout = layout
        self._decoder = RecordDecoder(layout, replace(values, columns=tuple(dict.fromkeys(asked))))
        self._encoder = RecordEncoder(layout, values, options.nulls)
        if self.targets:  # check the expressions before any record is read
            empty = self._decoder.decode(records_of_length(b"", max(layout.size, 1)))
            for item, assignment in self.targets:
                evaluate_as_text(
                    assignment.value,
                    make_empty_block(_table(layout.name, _columns(empty, item, assignment))),
                )

    def _check(self, layout: CopybookLayout) -> None:
        for item, assignment in self.targets:
            if find_counter_key(counter_keys(layout), item.field, item.groups):
                problem = f"{assignment.field} is the counter of an OCCURS and cannot be set"
                raise OptionError(problem, hint="Records must keep their lengths")
            if sum(other is item for other, _ in self.targets) > 1:
                raise OptionError(f"{item.name} is set twice")

    def edit(self, records: RecordBytes) -> RecordBytes:
        """Return the records with the fields set to new values; their lengths stay the same.

        Raises DecodeError or EncodeError.
        """
        decoded = self._decoder.decode(records)
        columns = {RAW_COLUMN: decoded.column(RAW_COLUMN)}
        for item, assignment in self.targets:
            columns[item.name] = self._set(decoded, item, assignment)
        edited = self._encoder.encode(columns)
        # A longer record means that a field was written after the record's end.
        longer = edited.ends - edited.starts != records.ends - records.starts
        if longer.any():
            where = Where(record=int(np.argmax(longer)) + 1)
            raise EncodeError("the record ends before the end of a field to be set", where=where)
        return edited

    def _set(self, decoded: pa.RecordBatch, item: PlacedItem, assignment: Assignment) -> pa.Array:
        """Evaluate an assignment for each record, and return the item's new values.

        Values for records without the item, whose OCCURS has fewer elements, are ignored later.
        """
        columns = _columns(decoded, item, assignment)
        block = _block(_table(self._layout.name, columns), columns, decoded.num_rows)
        text = evaluate_as_text(assignment.value, block)
        old = decoded.column(item.name)
        try:
            return _convert_text(text, old.type)
        except DecodeError as error:
            row = error.where.record or 0
            problem = f"not a number that fits the field: {text[row].as_py()!r}"
            where = Where(record=row + 1, field=item.name)
            raise EncodeError(problem, where=where) from None


def _is_named(item: PlacedItem, name: str) -> bool:
    """Return True if a name is the name of the item's column, or of the OCCURS of which it is an element."""
    return name.upper() in (item.name.upper(), item.name.upper().removesuffix(_suffix(item)))


def _suffix(item: PlacedItem) -> str:
    return "".join(f"_{index}" for index in item.indexes)


def _columns(
    decoded: pa.RecordBatch, item: PlacedItem, assignment: Assignment
) -> dict[str, pa.Array]:
    """Return decoded columns by the names that an expression of ``records --set`` uses.

    The plain name of an item with OCCURS refers to the element that is being set.
    """
    named = dict(zip(decoded.schema.names, decoded.columns, strict=True))
    return {assignment.field: named[item.name], **named} if assignment.field not in named else named


def _table(name: str, columns: Mapping[str, pa.Array]) -> Table:
    return Table(name, tuple(_column(name, values.type) for name, values in columns.items()))


def _column(name: str, data_type: pa.DataType) -> Column:
    if pa.types.is_int64(data_type):
        return Column(name, 134, 8)
    if pa.types.is_floating(data_type):
        return Column(name, 142 if data_type.bit_width == 32 else 143, data_type.bit_width // 8)
    # Type codes of definitions: 134 is a 64-bit integer, 142 and 143 are floats, 64 is text.
    code, sub_type = (
        NUMBER if pa.types.is_decimal(data_type) else HEX if pa.types.is_binary(data_type) else TEXT
    )
    return Column(name, code, 0, sub_type=sub_type)


def _block(table: Table, columns: Mapping[str, pa.Array], rows: int) -> ChangeBlock:
    """Return records in the form of inserted rows, on which an expression can be evaluated."""
    numbers = np.arange(rows, dtype=np.int64)
    none = pa.nulls(rows, pa.string())
    letters = np.full(rows, INSERT, np.uint8)
    after = tuple(StateColumn(_expression_values(values)) for values in columns.values())
    absent = tuple(StateColumn(None) for _ in columns)
    whole = np.full(rows, WHOLE, np.uint8)
    return ChangeBlock(
        table=table,
        order=numbers,
        op_type=letters,
        op_ts=numbers,
        tx_ind=whole,
        tx_id=none,
        csn=none,
        seq_id=none,
        position=none,
        before=absent,
        after=after,
    )


def _expression_values(values: pa.Array) -> pa.Array:
    """Convert values to the form that expressions use: decimals as text, bytes as hex digits."""
    if pa.types.is_decimal(values.type):
        return pc.cast(values, pa.string())
    return to_hex(values, UPPER) if pa.types.is_binary(values.type) else values


def _convert_text(text: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Convert text to the type of a field. Raises DecodeError with the row if it is not a number."""
    if pa.types.is_int64(data_type) or pa.types.is_decimal(data_type):
        scale = data_type.scale if pa.types.is_decimal(data_type) else 0
        return parse_decimals(text, pa.decimal128(38, max(scale, 0)))
    if pa.types.is_floating(data_type):
        parse_decimals(text, pa.decimal256(76, 38))
        return pc.cast(text, data_type)
    return text


class FileEditor:
    """Sets fields of record files to new values, by a ``RecordEditor`` for each kind."""

    def __init__(self, assignments: Sequence[str], options: WritingOptions) -> None:
        chosen = options.records
        self._framing, self._kinds = chosen.framing, None
        if chosen.framing.kind is FrameKind.MICRO_FOCUS:
            hint = "Read it, change the table, and write a new file"
            raise OptionError("cannot set fields in Micro Focus files", hint=hint)
        parsed = [Assignment.parse(text) for text in assignments]
        names: Sequence[str | None] = [chosen.record]
        if chosen.kinds is not None:
            names = chosen.kinds.records
            self._kinds = KindsDecoder(chosen.layouts, chosen.kinds, chosen.records)
        layouts = [find_layout_or_segment(chosen.layouts, name) for name in names]
        self._editors = [RecordEditor(layout, parsed, options) for layout in layouts]
        for one in parsed:
            # Compare with `is`: two assignments may have equal texts, and each must have found its
            # field.
            targets = [item for e in self._editors for item, other in e.targets if other is one]
            if not targets:
                known = {name for layout in layouts for name in chosen.records.names(layout)}
                hint = did_you_mean(one.field, known)
                raise OptionError(f"no field {one.field} in the copybook's records", hint=hint)
            fields = {item.field.name.upper() for item in targets}
            if chosen.kinds is not None and fields & _key_items(layouts, chosen.kinds.fields):
                raise OptionError(f"{one.field} chooses the kinds of records, so it cannot be set")

    def edit_file(self, file: RecordFile, splits: Sequence[RecordSplit], to: IO[bytes]) -> int:
        """Write a copy of a record file with new values. Returns the number of records.

        An error names the file and the record.
        """
        count = at = 0
        with OpenedFile(file.path, file.size, "file of records") as source:
            for split in splits:
                for chunk in read_record_split(split, self._framing):
                    if not len(chunk.starts):
                        continue
                    # Bytes between chunks, such as a file's header, are copied unchanged.
                    _copy(source, at, chunk.base, to)
                    records = records_at(
                        chunk.data, chunk.starts, chunk.ends, first=chunk.first, base=chunk.base
                    )
                    try:
                        to.write(self._edit(records)[: int(chunk.ends[-1])].tobytes())
                    except TrailgateError as error:
                        raise error.with_place(source=file.path) from None
                    at, count = chunk.base + int(chunk.ends[-1]), count + len(records)
            _copy(source, at, file.size, to)
        return count

    def _edit(self, records: RecordBytes) -> Octets:
        """Return a copy of the buffer of records, with the new values of the set fields."""
        data = records.data.copy()
        kind = np.zeros(len(records), np.int64)
        if self._kinds is not None:
            kind = self._kinds.kinds_of(records)
        for number, editor in enumerate(self._editors):
            rows = np.flatnonzero(kind == number)
            if not len(rows) or not editor.targets:
                continue
            starts, ends = records.starts[rows], records.ends[rows]
            editable = records_at(records.data, starts, ends, base=records.base)
            try:
                edited = editor.edit(editable)
            except (DecodeError, EncodeError) as error:
                record = error.where.record
                if record is not None:
                    error.where = replace(error.where, record=records.number(int(rows[record - 1])))
                raise
            lengths = ends - starts
            # The buffer offset of each edited byte. Example: records at 10 and 30 with 2 bytes
            # each, edited bytes 0 to 3: the targets are 10 11 30 31.
            targets = np.repeat(starts - edited.starts, lengths) + np.arange(len(edited.data))
            data[targets] = edited.data
        self._check_readable(data, records)
        return data

    def _check_readable(self, data: Octets, records: RecordBytes) -> None:
        """Raise EncodeError if the new values change record boundaries.

        This happens if a value contains the delimiter, or if a length field was set.
        """
        framing = self._framing
        if framing.kind is FrameKind.FIXED:
            return
        try:
            if framing.kind is FrameKind.LINE:
                frames = find_frames(data[: int(records.ends[-1])], framing, finish=True)
            else:
                frames = find_frames(data, framing)
        except DecodeError as error:
            raise EncodeError(f"the records do not fit the framing: {error.problem}") from None
        found_again = np.isin(records.starts, frames.starts) & np.isin(records.ends, frames.ends)
        # Also count the records between the first and last one: a new delimiter would add one.
        between = (frames.starts >= records.starts[0]) & (frames.starts <= records.starts[-1])
        if not found_again.all() or between.sum() != len(records):
            row = int(np.argmin(found_again)) if not found_again.all() else 0
            where = Where(record=records.number(row))
            raise EncodeError("the record would not be read as it was written", where=where)


def _copy(source: OpenedFile, begin: int, end: int, to: IO[bytes]) -> None:
    for at in range(begin, end, CHUNK):
        to.write(source.read(at, min(CHUNK, end - at)))


def edit_records(
    path: Addresses, to: str, assignments: Sequence[str], options: WritingOptions
) -> tuple[int, int]:
    """Rewrite files of records with new values. Returns the numbers of records and files.

    A single file is written as the file ``to``. Several files, or those of a folder, keep their
    names in the new folder ``to``, which is published at once. If OptionError, DecodeError,
    EncodeError or StorageError is raised, nothing is published.
    """
    editor = FileEditor(assignments, options)
    files = find_record_files(path)
    for file in files:
        if file.codec is not None:
            problem = "cannot set fields in a compressed file"
            raise OptionError(problem, where=Where(source=file.path), hint="Unpack it first")
    splits = plan_record_splits(files, options.records.framing, WHOLE_FILE)
    options.records.warn_of_ascii(splits)
    # A split's file begins after its header, so only the paths are equal.
    splits_of_file = {
        file: [split for split in splits if split.file.path == file.path] for file in files
    }
    if [file.path for file in files] == [*addresses_of(path)] and len(files) == 1:
        with create_record_file(to) as target:
            return editor.edit_file(files[0], splits_of_file[files[0]], target), 1
    names = tuple(name_of(file.path) for file in files)
    for name in names:
        if names.count(name) > 1:
            problem = f"two files are called {name}"
            raise OptionError(problem, hint="Use a separate run for each folder")
    folder = replace(part_folder(to, "a file of records", ending=""), names=names)
    folder.check_new()
    records = 0
    with publishing(folder) as parts:
        for number, (file, file_splits) in enumerate(splits_of_file.items()):
            with folder.part(number) as (target, written):
                count = editor.edit_file(file, file_splits, target)
            parts.append(WrittenPart(count, tuple(written)))
            records += count
    return records, len(files)


def _key_items(layouts: Sequence[CopybookLayout], names: Sequence[str]) -> set[str]:
    """Return the names, in capitals, of the items that determine the kind of a record, directly or as part of a group."""
    wanted = {name.upper() for name in names}
    groups = (field for layout in layouts for field in layout.root.walk())
    return {
        item.name.upper()
        for group in groups
        if group.name.upper() in wanted
        for item in group.walk()
    }
