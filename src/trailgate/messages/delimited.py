r"""Delimited messages to operations, a batch at a time (capture reference section 6).

``METACOLSn[,COLNAMES]m[,COLBEFOREVALS]m,{COLVALUES}m\n``: n header fields, then m columns, each
with a value and, where configured, its name and before value, grouped in blocks or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from trailgate.columnar.delimiters import Dialect, index_fields
from trailgate.columnar.temporal import DateFormat, compile_format
from trailgate.columnar.views import octets
from trailgate.definitions.values import Convert, parser_for
from trailgate.errors import DecodeError, DefinitionError
from trailgate.messages.extract import CaptureRules
from trailgate.messages.field_values import FieldValues, distinct
from trailgate.messages.message import MessageBatch
from trailgate.messages.properties import DelimitedOptions, Source, SourceKind
from trailgate.messages.records import Records
from trailgate.messages.shapes import Place, Shape
from trailgate.messages.sources import Sources
from trailgate.model.changes import ABSENT, TRUNCATE, ChangeBlock, Image, StateColumn
from trailgate.model.positions import format_positions
from trailgate.model.tables import Definitions, Table

Longs = npt.NDArray[np.int64]
Octets = npt.NDArray[np.uint8]
NO_TEXT: Final = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class RawOperations:
    """Operations before their transactions are worked out; members have one slot an operation.

    ``blocks`` hold one operation type each; their ids and indicators are still to be set.
    """

    blocks: tuple[ChangeBlock, ...]
    message: Longs
    tx_ind: Octets | None
    tx_id: pa.Array
    seq_id: pa.Array
    tx_ids_generated: bool

    @staticmethod
    def joined(
        parts: Sequence[tuple[int, RawOperations]], *, indicated: bool = False
    ) -> RawOperations:
        """Return parts as one; each part comes with the number of its first message.

        ``indicated`` says whether operations have indicators, for where there are none.
        """
        if len(parts) == 1 and parts[0][0] == 0:
            return parts[0][1]
        if not parts:
            none = np.zeros(0, np.int64)
            marked = np.zeros(0, np.uint8) if indicated else None
            return RawOperations((), none, marked, NO_TEXT, NO_TEXT, True)
        blocks, before = [], 0
        for _, raw in parts:
            blocks += [replace(b, order=b.order + before) for b in raw.blocks]
            before += len(raw.message)
        marks = [raw.tx_ind for _, raw in parts if raw.tx_ind is not None]
        return RawOperations(
            tuple(blocks),
            np.concatenate([raw.message + first for first, raw in parts]),
            np.concatenate(marks) if marks else None,
            pa.concat_arrays([raw.tx_id for _, raw in parts]),
            pa.concat_arrays([raw.seq_id for _, raw in parts]),
            parts[0][1].tx_ids_generated,
        )


class DelimitedParser:
    """Parses batches by one set of options; what a schema decides is made once and kept."""

    def __init__(
        self,
        options: DelimitedOptions,
        definitions: Definitions,
        rules: CaptureRules,
        run: tuple[int, int] = (0, 0),
    ) -> None:
        self.options, self.definitions, self.rules = options, definitions, rules
        self.now, self.first_file = run
        self.dialect = Dialect(
            options.fielddelim,
            options.linedelim,
            options.quote,
            options.quote_escaped,
            tuple(
                escape
                for escape in (options.fielddelim_escaped, options.linedelim_escaped)
                if escape
            ),
        )
        self._converters: dict[str, tuple[Convert, ...]] = {}

    def parse(self, messages: MessageBatch) -> RawOperations:
        """Return the operations of the messages; raises TrailgateError for any bad one."""
        records = self._records(messages)
        sources = Sources(self.options, records, self.now)
        tables, table_of = self._tables(sources)
        kinds = self._codes(sources, self.options.optype, self.options.optype_values, "optype")
        rows = self._wanted(records, tables, table_of)
        position = format_positions(
            messages.files[records.message] + self.first_file,
            messages.offsets[records.message] + records.offset,
        )
        seq_id = sources.text(self.options.seqid, position, "seqid")
        times = sources.times()
        txind = self.options.txind
        marks = None
        if txind is not None:
            marks = self._codes(sources, txind, self.options.txind_values, "txind")
        owner = sources.optional(self.options.txowner, position)
        name = sources.optional(self.options.txname, position)
        whole = ChangeBlock(
            Table("", ()),
            np.arange(len(table_of)),
            kinds,
            times,
            np.zeros(len(kinds), np.uint8),
            seq_id,
            seq_id,
            seq_id,
            position,
            (),
            (),
            owner,
            name,
        )
        tx_id = sources.text(self.options.txid, position, "txid")
        numbers = np.arange(len(rows))
        if len(rows) < len(table_of):
            numbers = np.cumsum(np.isin(np.arange(len(table_of)), rows)) - 1
            seq_id, tx_id = seq_id.take(pa.array(rows)), tx_id.take(pa.array(rows))
            marks = None if marks is None else marks[rows]
        blocks = tuple(self._blocks(records, whole, (tables, table_of), rows, numbers))
        generated = self.options.txid.kind is SourceKind.TX_ID
        return RawOperations(blocks, records.message[rows], marks, tx_id, seq_id, generated)

    def _records(self, messages: MessageBatch) -> Records:
        messages = _apart(messages, self.dialect)
        data = octets(messages.data)
        full = np.flatnonzero(messages.ends > messages.starts)
        fields = index_fields(data, messages.starts[full], messages.ends[full], self.dialect)
        owner = full[fields.body]
        values = FieldValues(messages.data, data, fields, self.options)
        values.check_text(messages)
        begins = fields.starts[fields.first] if len(fields.first) else fields.first
        records = Records(messages, fields, values, owner, begins - messages.starts[owner])
        short = np.flatnonzero(fields.count < len(self.options.header))
        if len(short):
            row = int(short[0])
            raise records.error(
                row,
                f"{int(fields.count[row])} fields where the header alone has "
                f"{len(self.options.header)}",
                "Is delim.fielddelim right, or is the record cut off?",
            )
        return records

    def _tables(self, sources: Sources) -> tuple[list[Table], Longs]:
        """Return the tables that occur, and which one each record belongs to."""
        names = sources.table_names()
        codes, found = distinct(names)
        tables = []
        for code, name in enumerate(found):
            try:
                tables.append(self.definitions.table(name))
            except DefinitionError as error:
                row = int(np.flatnonzero(codes == code)[0])
                problem = f"table {name} is not in the definitions"
                raise sources.records.error(row, problem, error.hint, table=name) from None
        return tables, codes

    def _codes(
        self, sources: Sources, source: Source, meanings: Mapping[bytes, str], what: str
    ) -> Octets:
        """Return each record's operation type or transaction indicator as its letter's code."""
        codes, found = distinct(sources.text(source, None, what))
        letters = np.zeros(max(1, len(found)), np.uint8)
        for code, value in enumerate(found):
            letter = meanings.get(value.encode())
            if letter is None:
                known = ", ".join(repr(v.decode(errors="replace")) for v in meanings)
                row = int(np.flatnonzero(codes == code)[0])
                problem = f"unknown {what} value {value!r}"
                raise sources.records.error(row, problem, f"Known: {known}")
            letters[code] = ord(letter)
        return letters[codes]

    def _wanted(self, records: Records, tables: list[Table], table_of: Longs) -> Longs:
        """Return the records whose table is captured."""
        wanted = np.array([self.rules.wants(t.name) for t in tables] or [True])
        if wanted.all():
            return np.arange(len(table_of))
        if self.options.txind is not None:
            row = int(np.flatnonzero(~wanted[table_of])[0])
            raise records.error(
                row,
                "a table left out by TABLE stands in a transaction told by delim.txind",
                "Capture all tables of the messages, and select when reading the trail",
                table=tables[table_of[row]].name,
            )
        return np.flatnonzero(wanted[table_of])

    def _blocks(
        self,
        records: Records,
        whole: ChangeBlock,
        tables: tuple[list[Table], Longs],
        rows: Longs,
        numbers: Longs,
    ) -> Iterator[ChangeBlock]:
        """Yield one block for each table, operation type and number of fields."""
        count = records.fields.count
        group = (tables[1].astype(np.int64) * 256 + whole.op_type) * (int(count.max(initial=0)) + 1)
        group = (group + count)[rows]
        if not len(rows):
            return
        same = bool((group == group[0]).all())
        for value in [group[0]] if same else np.unique(group):
            mine = rows if same else rows[group == value]
            table = tables[0][tables[1][mine[0]]]
            block = whole if len(mine) == len(whole) else whole.take(mine)
            before, after = self._images(records, table, int(block.op_type[0]), mine)
            yield replace(block, table=table, order=numbers[mine], before=before, after=after)

    def _images(
        self, records: Records, table: Table, kind: int, rows: Longs
    ) -> tuple[Image, Image]:
        absent = (ABSENT,) * len(table.columns)
        if kind == TRUNCATE:
            return absent, absent
        shape = self._shape(records, table, rows)
        self._check_names(records, table, rows, shape)

        def image(place: Place) -> Image:
            return self._image(records, table, rows, (shape, place))

        if kind == ord("I"):
            return absent, image(shape.after)
        if kind == ord("D"):
            return image(shape.before or shape.after), absent
        return (image(shape.before) if shape.before else absent), image(shape.after)

    def _shape(self, records: Records, table: Table, rows: Longs) -> Shape:
        """Return how the columns lie in these records, all of one number of fields."""
        options, row = self.options, int(rows[0])
        given = int(records.fields.count[row]) - len(options.header)
        parts = 1 + options.hasbefores + options.hasnames
        columns, left = divmod(given, parts)
        if left:
            raise records.error(
                row,
                f"{given} column fields are no whole number of columns of {parts} fields each",
                table=table.name,
            )
        if columns > len(table.columns):
            raise records.error(
                row,
                f"{columns} columns where the table has {len(table.columns)}",
                "Is the definitions file the right one, or a delimiter not escaped?",
                table=table.name,
            )
        for column in table.columns[columns:]:
            if column.key:
                raise records.error(
                    row,
                    f"key column {column.name} is missing",
                    "Only columns without key may be missing at the end of a record",
                    table=table.name,
                    field=column.name,
                )
        return Shape.of(options, columns)

    def _check_names(self, records: Records, table: Table, rows: Longs, shape: Shape) -> None:
        if shape.name is None:
            return
        for i in range(shape.columns):
            column = table.columns[i]
            names = records.values.text(records.fields.first[rows] + shape.name(i))
            codes, found = distinct(names)
            for code, name in enumerate(found):
                if name.casefold() != column.name.casefold():
                    row = int(rows[np.flatnonzero(codes == code)[0]])
                    raise records.error(
                        row,
                        f"column {i + 1} is named {name!r}, not {column.name}",
                        table=table.name,
                        field=column.name,
                    )

    def _image(
        self,
        records: Records,
        table: Table,
        rows: Longs,
        how: tuple[Shape, Place],
    ) -> Image:
        (shape, place), first = how, records.fields.first[rows]
        image: list[StateColumn] = []
        for i, convert in enumerate(self._converters_of(table)[: shape.columns]):
            try:
                image.append(StateColumn(records.values.column(first + place(i), convert)))
            except DecodeError as error:
                row = int(rows[error.where.record or 0])
                field = int(records.fields.first[row] + place(i))
                begin = int(
                    records.fields.starts[field] - records.messages.starts[records.message[row]]
                )
                where = replace(error.where, record=records.number(row), offset=begin)
                raise DecodeError(error.problem, where=where, hint=error.hint).located(
                    table=table.name, field=table.columns[i].name
                ) from None
        return (*image, *(ABSENT,) * (len(table.columns) - shape.columns))

    def _converters_of(self, table: Table) -> tuple[Convert, ...]:
        if table.name not in self._converters:
            self._converters[table.name] = tuple(
                parser_for(column, self._date_format(table.name, column.name))
                for column in table.columns
            )
        return self._converters[table.name]

    def _date_format(self, table: str, column: str) -> DateFormat | None:
        """Return a column's date format: its own, its table's, the global one, or none."""
        options = self.options
        text = (
            options.column_date_formats.get((table.upper(), column.upper()))
            or options.table_date_formats.get(table.upper())
            or options.date_format
        )
        return compile_format(text) if text else None


def _apart(messages: MessageBatch, dialect: Dialect) -> MessageBatch:
    """Return the messages with bytes between their bodies, so that no delimiter spans two."""
    if not bool((messages.starts[1:] == messages.ends[:-1]).any()):
        return messages
    tokens = (dialect.field, dialect.line, dialect.quote or b"", dialect.escaped)
    used = set().union(*tokens)
    between = dialect.line
    if len(dialect.line) > 1 or len(dialect.field) > 1:
        between = next(bytes([byte]) for byte in range(256) if byte not in used)
    whole = memoryview(messages.data)
    places = list(zip(messages.starts.tolist(), messages.ends.tolist(), strict=True))
    data = pa.py_buffer(between.join(whole[begin:end] for begin, end in places))
    lengths = messages.ends - messages.starts
    ends = np.cumsum(lengths + len(between)) - len(between)
    return replace(messages, data=data, starts=ends - lengths, ends=ends)
