"""Write rows to a new file. The file's suffix determines the format: Parquet, CSV or JSON lines."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final

import pyarrow as pa

from trailgate.errors import OptionError, StorageError, Where, count_noun, mask_logins
from trailgate.storage.files.addresses import address_exists, is_stored, locate
from trailgate.storage.files.durable import convert_write_errors
from trailgate.storage.stores.writable_stores import writable_store
from trailgate.terminal.batches import RowCounter, limit_rows
from trailgate.terminal.flags import OutputFormat
from trailgate.terminal.json_csv import check_column_names, print_csv, print_json
from trailgate.terminal.output import report_finished

if TYPE_CHECKING:
    import pyarrow.parquet as pq

GROUP_BYTES: Final = 64 << 20  # of Arrow columns in a row group
COPIED: Final = 1 << 20
Batches = Iterable[pa.RecordBatch]


def check_target(address: str, format: OutputFormat, *, wide: bool) -> None:  # noqa: A002  as the option is named
    """Raise OptionError if the output file cannot be written, or if ``--format`` or ``--wide`` is set as well."""
    file_ending(address)
    if format is not OutputFormat.TABLE:
        raise OptionError(
            "--format applies only to printing", hint="The ending of --to chooses the format"
        )
    if wide:
        raise OptionError(
            "--wide applies only to printing", hint="Omit it: --to writes all columns"
        )


def write_and_count(address: str, rows: pa.RecordBatchReader, limit: int | None) -> None:
    """Write rows to a new output file and print their number.

    Raises the same errors as ``write_rows``.
    """
    count = write_rows(address, rows, rows.schema, limit)
    with report_finished():
        print(f"{count_noun(count, 'row')}: {mask_logins(address)}")


def write_rows(address: str, batches: Batches, schema: pa.Schema, limit: int | None) -> int:
    """Write at most ``limit`` rows to a new output file, and return their number.

    Raises OptionError for an unknown suffix, and StorageError if the file exists. If reading or
    writing fails, no file remains.
    """
    write = WRITERS[file_ending(address)]
    check_column_names(schema.names)
    if address_exists(address):
        raise file_exists_error(address)
    counted = RowCounter()
    with _upload(address) if is_stored(address) else _whole(_path(address)) as unfinished:
        write(unfinished, counted.of(limit_rows(batches, limit)), schema)
    return counted.rows


def _path(address: str) -> Path:
    return Path(locate(address)[1])


def file_exists_error(address: str) -> StorageError:
    """Build the error for an output file that already exists."""
    hint = "Name another one: no file is overwritten"
    return StorageError("the file exists already", where=Where(source=address), hint=hint)


def file_ending(address: str) -> str:
    """Return the output file's suffix.

    Raises OptionError if it is unknown, or the store is read-only.
    """
    path = address
    if is_stored(address):
        path = writable_store(address, "a file of rows")[1]
    ending = Path(path).suffix.lower()
    if ending not in WRITERS:
        known = ", ".join(WRITERS)
        raise OptionError(
            f"{address} has none of the endings {known}", hint="For example orders.parquet"
        )
    return ending


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """Context manager that yields a hidden path beside the output file.

    If the block ends without an error, this file gets the name of the output file; otherwise it is
    deleted.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        with convert_write_errors(path):
            unfinished.rename(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def _upload(address: str) -> Iterator[Path]:
    """Context manager that yields a temporary local path for an output file in an object store.

    If the block ends without an error, the file is uploaded; otherwise it is deleted.
    """
    store, key = writable_store(address, "a file of rows")
    with TemporaryDirectory(prefix="trailgate-") as folder:
        path = Path(folder) / "rows"
        yield path
        upload = store.begin(key)
        try:
            with convert_write_errors(path), path.open("rb") as file:
                shutil.copyfileobj(file, upload.file, COPIED)
            upload.finish()
        finally:
            upload.abort()


def _parquet(path: Path, batches: Batches, schema: pa.Schema) -> None:
    with convert_write_errors(path):
        file = path.open("wb")
    with file, _parquet_writer(file, schema) as writer:
        # Batches may be small, so collect them until they fill a row group.
        buffered: list[pa.RecordBatch] = []
        for batch in batches:
            buffered.append(batch)
            if sum(part.nbytes for part in buffered) >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(buffered, schema))
                buffered = []
        if buffered:
            writer.write_table(pa.Table.from_batches(buffered, schema))


def _parquet_writer(file: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    """Open a writer of Parquet. Raises OptionError for a column whose type Parquet does not have."""
    import pyarrow.parquet as pq  # noqa: PLC0415  only this needs it

    for column in schema:
        try:
            pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([column])).close()
        except pa.ArrowNotImplementedError:
            raise OptionError(
                f"Parquet has no type for {column.type}",
                where=Where(field=column.name),
                hint="Make it text in the statement, as CAST(... AS VARCHAR), or write .csv or .jsonl",
            ) from None
    return pq.ParquetWriter(file, schema)


def _csv(path: Path, batches: Batches, schema: pa.Schema) -> None:
    with _printing_to(path):
        print_csv(batches, schema.names)


def _json(path: Path, batches: Batches, _: pa.Schema) -> None:
    with _printing_to(path):
        print_json(batches)


@contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    with convert_write_errors(path):
        file = path.open("w", encoding="utf-8", newline="")
    with file, redirect_stdout(file):
        yield


# By the ending of a file.
WRITERS: Final[Mapping[str, Callable[[Path, Batches, pa.Schema], None]]] = MappingProxyType(
    {".parquet": _parquet, ".csv": _csv, ".jsonl": _json, ".json": _json}
)
