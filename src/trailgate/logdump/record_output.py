"""Format a record as Logdump prints it, and as values for JSON.

The text has the header; the lines with time, type, table and image; the data, the columns and the
tokens, as far as the settings show them. A metadata record is printed with its table definition:
with all attributes, as Defgen writes it, or as SQL. JSON contains everything, whatever the
settings. Bytes are printed like this::

     0000 0004 4a6f 686e 0001 0004 0000 0007           | ....John........
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from types import MappingProxyType
from typing import Any, Final

from trailgate.definitions.defgen import write_sourcedefs
from trailgate.definitions.defgen_layout import complete_table
from trailgate.errors import TrailgateError
from trailgate.logdump.results import (
    DetailLevel,
    DisplayLevel,
    DumpCharset,
    MetadataForm,
    ShownRecord,
)
from trailgate.logdump.times import iso_time, time_text
from trailgate.model.tables import Column, Definitions, Table
from trailgate.model.types import TYPES
from trailgate.trail.format.record_header import BEFORE_IMAGE
from trailgate.trail.format.record_types import (
    IO_KEY_UPDATE,
    IO_LONG_KEY_UPDATE,
    IO_METADATA,
    ImagePrefix,
    type_name,
)
from trailgate.trail.format.tokens import (
    DATA,
    GGS_TOKENS,
    GGS_TOKENS_BY_ID,
    HEADER,
    RECORD,
    TRAILER,
    USER_TOKENS,
    RecordToken,
    decode_user_tokens,
    token,
    token_name,
)
from trailgate.trail.records.record import TrailRecord, encode_header_area
from trailgate.trail.records.record_data import (
    ColumnBytes,
    RecordImage,
    read_record_images,
    read_record_piece,
)
from trailgate.trail.records.table_metadata import TDR_VERSION, MetadataType

A_LINE: Final = 20  # bytes per line of a dump
WIDTH: Final = 49  # ten groups of four digits, with nine blanks between them
STAR: Final = "*"
PARTITION_TAIL: Final = 12  # assumed (trail format §12): a u64 id and u32 flags
ATTRIBUTES: Final = tuple(field.name for field in fields(Column))
RULE: Final = "_" * 67
INDICATORS: Final = "bmes"  # for TransInd 0 to 3 (trail format §5.1)
SIGN: Final = 0x80  # the sign bit: Logdump prints the partition byte sign-extended
INDEX_TITLES: Final = {int(MetadataType.PARTITION): "TDR/PNR idx:   "}
INDEX_TITLE: Final = "DDR/TDR index: "

# The size of the length before the key, by record type.
KEY_LENGTHS: Final = {
    IO_KEY_UPDATE: int(ImagePrefix.SHORT),
    IO_LONG_KEY_UPDATE: int(ImagePrefix.LONG),
}
NEW_COLUMNS: Final = 21  # the first release known to print columns in the new form
_PART_NAMES: Final = {DATA: "Data", GGS_TOKENS: "GGS Tokens", USER_TOKENS: "User Tokens"}

# The numbers of the record header, by the names that Logdump prints.
NUMBERS: Final = (
    ("Partition", "partition"),
    ("UndoFlag", "undo"),
    ("IOType", "io_type"),
    ("OrigNode", "node"),
    ("TransInd", "trans_ind"),
    ("SyskeyLen", "syskey_length"),
    ("Incomplete", "incomplete"),
    ("AuditRBA", "audit_rba"),
    ("AuditPos", "audit_pos"),
    ("Continued", "continued"),
    ("RecCount", "record_count"),
)


def dump(
    raw: bytes, charset: DumpCharset = DumpCharset.ASCII, limit: int | None = None
) -> list[str]:
    """Format bytes as the lines of a Logdump dump, at most ``limit`` of these bytes."""
    return list(_lines(raw if limit is None else raw[:limit], charset))


def visible(raw: bytes, charset: DumpCharset = DumpCharset.ASCII) -> str:
    """Format bytes as the text beside a Logdump dump, with a dot for each character outside printable ASCII."""
    text = raw.decode(charset.value)
    return "".join(letter if " " <= letter <= "~" else "." for letter in text)


def _lines(raw: bytes, charset: DumpCharset) -> Iterator[str]:
    for start in range(0, len(raw), A_LINE):
        piece = raw[start : start + A_LINE]
        yield f" {piece.hex(' ', -2):{WIDTH}} | {visible(piece, charset)}"


def metadata_lines(shown: ShownRecord) -> Iterator[str]:
    """Yield the lines that Logdump prints for a metadata record."""
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


# By the type of a metadata record: what prints its own lines.
_KINDS: Final[Mapping[int, Callable[[ShownRecord], Iterator[str]]]] = MappingProxyType(
    {
        MetadataType.DATABASE: _database,
        MetadataType.TABLE: _table,
        MetadataType.TABLE_REFERENCE: _reference,
        MetadataType.PARTITION: _partition,
    }
)


def _all_attributes(table: Table) -> Iterator[str]:
    titles = [f"{number:>2}){name.replace('_', ' ')}" for number, name in enumerate(ATTRIBUTES, 1)]
    # Six titles per line, padded to equal width.
    for start in range(0, len(titles), 6):
        yield "".join(f"{title:<22}" for title in titles[start : start + 6]).rstrip()
    yield from (STAR, f"TDR version: {TDR_VERSION}", f"Definition for table {table.name}")
    # Logdump also prints a record length, but its offset in the metadata record is not public.
    yield f"Columns: {len(table.columns)}"
    width = max(len(column.name) for column in table.columns)
    for column in table.columns:
        values = (int(getattr(column, name)) for name in ATTRIBUTES[1:])
        yield f"{column.name:<{width}} {' '.join(f'{value:>6}' for value in values)}"
    yield "End of definition"


def _as_defgen(table: Table) -> Iterator[str]:
    # The trail does not contain the record length; ``complete_table`` computes it by Defgen's formula.
    completed = complete_table(replace(table, record_length=0))
    yield from write_sourcedefs(Definitions((completed,))).decode().splitlines()


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


def record_lines(shown: ShownRecord) -> Iterator[str]:
    """Yield the lines that Logdump prints for a record."""
    record, settings = shown.record, shown.settings
    if settings.header_tokens is not DisplayLevel.OFF:
        yield from _frame_lines(record, settings.header_tokens, settings.header_charset)
    yield RULE
    if settings.ghdr:
        yield from _header_lines(shown)
        yield ""
    yield from _first_lines(shown)
    # The data of a metadata record is part of its first lines, as its table's definition.
    if record.io_type != IO_METADATA:
        yield from _data_lines(shown)
    if settings.ggs_tokens is not DisplayLevel.OFF and record.tokens is not None:
        yield from ("", "GGS tokens:")
        yield from _token_lines(shown)
    if settings.user_tokens is not DisplayLevel.OFF and record.user is not None:
        yield ""
        yield from _user_lines(record.user, settings.user_tokens, settings.dump_charset)
    if shown.damage:
        yield from ("", f"Damaged: {shown.damage}")
    yield ""


def _header_lines(shown: ShownRecord) -> Iterator[str]:
    record = shown.record
    time = time_text(record.io_time, shown.settings.time_offset)
    length = len(record.data or b"")
    audit_rba = f"AuditRBA   : {record.audit_rba:>10} "
    if record.io_type == IO_METADATA:
        first, second = record.metadata_indexes
        title = INDEX_TITLES.get(record.node, INDEX_TITLE)
        audit_rba = f"{title}({first:03}, {second:03})"
    partition = f"  {_letter(record.partition)}  (x{_signed_hex(record.partition)})"
    # the fields and the columns of Logdump's GHDR, two per line
    rows = (
        ("Hdr-Ind    :     E  (x45)", f"Partition  :   {partition}"),
        (f"UndoFlag   :     {_byte(record.undo)}", f"BeforeAfter:     {_byte(record.image)}"),
        (f"RecLength  : {length:>5}  (x{length:04x})", f"IO Time    : {time}"),
        (f"IOType     : {_number(record.io_type)}", f"OrigNode   : {_number(record.node)}"),
        (f"TransInd   :     {_byte(record.trans_ind)}", f"FormatType :     {_byte(record.format)}"),
        (
            f"SyskeyLen  : {_number(record.syskey_length)}",
            f"Incomplete :     {_byte(record.incomplete)}",
        ),
        (audit_rba, f"AuditPos   : {record.audit_pos}"),
        (
            f"Continued  :     {'Y' if record.continued else 'N'}  (x{record.continued:02x})",
            f"RecCount   : {_number(record.record_count)}",
        ),
    )
    for left, right in rows:
        yield f"{left:<29} {right}"


def _first_lines(shown: ShownRecord) -> Iterator[str]:
    record = shown.record
    time = time_text(record.io_time, shown.settings.time_offset)
    length = len(record.data or b"")
    name = f"{type_name(record.io_type):<20}"
    if record.io_type == IO_METADATA:
        yield f"{time} {name} Len {length} RBA {record.offset}"
        yield from metadata_lines(shown)
        return
    if type_name(record.io_type) == "unknown":
        name = f"unknown type {record.io_type:<7}"
    yield f"{time} {name} Len {length:>5} RBA {record.offset}"
    yield f"Name: {shown.name}{_index_text(shown)}".rstrip()
    image = "Before" if record.image == BEFORE_IMAGE else "After "
    known = record.trans_ind < len(INDICATORS)
    indicator = INDICATORS[record.trans_ind] if known else "?"
    yield f"{image} Image:{'':45}Partition x{record.partition:02x}   G  {indicator}"


def _index_text(shown: ShownRecord) -> str:
    record = shown.record
    if record.table_index is None:
        return ""
    if record.partition_index is None:
        return f"  (TDR Index: {record.table_index})"
    named = f"Partition: {shown.partition or '?'}"
    return f"  ({named}, TDR/PNR Index: {record.table_index}/{record.partition_index})"


def _data_lines(shown: ShownRecord) -> Iterator[str]:
    record, settings = shown.record, shown.settings
    yield from dump(record.data or b"", settings.dump_charset, settings.reclen)
    if settings.detail is DetailLevel.OFF:
        return
    images = read_record_images(record)
    for image in images:
        if len(images) > 1:
            kind = "Before" if image.before else "After "
            yield f"{kind} Image Len {image.length:>5} (x{image.length:08x})"
        key = image.before and record.io_type in KEY_LENGTHS
        if key:
            # the before image of a key update starts with the length of the key
            length = image.length - KEY_LENGTHS[record.io_type]
            yield f"KeyLen {length:>5} (x{length:08x})"
        yield from _image_lines(image, shown, key=key)
    piece = read_record_piece(record)
    if piece is not None:
        yield (
            f"LOB Column {piece.column}, Chunk {piece.number} of {piece.pieces},"
            f" Offset {piece.start}, Len {len(piece.raw)}"
        )


def _image_lines(image: RecordImage, shown: ShownRecord, *, key: bool) -> Iterator[str]:
    settings = shown.settings
    limit = settings.reclen if settings.column_length is None else settings.column_length
    head = _key_head if key else _new_head if shown.release >= NEW_COLUMNS else _column_head
    for column in image.columns:
        yield head(column)
        if settings.detail is DetailLevel.DATA:
            yield from dump(column.raw, settings.data_charset, limit)


def _column_head(column: ColumnBytes) -> str:
    """Return Logdump's line before the bytes of a column."""
    size = len(column.raw)
    return f"Column {column.index:>5} (x{column.index:04x}), Len {size:>5} (x{size:04x})"


