"""Files of records written anew with other values in some fields: ``FIELD=expression``, all other bytes as they are.

The bytes of a file are copied, those between records too; only the fields that are set are decoded, with those that expressions name. Each field that is set
is written over its own bytes, so that records keep their lengths and are found again.
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
from trailgate.cobol.copybook.items import Item, columns_below, counter_keys, key_among, place_items
from trailgate.cobol.copybook.layouts import Layout
from trailgate.cobol.records.added_columns import RAW_COLUMN
from trailgate.cobol.records.decoding import RecordDecoder, Shape, Surplus
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.fields import RecordBytes, records_at, records_of_length
from trailgate.cobol.records.framing import FrameKind, find_frames
from trailgate.cobol.records.record_kinds import KindsDecoder
from trailgate.cobol.records.segments import layout_named
from trailgate.columnar.digits import UPPER, to_hex
from trailgate.columnar.numbers import exact_decimals
from trailgate.errors import (
    DecodeError,
    EncodeError,
    OptionError,
    TrailgateError,
    Where,
    did_you_mean,
)
from trailgate.expressions.evaluation import no_rows, strings
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
from trailgate.mainframe.jobs.writing import WritingOptions, new_file
from trailgate.model.changes import INSERT, WHOLE, ChangeBlock, StateColumn
from trailgate.model.tables import Column, Table
from trailgate.storage.files.addresses import name_of
from trailgate.storage.files.found_files import Addresses, addresses_of
from trailgate.storage.files.opened_file import OpenedFile

OF_OPERATIONS: Final = ("GETENV", "TOKEN", "COLSTAT")
TEXT, NUMBER, HEX = (64, 0), (64, 3), (64, 4)  # types and sub types of columns
_FORM: Final = re.compile(r'\s*(?:"([^"]+)"|([^="]+?))\s*=(.*)', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A field by the name of its column, or of an item of OCCURS for all its elements, and its new value."""

    field: str
    value: Expression

    @classmethod
    def parse(cls, text: str) -> Assignment:
        """Return what ``FIELD=expression`` states; raises OptionError, with a caret where the expression is wrong."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise OptionError(f"FIELD=expression was expected, not {text!r}")
        value = parse_value(found[3].strip())
        for call in value.calls():
            if call.function in OF_OPERATIONS:
                raise OptionError(f"@{call.function} is of operations, and records have none")
        for column in value.columns():
            if column.image is not None:
                raise OptionError(f"{column.image} is of operations, and records have none")
        return cls(found[1] or found[2], value)


class RecordEditor:
    """Sets fields of records of one layout."""

    def __init__(
        self, layout: Layout, assignments: Sequence[Assignment], options: WritingOptions
    ) -> None:
        values = replace(options.records.records, shape=Shape.FLAT, raw=True, surplus=Surplus.DROP)
        items = list(columns_below(place_items(layout, values.names(layout)).root))
        self.targets = [
            (item, one) for one in assignments for item in items if _is_named(item, one.field)
        ]
        self._check(layout)
        known = {item.name.upper(): item.name for item in items}
        asked = [item.name for item, _ in self.targets]
        for _, one in self.targets:
            named = (column.name.upper() for column in one.value.columns())
            asked += [known[name] for name in named if name in known]
        self._layout = layout
        self._decoder = RecordDecoder(layout, replace(values, columns=tuple(dict.fromkeys(asked))))
        self._encoder = RecordEncoder(layout, values, options.nulls)
        if self.targets:  # what does not fit the layout is an error before any record is read
            empty = self._decoder.decode(records_of_length(b"", max(layout.size, 1)))
            for item, one in self.targets:
                strings(one.value, no_rows(_table(layout.name, _columns(empty, item, one))))

    def _check(self, layout: Layout) -> None:
        for item, one in self.targets:
            if key_among(counter_keys(layout), item.field, item.groups):
                problem = f"{one.field} states how often others occur"
                raise OptionError(problem, hint="Records are to keep their lengths")
            if sum(other is item for other, _ in self.targets) > 1:
                raise OptionError(f"{item.name} is set twice")

    def edit(self, records: RecordBytes) -> RecordBytes:
        """Return the records with other values, in their lengths; raises DecodeError, EncodeError."""
        found = self._decoder.decode(records)
        columns = {RAW_COLUMN: found.column(RAW_COLUMN)}
        for item, one in self.targets:
            columns[item.name] = self._set(found, item, one)
        made = self._encoder.encode(columns)
        longer = made.ends - made.starts != records.ends - records.starts
        if longer.any():
            where = Where(record=int(np.argmax(longer)) + 1)
            raise EncodeError("the record ends before the end of a field that is set", where=where)
        return made

    def _set(self, found: pa.RecordBatch, item: Item, one: Assignment) -> pa.Array:
        """Return the new values of an item, NULL in records that do not have it."""
        columns = _columns(found, item, one)
        block = _block(_table(self._layout.name, columns), columns, found.num_rows)
        text = strings(one.value, block)
        old = found.column(item.name)
        try:
            return _typed(text, old.type)
        except DecodeError as error:
            row = error.where.record or 0
            problem = f"a value that is not a number of the field: {text[row].as_py()!r}"
            where = Where(record=row + 1, field=item.name)
            raise EncodeError(problem, where=where) from None


def _is_named(item: Item, name: str) -> bool:
    """Return whether a name is that of an item's column, or of the OCCURS that it is an element of."""
    return name.upper() in (item.name.upper(), item.name.upper().removesuffix(_suffix(item)))


