"""Columns written as files of records by a copybook: one new file, or parts of a new folder (docs/copybook.md, "Write files of records").

A file is written under another name, which it loses when it is complete. Parts are staged by tasks and published together (``mainframe/jobs/part_folder.py``).
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
from trailgate.cobol.records.encoding import (
    FILLED,
    ONE_A_BLOCK,
    Blocks,
    RecordEncoder,
    frame,
    whole_blocks,
)
from trailgate.cobol.records.fields import RecordBytes, records_of_length
from trailgate.cobol.records.framing import FrameKind, header_of
from trailgate.cobol.records.kinds_encoding import KindsEncoder
from trailgate.cobol.records.nested_encoding import NestedEncoder
from trailgate.cobol.records.nested_kinds import Children, NestedDecoder
from trailgate.cobol.records.nulls import NullAs, null_policies
from trailgate.cobol.records.record_kinds import KindsDecoder
from trailgate.cobol.records.segments import SegmentLength, layout_named, written_layout
from trailgate.columnar.gather import gather_objects
from trailgate.errors import (
    EncodeError,
    OptionError,
    StorageError,
    TrailgateError,
    Where,
    mask_logins,
)
from trailgate.mainframe.files.row_files import find_row_files, read_rows
from trailgate.mainframe.framing import check_formats
from trailgate.mainframe.jobs.option_texts import read_pairs
from trailgate.mainframe.jobs.options import OPTIONS, RecordKeywords, with_base
from trailgate.mainframe.jobs.part_folder import PartFolder, WrittenPart, part_folder
from trailgate.mainframe.jobs.reading import CopybookOptions
from trailgate.options import COUNT, Kind, Option, Options, instance, list_names
from trailgate.storage.files.addresses import Address, locate
from trailgate.storage.files.found_files import Addresses
from trailgate.storage.files.opened_file import codec_of


class WritingKeywords(RecordKeywords, total=False):
    """How records are written."""

    nulls: str | Mapping[str, str] | None
    block_length: int | None
    block_records: int | None


def _nulls(text: str) -> dict[Usage, NullAs]:
    """Read ``TYPE=VALUE, TYPE=VALUE``; a value alone is for all types."""
    return null_policies(read_pairs(text, "TYPE=VALUE") if "=" in text else {"*": text})


NULLS: Final = Kind(
    "types and what NULL is written as",
    _nulls,
    lambda given: null_policies(instance(Mapping)(given)),
)
# Those of writing alone.
OWN: Final = (
    Option("nulls", NULLS, "what NULL is written as: TYPE=VALUE, TYPE=VALUE; else an error"),
    Option(
        "block_length",
        COUNT,
        "the most bytes of a block, with its word; else 32760, or of one longer record",
    ),
    Option("block_records", COUNT, "the most records of a block; else as many as fit"),
)
WRITING: Final = Options("copybook", (*OPTIONS, *OWN))
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


class BatchEncoder(Protocol):
    """Encodes columns as records."""

    def encode(self, columns: pa.RecordBatch) -> RecordBytes:
        """Return the records; raises EncodeError with record and field."""


@dataclass(frozen=True, slots=True)
class WritingOptions:
    """How records are encoded and separated; it can be pickled."""

    records: CopybookOptions
    nulls: Mapping[Usage, NullAs]
    own_lengths: bool = True
    blocks: Blocks = ONE_A_BLOCK

    @classmethod
    def of(
        cls, named: Mapping[str, Any], base: str | None = None, *, in_place: bool = False
    ) -> Self:
        """Return the options of these names, relative paths from ``base``; raises OptionError, DefinitionError, StorageError.

        Files that are written anew ``in_place`` keep their headers and trailers.
        """
        return cls.of_values(with_base(WRITING, WRITING.read(named), base), in_place=in_place)

    @classmethod
    def of_values(cls, given: Mapping[str, Any], *, in_place: bool = False) -> Self:
        """Return the options of values that are read already; raises as ``of`` does."""
        reading = ("children", *_READING[:3]) if in_place else _READING
        for row in OPTIONS:
            if row.name in reading and given[row.name] != row.default:
                raise OptionError(f"{row.spelling} is for reading, and files are written without")
        length, records = given["block_length"], given["block_records"]
        if in_place and (length or records):
            raise OptionError("blocks stay as they are where fields are set")
        check_formats(given, WRITING)
        blocks = FILLED if length is None and records is None else Blocks(records, length)
        chosen = CopybookOptions.of_values(given)
        own = given["segment_length"] is SegmentLength.OWN
        return cls(chosen, given["nulls"] or {}, own, blocks)

    def encoder(self) -> BatchEncoder:
        """Return what encodes the records."""
        chosen = self.records
        if chosen.kinds is None:
            return self._encoder_of(chosen.record)
        encoders = {name: self._encoder_of(name) for name in chosen.kinds.records}
        own = chosen.layouts, chosen.kinds, chosen.records
        given = chosen.kinds, encoders, chosen.segment
        if chosen.children is Children.NESTED:
            return NestedEncoder(NestedDecoder(*own), *given)
        return KindsEncoder(KindsDecoder(*own), *given)

    def _encoder_of(self, name: str | None) -> RecordEncoder:
        """Return the encoder of a record or segment; those of fixed records have one length."""
        framing, layouts = self.records.framing, self.records.layouts
        fixed = framing.kind is FrameKind.FIXED
        whole = fixed or not self.own_lengths
        layout = layout_named(layouts, name) if whole else written_layout(layouts, name)
        length = max(framing.length, layout.size) if fixed else layout.size
        return RecordEncoder(layout, self.records.records, self.nulls, length)

    def check(self, schema: pa.Schema) -> None:
        """Raise EncodeError where columns of a schema cannot be written, whatever their values."""
        self.encoder().encode(_no_rows(schema))


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def write_to(
    batches: Iterable[pa.RecordBatch], file: IO[bytes], options: WritingOptions, source: str
) -> int:
    """Write columns as records, and return how many; an error names ``source`` and the number of the record in it."""
    encoder, framing, blocks = options.encoder(), options.records.framing, options.blocks
    written, held = 0, NO_RECORDS  # those of the last block, which has room
    file.write(header_of(framing))
    for batch in chain(gather_objects(batches), [None]):
        at = written
        try:
            if batch is not None:
                at = written + len(held)
                held = held.followed_by(encoder.encode(batch))
            at = written
            whole = len(held) if batch is None else whole_blocks(held, framing, blocks)
            if whole:
                file.write(frame(held.part(0, whole), framing, blocks).tobytes())
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
        written, held = written + whole, held.part(whole, len(held))
    return written


_UNFINISHED: Final = ".unfinished"


@contextmanager
def new_file(path: Address) -> Iterator[IO[bytes]]:
    """Give a new file, which has its name at the end; there is none where this raises. Raises StorageError, OptionError."""
    if codec_of(str(path)) is not None:
        raise OptionError(f"compressed files are not written: {path}", hint="Leave out the suffix")
    store, place = locate(path)
    if not place.strip("./"):
        raise OptionError(f"{os.fspath(path)!r} is not the name of a file")
    with _storage_errors(path):
        if store.get_file_info(place).type != fs.FileType.NotFound:
            raise StorageError("the file is there already", where=Where(source=str(path)))
        opened = store.open_output_stream(place + _UNFINISHED)
    try:
        with opened as file:
            yield file
        with _storage_errors(path):
            store.move(place + _UNFINISHED, place)
    except BaseException:
        with suppress(OSError):
            store.delete_file(place + _UNFINISHED)
        raise


@contextmanager
def _storage_errors(path: Address) -> Iterator[None]:
    """Raise StorageError for an error of the store."""
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
    """Write columns as a new file of records, and return how many.

    ``batches`` is a table, a batch, a reader, or any iterable of batches; also a frame of another library that exports Arrow streams. The columns are flat, or a tree. ``options`` are those of ``read_records``, which reads the file with them again, and ``nulls``. Raises
    EncodeError with file, record, field and value for a value that does not fit; there is no file then.
    """
    chosen = WritingOptions.of({"copybook": copybook, **options})
    return write_file(batches_of(batches), path, chosen)


_ROWS_HINT: Final = "Make a table of rows with pa.Table.from_pylist(rows, schema=...): read_records(...).schema is the schema of a file"


def batches_of(given: Any) -> Iterator[pa.RecordBatch]:
    """Return the batches of a table, a batch, a reader, an Arrow stream, or an iterable of batches; raises OptionError for anything else."""
    if isinstance(given, pa.RecordBatch):
        return iter([given])
    if isinstance(given, pa.Table):
        return iter(given.to_batches())
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
    for number, batch in enumerate(given, 1):
        if isinstance(batch, pa.Table):
            yield from batch.to_batches()
        elif isinstance(batch, pa.RecordBatch):
            yield batch
        else:
            problem = (
                f"batches has a {type(batch).__name__} in place {number}, not an Arrow record batch"
            )
            raise OptionError(problem, hint=_ROWS_HINT)


def write_file(batches: Iterable[pa.RecordBatch], path: Address, options: WritingOptions) -> int:
    """Write columns as a new file, as ``write_records`` does."""
    options.encoder()  # raises before there is a file
    with new_file(path) as file:
        return write_to(batches, file, options, str(path))


def rows_of(path: Addresses, options: WritingOptions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files of Parquet or of JSON lines, where bytes are hex digits and what is absent is NULL."""
    schema = pa.schema(map(_in_json, options.records.decoder().schema))
    for file, form in find_row_files(path):
        yield from read_rows(file, form, schema)