def _key_head(column: ColumnBytes) -> str:
    """Return Logdump's line before the bytes of a key column in the record of a key update."""
    return _column_head(column).replace("Column", "KeyCol")


def _new_head(column: ColumnBytes) -> str:
    """Return the line before the bytes of a column in the form of Logdump 21.3 (trail format §19)."""
    size = len(column.raw)
    return f"Column {column.index} (0x{column.index:04x}), Length {size} (0x{size:04x})."


def _token_lines(shown: ShownRecord) -> Iterator[str]:
    record, settings = shown.record, shown.settings
    tokens = record.tokens or ()
    # ON shows all tokens as one block of bytes, DETAIL each token under a heading.
    if settings.ggs_tokens is DisplayLevel.ON:
        raw = b"".join(token(t.code, t.payload, t.info, record.order) for t in tokens)
        yield from dump(raw, settings.dump_charset)
        return
    for one in tokens:
        yield token_head(one.code, token_name(one.code), one.info, len(one.payload))
        yield from dump(one.payload, settings.dump_charset)


def _user_lines(raw: bytes, display: DisplayLevel, charset: DumpCharset) -> Iterator[str]:
    yield f"User tokens: {len(raw):>5} bytes"
    # None if the bytes are not pairs of name and value; then they are dumped.
    pairs = decode_user_tokens(raw)
    for name, value in pairs or ():
        yield f"{name:<20}: {value if display is DisplayLevel.DETAIL else f'{len(value.encode()):>5} bytes'}"
    if pairs is None:
        yield from dump(raw, charset)