def _suffix(item: Item) -> str:
    return "".join(f"_{index}" for index in item.indexes)


def _columns(found: pa.RecordBatch, item: Item, one: Assignment) -> dict[str, pa.Array]:
    """Return columns by the names that an expression has for them: that of the field alone is the element that is set."""
    named = dict(zip(found.schema.names, found.columns, strict=True))
    return {one.field: named[item.name], **named} if one.field not in named else named


def _table(name: str, columns: Mapping[str, pa.Array]) -> Table:
    return Table(name, tuple(_column(name, values.type) for name, values in columns.items()))


def _column(name: str, kind: pa.DataType) -> Column:
    if pa.types.is_int64(kind):
        return Column(name, 134, 8)
    if pa.types.is_floating(kind):
        return Column(name, 142 if kind.bit_width == 32 else 143, kind.bit_width // 8)
    code, sub_type = (
        NUMBER if pa.types.is_decimal(kind) else HEX if pa.types.is_binary(kind) else TEXT
    )
    return Column(name, code, 0, sub_type=sub_type)


def _block(table: Table, columns: Mapping[str, pa.Array], rows: int) -> ChangeBlock:
    """Return records as rows that an expression is evaluated for."""
    numbers = np.arange(rows, dtype=np.int64)
    none = pa.nulls(rows, pa.string())
    letters = np.full(rows, INSERT, np.uint8)
    after = tuple(StateColumn(_held(values)) for values in columns.values())
    absent = tuple(StateColumn(None) for _ in columns)
    whole = np.full(rows, WHOLE, np.uint8)
    return ChangeBlock(
        table, numbers, letters, numbers, whole, none, none, none, none, absent, after
    )


def _held(values: pa.Array) -> pa.Array:
    if pa.types.is_decimal(values.type):
        return pc.cast(values, pa.string())
    return to_hex(values, UPPER) if pa.types.is_binary(values.type) else values


def _typed(text: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return text as values that a field of a type takes; raises DecodeError with the row of one that is not a number."""
    if pa.types.is_int64(kind) or pa.types.is_decimal(kind):
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        return exact_decimals(text, pa.decimal128(38, max(scale, 0)))
    if pa.types.is_floating(kind):
        exact_decimals(text, pa.decimal256(76, 38))
        return pc.cast(text, kind)
    return text


class FileEditor:
    """Sets fields of the records of files, of each kind those that it has."""

    def __init__(self, assignments: Sequence[str], options: WritingOptions) -> None:
        chosen = options.records
        self._framing, self._kinds = chosen.framing, None
        if chosen.framing.kind is FrameKind.MICRO_FOCUS:
            hint = "Read it, change the table, and write a new file"
            raise OptionError("fields of files of Micro Focus are not set", hint=hint)
        parsed = [Assignment.parse(text) for text in assignments]
        names: Sequence[str | None] = [chosen.record]
        if chosen.kinds is not None:
            names = chosen.kinds.records
            self._kinds = KindsDecoder(chosen.layouts, chosen.kinds, chosen.records)
        layouts = [layout_named(chosen.layouts, name) for name in names]
        self._editors = [RecordEditor(layout, parsed, options) for layout in layouts]
        for one in parsed:
            targets = [item for e in self._editors for item, other in e.targets if other is one]
            if not targets:
                known = {name for layout in layouts for name in chosen.records.names(layout)}
                hint = did_you_mean(one.field, known)
                raise OptionError(f"no field {one.field} in the copybook's records", hint=hint)
            fields = {item.field.name.upper() for item in targets}
            if chosen.kinds is not None and fields & _key_items(layouts, chosen.kinds.fields):
                raise OptionError(f"{one.field} chooses the kinds of records, and is not set")

    def edit_file(self, file: RecordFile, splits: Sequence[RecordSplit], to: IO[bytes]) -> int:
        """Write a file with other values, and return how many records it has; an error names the file and the record."""
        count = at = 0
        with OpenedFile(file.path, file.size, "file of records") as source:
            for split in splits:
                for chunk in read_record_split(split, self._framing):
                    if not len(chunk.starts):
                        continue
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
        """Return the bytes that records are in, with other values in them."""
        data = records.data.copy()
        kind = np.zeros(len(records), np.int64)
        if self._kinds is not None:
            kind = self._kinds.kinds_of(records)
        for number, editor in enumerate(self._editors):
            rows = np.flatnonzero(kind == number)
            if not len(rows) or not editor.targets:
                continue
            starts, ends = records.starts[rows], records.ends[rows]
            own = records_at(records.data, starts, ends, base=records.base)
            try:
                made = editor.edit(own)
            except (DecodeError, EncodeError) as error:
                record = error.where.record
                if record is not None:
                    error.where = replace(error.where, record=records.number(int(rows[record - 1])))
                raise
            lengths = ends - starts
            places = np.repeat(starts - made.starts, lengths) + np.arange(len(made.data))
            data[places] = made.data
        self._check_found(data, records)
        return data

    def _check_found(self, data: Octets, records: RecordBytes) -> None:
        """Raise EncodeError where records would be found elsewhere: a delimiter in one, another length field."""
        framing = self._framing
        if framing.kind is FrameKind.FIXED:
            return
        try:
            if framing.kind is FrameKind.LINE:
                found = find_frames(data[: int(records.ends[-1])], framing, finish=True)
            else:
                found = find_frames(data, framing)
        except DecodeError as error:
            raise EncodeError(f"records that do not fit their framing: {error.problem}") from None
        again = np.isin(records.starts, found.starts) & np.isin(records.ends, found.ends)
        between = (found.starts >= records.starts[0]) & (found.starts <= records.starts[-1])
        if not again.all() or between.sum() != len(records):
            row = int(np.argmin(again)) if not again.all() else 0
            where = Where(record=records.number(row))
            raise EncodeError("a record that would not be read as it is written", where=where)


def _copy(source: OpenedFile, begin: int, end: int, to: IO[bytes]) -> None:
    for at in range(begin, end, CHUNK):
        to.write(source.read(at, min(CHUNK, end - at)))


def edit_records(
    path: Addresses, to: str, assignments: Sequence[str], options: WritingOptions
) -> tuple[int, int]:
    """Write files of records with other values in some fields; return how many records and files.

    A single file becomes the file ``to``; several, or a folder's, get their names in the new folder ``to``, which has them at once. Raises OptionError,
    DecodeError, EncodeError and StorageError; nothing is written then.
    """
    editor = FileEditor(assignments, options)
    files = find_record_files(path)
    for file in files:
        if file.codec is not None:
            problem = "records of a compressed file are not set"
            raise OptionError(problem, where=Where(source=file.path), hint="Unpack it first")
    splits = plan_record_splits(files, options.records.framing, WHOLE_FILE)
    own = {file: [split for split in splits if split.file == file] for file in files}
    if [file.path for file in files] == [*addresses_of(path)] and len(files) == 1:
        with new_file(to) as target:
            return editor.edit_file(files[0], own[files[0]], target), 1
    names = tuple(name_of(file.path) for file in files)
    for name in names:
        if names.count(name) > 1:
            problem = f"two files have the name {name}"
            raise OptionError(
                problem, hint="Set the fields of each folder's files in a run of their own"
            )
    folder = replace(part_folder(to, "a file of records", ending=""), names=names)
    folder.check_new()
    records = 0
    with publishing(folder) as parts:
        for number, (file, mine) in enumerate(own.items()):
            with folder.part(number) as (target, made):
                count = editor.edit_file(file, mine, target)
            parts.append(WrittenPart(count, tuple(made)))
            records += count
    return records, len(files)


def _key_items(layouts: Sequence[Layout], names: Sequence[str]) -> set[str]:
    """Return the names, in capitals, of the items that choose the kinds of records, or are in a group that does."""
    wanted = {name.upper() for name in names}
    groups = (field for layout in layouts for field in layout.root.walk())
    return {
        item.name.upper()
        for group in groups
        if group.name.upper() in wanted
        for item in group.walk()
    }