def _in_json(field: pa.Field) -> pa.Field:
    """Return a field with strings where it has bytes, as JSON has them."""
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct(list(map(_in_json, kind))))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_json(kind.value_field)))
    return field.with_type(pa.string()) if pa.types.is_binary(kind) else field


@dataclass(frozen=True, slots=True)
class WritingJob:
    """What a task needs to write a part of a new folder; it can be pickled."""

    options: WritingOptions
    folder: PartFolder

    def write_part(
        self, batches: Iterator[pa.RecordBatch], number: int, attempt: str
    ) -> WrittenPart:
        """Write a part where only publishing finds it; a part without records has no file."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return WrittenPart(0, ())

        def all_batches() -> Iterator[pa.RecordBatch]:
            yield first
            yield from filled

        with self.folder.part(number, attempt=attempt) as (file, made):
            rows = write_to(all_batches(), file, self.options, self.folder.part_name(number))
        return WrittenPart(rows, tuple(made))


def prepare_writing(target: str, options: WritingOptions, schema: pa.Schema) -> WritingJob:
    """Return a job that writes records into a new folder.

    Raises StorageError where the folder is not empty, OptionError for a store that is not written to, EncodeError where columns of the schema cannot be
    written.
    """
    options.check(schema)
    folder = part_folder(target, "a file of records", ending="")
    folder.check_new()
    return WritingJob(options, folder)