def token_head(code: int, name: str, info: int, length: int) -> str:
    """Format Logdump's line before the bytes of a record's token."""
    letter = visible(bytes((code,)))
    return f"TokenID x{code:02x} '{letter}' {name:<16} Info x{info:02x}  Length {length:>4}"


def _frame_lines(record: TrailRecord, display: DisplayLevel, charset: DumpCharset) -> Iterator[str]:
    header = encode_header_area(record)
    yield token_head(RECORD, "Record Header", record.info, record.length)
    yield token_head(HEADER, "GHDR", 0, len(header))
    if display is DisplayLevel.DETAIL:
        yield from dump(header, charset)
    for one in _parts(record):
        yield token_head(one.code, _PART_NAMES.get(one.code, "unknown"), one.info, len(one.payload))
    yield token_head(TRAILER, "Record Trailer", record.info, record.length)


def _parts(record: TrailRecord) -> Iterator[RecordToken]:
    if record.data is not None:
        yield RecordToken(DATA, record.data)
    if record.tokens is not None:
        inner = (token(t.code, t.payload, t.info, record.order) for t in record.tokens)
        yield RecordToken(GGS_TOKENS, b"".join(inner))
    if record.user is not None:
        yield RecordToken(USER_TOKENS, record.user)
    yield from record.others


