"""Write columns as files of copybook records (docs/copybook.md, "Write files of records").

A single file is written under a temporary name, and renamed when it is complete. A folder of
several parts is written by tasks, and published at once (``mainframe/jobs/part_folder.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, Final, Protocol, Self, Unpack

import pyarrow as pa
from pyarrow import fs

from trailgate.cobol.copybook.layouts import Usage
from trailgate.cobol.copybook.segment_layouts import (
    SegmentLength,
    find_layout_or_segment,
    layout_or_segment_to_write,
)
from trailgate.cobol.records.encoding import RecordEncoder
from trailgate.cobol.records.frame_encoding import (
    FILLED,
    ONE_A_BLOCK,
    BlockLimits,
    count_in_complete_blocks,
    encode_file_header,
    encode_frames,
)
from trailgate.cobol.records.framing import FrameKind
from trailgate.cobol.records.kinds_decoding import KindsDecoder
from trailgate.cobol.records.kinds_encoding import KindsEncoder
from trailgate.cobol.records.nested_decoding import ChildRecords, NestedDecoder
from trailgate.cobol.records.nested_encoding import NestedEncoder
from trailgate.cobol.records.nulls import NullAs, null_policies
from trailgate.cobol.records.record_bytes import RecordBytes, records_of_length
from trailgate.columnar.rows import join_small_batches
from trailgate.errors import (
    EncodeError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
    mask_logins,
)
from trailgate.mainframe.files.row_files import find_row_files, read_rows
from trailgate.mainframe.framing_options import check_formats
from trailgate.mainframe.jobs.copybook_options import CopybookOptions
from trailgate.mainframe.jobs.option_texts import read_pairs
from trailgate.mainframe.jobs.options import OPTIONS, RecordKeywords, with_base
from trailgate.mainframe.jobs.part_folder import PartFolder, WrittenPart, part_folder
from trailgate.options import COUNT, Option, Options, OptionType, instance, list_names
from trailgate.storage.files.addresses import (
    Address,
    Addresses,
    address_exists,
    address_in,
    addresses_of,
    locate,
    name_of,
)
from trailgate.storage.files.opened_file import codec_of

NO_RECORDS: Final = records_of_length(b"", 1)
_READING: Final = (
    "columns",
    "orphans",
    "other_lengths",
    "skip_first",
    "skip_last",
    "header_bytes",
    "trailer_bytes",
    "header",
    "trailer",
    "indicators",
    "partitions",
)

_UNFINISHED: Final = ".unfinished"

_KINDS_HINT: Final = "It has one folder per kind of record, which do not keep the order of the records. Write one kind, from {0} with -o segment={1}; or keep the order in JSON lines, which trailgate records --format json prints"
_ROWS_HINT: Final = "Convert rows with pa.Table.from_pylist(rows, schema=...); read_records(...).schema is the schema of a file"


class WritingKeywords(RecordKeywords, total=False):
    """The options of writing copybook records, as keyword arguments."""

    nulls: str | Mapping[str, str] | None
    block_length: int | None
    block_records: int | None


def _nulls(text: str) -> dict[Usage, NullAs]:
    """Parse the option ``nulls``: ``TYPE=VALUE, TYPE=VALUE``, or a value for all types."""
    return null_policies(read_pairs(text, "TYPE=VALUE") if "=" in text else {"*": text})


NULLS: Final = OptionType(
    "types, and how their NULL is written",
    _nulls,
    lambda given: null_policies(instance(Mapping)(given)),
)
# Options that exist only for writing.
OWN: Final = (
    Option("nulls", NULLS, "how NULL is written: TYPE=VALUE, TYPE=VALUE; default an error"),
    Option(
        "block_length",
        COUNT,
        "the maximum size of a block with its descriptor word; default 32760, or the size of a longer record",
    ),
    Option(
        "block_records", COUNT, "the maximum number of records in a block; default as many as fit"
    ),
)
WRITING: Final = Options("copybook", (*OPTIONS, *OWN))


class BatchEncoder(Protocol):
    """The interface of record encoders: they convert batches of columns to copybook records."""

    def encode(self, columns: pa.RecordBatch) -> RecordBytes:
        """Encode a batch of rows as records. Raises EncodeError with record and field."""


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """The options for writing copybook records: how they are encoded and framed. They can be pickled.

    ``own_lengths``: a record of variable length whose last item is a segment ends after the segment,
    not where the longest segment would end.
    """

    records: CopybookOptions
    nulls: Mapping[Usage, NullAs]
    own_lengths: bool = True
    blocks: BlockLimits = ONE_A_BLOCK

    @classmethod
    def of(
        cls, named: Mapping[str, Any], base: str | None = None, *, in_place: bool = False
    ) -> Self:
        """Parse the options for writing copybook records. Relative paths are relative to ``base``.

        Raises OptionError, DefinitionError or StorageError. With ``in_place``, existing files are
        rewritten and keep their headers and trailers.
        """
        return cls.of_values(with_base(WRITING, WRITING.read(named), base), in_place=in_place)

    @classmethod
    def of_values(cls, given: Mapping[str, Any], *, in_place: bool = False) -> Self:
        """Build the options for writing copybook records from parsed values.

        Raises the same errors as ``of``.
        """
        reading = ("children", *_READING[:3]) if in_place else _READING
        for row in OPTIONS:
            if row.name in reading and given[row.name] != row.default:
                raise OptionError(f"{row.spelling} is an option for reading, not for writing")
        length, records = given["block_length"], given["block_records"]
        if in_place and (length or records):
            raise OptionError("blocks cannot be changed when fields are set")
        check_formats(given, WRITING)
        blocks = FILLED if length is None and records is None else BlockLimits(records, length)
        chosen = CopybookOptions.of_values(given)
        own_lengths = given["segment_length"] is SegmentLength.OWN
        return cls(chosen, given["nulls"] or {}, own_lengths, blocks)

    def encoder(self) -> BatchEncoder:
        """Return the encoder of the copybook's records."""
        chosen = self.records
        if chosen.kinds is None:
            return self._encoder_of(chosen.record)
        encoders = {name: self._encoder_of(name) for name in chosen.kinds.records}
        kind_options = chosen.layouts, chosen.kinds, chosen.records
        encoder_options = chosen.kinds, encoders, chosen.segment
        if chosen.children is ChildRecords.NESTED:
            return NestedEncoder(NestedDecoder(*kind_options), *encoder_options)
        return KindsEncoder(KindsDecoder(*kind_options), *encoder_options)

    def _encoder_of(self, name: str | None) -> RecordEncoder:
        """Return the encoder of a record or segment. All fixed-length records have the same length."""
        framing, layouts = self.records.framing, self.records.layouts
        fixed = framing.kind is FrameKind.FIXED
        full_length = fixed or not self.own_lengths
        layout = (
            find_layout_or_segment(layouts, name)
            if full_length
            else layout_or_segment_to_write(layouts, name)
        )
        length = max(framing.length, layout.size) if fixed else layout.size
        return RecordEncoder(layout, self.records.records, self.nulls, length)

    def check(self, schema: pa.Schema) -> None:
        """Raise EncodeError if rows of this schema can never be written as records, whatever their values."""
        self.encoder().encode(_no_rows(schema))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def write_batches(
    batches: Iterable[pa.RecordBatch], file: IO[bytes], options: WritingOptions, source: str
) -> int:
    """Write batches of rows as records into an open file. Returns the number of records.

    An error names ``source`` and the record's number in it. Records of the last block are held
    back, because later records may still fit into it.
    """
    encoder, framing, blocks = options.encoder(), options.records.framing, options.blocks
    written, pending = 0, NO_RECORDS  # pending: the records of the last block, which has room
    file.write(encode_file_header(framing))
    # None at the end flushes the last block.
    for batch in chain(join_small_batches(batches), [None]):
        at = written
        try:
            if batch is not None:
                # An encoding error counts from the first row of this batch; a framing error, from
                # the first record that is not written yet.
                at = written + len(pending)
                pending = pending.followed_by(encoder.encode(batch))
            at = written
            complete = (
                len(pending)
                if batch is None
                else count_in_complete_blocks(pending, framing, blocks)
            )
            if complete:
                file.write(encode_frames(pending.part(0, complete), framing, blocks).tobytes())
        except EncodeError as error:
            record = error.where.record
            where = Where(
                source=source,
                record=None if record is None else at + record,
                table=error.where.table,
                field=error.where.field,
            )
            raise EncodeError(error.problem, where=where, hint=error.hint) from None
        except TrailgateError as error:
            raise error.with_place(source=source) from None
        written, pending = written + complete, pending.part(complete, len(pending))
    return written


