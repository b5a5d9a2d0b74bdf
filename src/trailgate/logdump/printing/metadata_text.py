"""Metadata records as text: table definitions with all attributes, as Defgen or as SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Final

from trailgate.definitions.defgen.record_layout import complete
from trailgate.definitions.defgen.sourcedefs import write_sourcedefs
from trailgate.errors import TrailgateError
from trailgate.logdump.printing.hex_dump import dump
from trailgate.logdump.session.results import ShownRecord
from trailgate.logdump.session.settings import MetadataForm
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TYPES
from trailgate.trail.records.metadata import TDR_VERSION, MetadataKind
from trailgate.trail.records.record import TrailRecord

STAR: Final = "*"
PARTITION_TAIL: Final = 12  # assumed (trail format §12): a u64 id and u32 flags
ATTRIBUTES: Final = tuple(field.name for field in fields(Column))


def metadata_lines(shown: ShownRecord) -> Iterator[str]:
    """Yield the lines of a metadata record."""
    kind = shown.record.node
    lines = _KINDS.get(kind)
    if lines is None:
        yield f"Metadata of an unknown kind ({kind})"
        yield from _bytes(shown)
    else:
        yield from lines(shown)


def _database(shown: ShownRecord) -> Iterator[str]:
    yield f"Database Name: {shown.name}".rstrip()
    yield from _bytes(shown)


def _table(shown: ShownRecord) -> Iterator[str]:
    yield f"Table Name: {shown.name}"
    table = None if shown.table is None else shown.table.table
    writer = WRITERS[shown.settings.metadata]
    if table is None or writer is None:
        yield from _bytes(shown)
        return
    try:
        lines = list(writer(table))
    except TrailgateError as error:
        yield f"This definition cannot be written in this form: {error}"
        yield from _bytes(shown)
        return
    yield from (STAR, *lines)


def _reference(shown: ShownRecord) -> Iterator[str]:
    yield f"Table Name: {shown.name} (Ref TDR Index: {shown.record.metadata_indexes[1]})"


def _partition(shown: ShownRecord) -> Iterator[str]:
    record = shown.record
    yield f"Partition Name: {record.name}{_partition_tail(record)}"


def _partition_tail(record: TrailRecord) -> str:
    raw = record.after_name
    if len(raw) != PARTITION_TAIL:
        return f"  {raw.hex(' ')}" if raw else ""
    number, flags = record.order.number(raw[:8]), record.order.number(raw[8:])
    return f"  Partition ID: {number:,}  Flags: x{flags:08x}"


def _bytes(shown: ShownRecord) -> Iterator[str]:
    settings = shown.settings
    yield from dump(shown.record.data or b"", settings.dump_charset, settings.reclen)


_KINDS: Final[Mapping[int, Callable[[ShownRecord], Iterator[str]]]] = MappingProxyType(
    {
        MetadataKind.DATABASE: _database,
        MetadataKind.TABLE: _table,
        MetadataKind.TABLE_REFERENCE: _reference,
        MetadataKind.PARTITION: _partition,
    }
)


def _all_attributes(table: Table) -> Iterator[str]:
    titles = [f"{number:>2}){name.replace('_', ' ')}" for number, name in enumerate(ATTRIBUTES, 1)]
    for start in range(0, len(titles), 6):
        yield "".join(f"{title:<22}" for title in titles[start : start + 6]).rstrip()
    yield from (STAR, f"TDR version: {TDR_VERSION}", f"Definition for table {table.name}")
    # Logdump also prints a record length; where the bytes hold it is not public.
    yield f"Columns: {len(table.columns)}"
    width = max(len(column.name) for column in table.columns)
    for column in table.columns:
        values = (int(getattr(column, name)) for name in ATTRIBUTES[1:])
        yield f"{column.name:<{width}} {' '.join(f'{value:>6}' for value in values)}"
    yield "End of definition"


def _as_defgen(table: Table) -> Iterator[str]:
    # The trail does not hold the record length; Defgen's own formula computes it.
    whole = complete(replace(table, record_length=0))
    yield from write_sourcedefs(Definitions((whole,))).decode().splitlines()


def _as_sql(table: Table) -> Iterator[str]:
    yield f"CREATE TABLE {table.name} ("
    keys = [column.name for column in table.columns if column.key]
    rows = [f"  {column.name} {_sql_type(column)}" for column in table.columns]
    rows += [f"  PRIMARY KEY ({', '.join(keys)})"] if keys else []
    yield from (f"{row}," for row in rows[:-1])
    yield from (rows[-1], ");")


def _sql_type(column: Column) -> str:
    kind = TYPES.get(column.data_type)
    name = f"TYPE_{column.data_type}" if kind is None else kind.name.upper()
    null = "" if column.nullable else " NOT NULL"
    return f"{name}({column.external_length}){null}"


Writer = Callable[[Table], Iterator[str]]
WRITERS: Final[Mapping[MetadataForm, Writer | None]] = MappingProxyType(
    {
        MetadataForm.DETAIL: _all_attributes,
        MetadataForm.DEFGEN: _as_defgen,
        MetadataForm.DDL: _as_sql,
        MetadataForm.SQL: _as_sql,
        MetadataForm.OFF: None,
    }
)