def _letter(value: int) -> str:
    return visible(bytes((value,)))


def _byte(value: int) -> str:
    return f"{_letter(value)}  (x{value:02x})"


def _number(value: int) -> str:
    return f"{value:>5}  (x{value:02x})"


def _signed_hex(value: int) -> str:
    return f"ff{value:02x}" if value >= SIGN else f"{value:02x}"


Values = dict[str, Any]


def record_values(shown: ShownRecord) -> Values:
    """Convert a trail record (header, data, columns and tokens) to values for Logdump's JSON output."""
    record = shown.record
    data = record.data or b""
    return {
        "rba": record.offset,
        "length": record.length,
        "type": type_name(record.io_type),
        "name": shown.name,
        "time": iso_time(record.io_time),
        "image": chr(record.image),
        "header": _header_values(record),
        **_indexes(shown),
        "data_length": len(data),
        "data": data.hex(),
        "images": [
            {
                "image": "before" if image.before else "after",
                "columns": [_column(column.index, column.raw) for column in image.columns],
            }
            for image in read_record_images(record)
        ],
        **_piece(record),
        "ggs_tokens": [_token(one) for one in record.tokens or ()],
        **_user(record),
        **({"damage": shown.damage} if shown.damage else {}),
    }


def _header_values(record: TrailRecord) -> Values:
    values: Values = {title: getattr(record, field) for title, field in NUMBERS}
    values["FormatType"] = chr(record.format)
    return values


def _indexes(shown: ShownRecord) -> Values:
    record = shown.record
    values: Values = {}
    if record.table_index is not None:
        values["table_index"] = record.table_index
    if record.partition_index is not None:
        values |= {"partition_index": record.partition_index, "partition": shown.partition}
    if record.io_type == IO_METADATA:
        kinds = {kind.value: kind.name.lower() for kind in MetadataType}
        values["metadata"] = kinds.get(record.node, "unknown")
        values["indexes"] = list(record.metadata_indexes)
        table = None if shown.table is None else shown.table.table
        if table is not None:
            values["columns"] = [asdict(column) for column in table.columns]
    return values


def _column(index: int, raw: bytes) -> Values:
    return {"index": index, "length": len(raw), "hex": raw.hex(), "text": visible(raw)}


def _piece(record: TrailRecord) -> Values:
    piece = read_record_piece(record)
    if piece is None:
        return {}
    column, pieces, number, start, _, raw = piece
    values = {"column": column, "pieces": pieces, "number": number, "start": start}
    return {"lob": {**values, "length": len(raw)}}


def _token(one: RecordToken) -> Values:
    row = GGS_TOKENS_BY_ID.get(one.code)
    values: Values = {"id": one.code, "name": token_name(one.code), "info": one.info}
    values["hex"] = one.payload.hex()
    if row is not None and row.is_text:
        values["text"] = one.payload[: row.text_bytes].decode("utf-8", "backslashreplace")
    return values


def _user(record: TrailRecord) -> Values:
    if record.user is None:
        return {}
    pairs = decode_user_tokens(record.user)
    named = None if pairs is None else [{"name": n, "value": v} for n, v in pairs]
    return {"user_tokens": named, "user_tokens_hex": record.user.hex()}