@contextmanager
def create_record_file(path: Address) -> Iterator[IO[bytes]]:
    """Context manager that opens a new file of mainframe records for writing, under a temporary name.

    If the block ends without an error, the file gets its final name; otherwise it is deleted.
    Raises StorageError if the file exists, and OptionError if the path is not suitable.
    """
    if codec_of(str(path)) is not None:
        raise OptionError(
            f"cannot write a compressed file: {path}", hint="Use a name without the suffix"
        )
    store, path_in_store = locate(path)
    if not path_in_store.strip("./"):
        raise OptionError(f"{os.fspath(path)!r} is not the name of a file")
    with _storage_errors(path):
        if store.get_file_info(path_in_store).type != fs.FileType.NotFound:
            hint = "Name another file, or remove this one"
            raise StorageError("the file already exists", where=Where(source=str(path)), hint=hint)
        stream = store.open_output_stream(path_in_store + _UNFINISHED)
    try:
        # The file gets its real name only after the caller's block has succeeded.
        with stream as file:
            yield file
        with _storage_errors(path):
            store.move(path_in_store + _UNFINISHED, path_in_store)
    except BaseException:
        with suppress(OSError):
            store.delete_file(path_in_store + _UNFINISHED)
        raise


@contextmanager
def _storage_errors(path: Address) -> Iterator[None]:
    """Context manager that converts errors of the store of a record file to StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(mask_logins(str(error)), where=Where(source=str(path))) from None


@list_names(WritingKeywords, WRITING)
def write_records(
    batches: Iterable[pa.RecordBatch] | pa.Table | pa.RecordBatch,
    path: Address,
    copybook: Addresses | None = None,
    **options: Unpack[WritingKeywords],
) -> int:
    """Write columns as a new file of records. Returns the number of records.

    ``batches`` is a table, a batch, a reader, an iterable of batches, or a data frame of another
    library that exports Arrow streams. Columns are flat, or structs and lists. ``options`` are the
    options of ``read_records`` (which can then read the file with them), and ``nulls``. Raises
    EncodeError with file, record, field and value if a value does not fit; in that case no file
    remains.
    """
    chosen = WritingOptions.of({"copybook": copybook, **options})
    return write_record_file(batches_to_write(batches), path, chosen)


def batches_to_write(given: Any) -> Iterator[pa.RecordBatch]:
    """Return the batches of the rows to write as records: a table, batch, reader, Arrow stream, or iterable of batches.

    Raises OptionError for anything else.
    """
    if isinstance(given, pa.RecordBatch):
        return iter([given])
    if isinstance(given, pa.Table):
        return iter(given.to_batches())
    # A class has the attribute of its instances too, so DuckDB's or Polars' class itself would pass
    # for a stream.
    if hasattr(given, "__arrow_c_stream__") and not isinstance(given, type):
        try:
            return iter(pa.RecordBatchReader.from_stream(given))
        except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
            raise OptionError(f"batches is not a stream of record batches: {error}") from None
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        problem = f"batches must be Arrow record batches or a table, not {type(given).__name__}"
        raise OptionError(problem, hint=_ROWS_HINT)
    return _checked_batches(given)


def _checked_batches(given: Iterable[Any]) -> Iterator[pa.RecordBatch]:
    # Elements are checked one by one, since the iterable may be a generator.
    for number, batch in enumerate(given, 1):
        if isinstance(batch, pa.Table):
            yield from batch.to_batches()
        elif isinstance(batch, pa.RecordBatch):
            yield batch
        else:
            problem = (
                f"item {number} of batches is a {type(batch).__name__}, not an Arrow record batch"
            )
            raise OptionError(problem, hint=_ROWS_HINT)


def write_record_file(
    batches: Iterable[pa.RecordBatch], path: Address, options: WritingOptions
) -> int:
    """Write columns as a new file of records, like ``write_records``, but with parsed options."""
    options.encoder()  # only to raise errors before the file is created
    with create_record_file(path) as file:
        return write_batches(batches, file, options, str(path))


def read_rows_to_write(path: Addresses, options: WritingOptions) -> Iterator[pa.RecordBatch]:
    """Read the rows that a job writes as records from Parquet files or JSON lines, by the writing options' schema.

    In JSON, bytes are hex digits, and missing values are NULL. Raises StorageError if there are no
    such files. If the folder only has a subfolder for each kind of record, the error's hint names
    one of them.
    """
    schema = pa.schema(map(_in_json, options.records.decoder().schema))
    try:
        files = find_row_files(path)
    except StorageError as error:
        if folders := _kind_folders(path, options.records):
            error.hint = _KINDS_HINT.format(folders[0], name_of(folders[0]))
        raise
    for file, form in files:
        yield from read_rows(file, form, schema)


def _kind_folders(path: Addresses, options: CopybookOptions) -> list[str]:
    """Return the folders at one or several addresses, each of which contains the table of a single kind of record."""
    kinds = options.kinds.records if options.kinds else ()
    if options.segment is not None:
        kinds = tuple(kind for kind in kinds if kind.upper() == options.segment.upper())
    folders = (address_in(one, kind) for one in addresses_of(path) for kind in kinds)
    return [folder for folder in folders if address_exists(folder)]


def _in_json(field: pa.Field) -> pa.Field:
    """Return a column's field with strings in place of bytes, because JSON has no bytes."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct(list(map(_in_json, kind))))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_json(kind.value_field)))
    return field.with_type(pa.string()) if pa.types.is_binary(kind) else field


@dataclass(frozen=True, slots=True)
class WritingJob:
    """A job that writes records into a new folder.

    It can be pickled: a task needs nothing else to write a part.
    """

    options: WritingOptions
    folder: PartFolder

    def write_part(
        self, batches: Iterator[pa.RecordBatch], number: int, attempt: str
    ) -> WrittenPart:
        """Write one file of records under a temporary name. A part without records gets no file."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return WrittenPart(0, ())

        def all_batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from filled

        with self.folder.part(number, attempt=attempt) as (file, files):
            rows = write_batches(all_batches(), file, self.options, self.folder.part_name(number))
        return WrittenPart(rows, tuple(files))


def prepare_writing(target: str, options: WritingOptions, schema: pa.Schema) -> WritingJob:
    """Plan a job that writes records into a new folder.

    Raises StorageError if the folder is not empty, OptionError if the store cannot be written, and
    EncodeError if the schema cannot be written.
    """
    options.check(schema)
    folder = part_folder(target, "a file of records", ending="")
    folder.check_new()
    return WritingJob(options, folder)
